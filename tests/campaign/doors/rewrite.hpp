#pragma once

#include "core/tensor.hpp"
#include "tests/campaign/door.hpp"

namespace heddle::campaign {

/// Writes something else into one field of the node, or of one of its sources: op, type, an extent,
/// a stride, a word of op_params, a source, flags, the memory it views.
void rewrite_field(Tensor& node, Choices& choices, Trace& trace);

/// A value for a field that has `value`: near it, or absurd.
std::int64_t other_value(std::int64_t value, Choices& choices);

/// Bytes from where the tensor begins to past its last element, as its extents and strides say;
/// `kEndless` if that is more than any memory.
inline constexpr std::size_t kEndless = std::size_t{1} << 62;
std::size_t claimed_bytes(const Tensor& tensor);

}  // namespace heddle::campaign
