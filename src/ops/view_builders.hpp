#pragma once

#include <initializer_list>

#include "ops/view.hpp"

namespace heddle {

/// Extents of a tensor given fewer than four of them: the others are 1.
Result<Extents> full_extents(std::initializer_list<std::int64_t> extents);

/// x with other extents; x must be contiguous.
Result<Tensor*> reshape_nd(Context& context, Tensor* x,
                           std::initializer_list<std::int64_t> extents);

/// x with the extents of `shape`, which is not looked at in any other way and not kept.
Result<Tensor*> reshape_like(Context& context, Tensor* x, const Tensor* shape);

/// A part of x from byte `offset` on. `strides` are those of dimensions 1 and up; dimensions
/// without one are packed over the dimension below.
Result<Tensor*> view_nd(Context& context, Tensor* x, std::initializer_list<std::int64_t> extents,
                        std::initializer_list<std::size_t> strides, std::size_t offset);

}  // namespace heddle
