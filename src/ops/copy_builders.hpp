#pragma once

#include <initializer_list>

#include "ops/copy.hpp"

namespace heddle {

/// x converted to `type`: a CPY node whose destination is the node itself.
Result<Tensor*> cast(Context& context, Tensor* x, Type type);

/// A contiguous copy of x with other extents.
Result<Tensor*> cont_nd(Context& context, Tensor* x, std::initializer_list<std::int64_t> extents);

/// x tiled to the extents of `shape`, which is not looked at in any other way and not kept.
Result<Tensor*> repeat_like(Context& context, Tensor* x, const Tensor* shape);

/// The sum of the tiles of x that have the extents of `shape`, which is not kept.
Result<Tensor*> repeat_back_like(Context& context, Tensor* x, const Tensor* shape);

/// Rows of x added up where `rows` says, in a matrix with the extents of `shape`, which is not
/// kept.
Result<Tensor*> get_rows_back_like(Context& context, Tensor* x, Tensor* rows, const Tensor* shape);

}  // namespace heddle
