#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.hpp"

/// Whether a tensor can be walked at all. Callers may write anything into the fields of a tensor.
namespace heddle {

/// More than any memory has: the `byte_size` of a tensor whose strides lead further than can be
/// counted. Rounding it up to an alignment, or adding as much again, does not wrap.
inline constexpr std::size_t kUncountable = SIZE_MAX / 2;

/// Whether the type exists, no extent is negative, elements and bytes can be counted, and rows of
/// block types are whole blocks that follow each other. `*bytes` becomes the `byte_size`.
bool has_sound_layout(const Tensor& tensor, std::size_t* bytes);

/// The same, with the reason in words.
Result<> check_layout(const Tensor& tensor);

/// Whether a tensor of `bytes` bytes ends before the tensor that it is a view of. What is no view
/// does.
bool is_within_root(const Tensor& tensor, std::size_t bytes);

}  // namespace heddle
