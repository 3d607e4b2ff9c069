#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/tensor.hpp"
#include "core/type_table.hpp"

/// Whether a tensor can be walked at all. Callers may write anything into the fields of a tensor.
namespace heddle {

/// More than any memory has: the `byte_size` of a tensor whose strides lead further than can be
/// counted. Rounding it up to an alignment, or adding as much again, does not wrap.
inline constexpr std::size_t kUncountable = SIZE_MAX / 2;

/// Whether the type exists, no extent is negative, elements and bytes can be counted, and rows of
/// block types are whole blocks that follow each other. `*bytes` becomes the `byte_size`.
///
/// Inline, with a short way for tensors as they are: it is asked of every tensor of every plan.
inline bool has_sound_layout(const Tensor& tensor, std::size_t* bytes);

/// The same, with the reason in words.
Result<> check_layout(const Tensor& tensor);

/// Whether a tensor of `bytes` bytes ends before the tensor that it is a view of. What is no view
/// does.
inline bool is_within_root(const Tensor& tensor, std::size_t bytes);

namespace detail {

/// The same as `has_sound_layout`, for layouts of any kind.
bool has_sound_layout_slow(const Tensor& tensor, std::size_t* bytes);

/// Whether the layout is of a kind for which nothing can overflow: not empty, extents below 2^28,
/// strides below 2^34 bytes, at most 2^48 elements, as matrices of at most 2^32. One branch for all
/// of it: what is 0 becomes very large when 1 is taken away.
inline bool is_ordinary(const Tensor& t) {
    const auto n = [&](int d) { return static_cast<std::uint64_t>(t.ne[d]); };
    const std::uint64_t extents = n(0) | n(1) | n(2) | n(3);
    const std::uint64_t steps = t.nb[0] | t.nb[1] | t.nb[2] | t.nb[3];
    const std::uint64_t matrix = n(0) * n(1), matrices = n(2) * n(3);
    return (extents >> 28 | steps >> 34 | (matrix - 1) >> 32 | (matrices - 1) >> 16) == 0;
}

/// `byte_size` of an ordinary layout.
inline std::size_t span_of_ordinary(const TypeInfo& info, const Tensor& t) {
    const auto along = [&](int d) { return static_cast<std::size_t>(t.ne[d] - 1) * t.nb[d]; };
    const std::size_t row = info.block == 1
                                ? info.bytes + along(0)
                                : static_cast<std::size_t>(t.ne[0]) * t.nb[0] >>
                                      std::countr_zero(static_cast<std::size_t>(info.block));
    return row + along(1) + along(2) + along(3);
}

}  // namespace detail

inline bool has_sound_layout(const Tensor& t, std::size_t* bytes) {
    const TypeInfo& info = detail::find_type(t.type);
    if (info.block == 0 || !detail::is_ordinary(t)) [[unlikely]] {
        std::size_t counted = 0;  // not `bytes`, which can stay in a register then
        const bool sound = detail::has_sound_layout_slow(t, &counted);
        *bytes = counted;
        return sound;
    }
    *bytes = detail::span_of_ordinary(info, t);
    if (info.block == 1) return true;
    // Asked of single blocks, too: `byte_size` takes a block to be as long as its stride.
    return (t.ne[0] & (info.block - 1)) == 0 && t.nb[0] == info.bytes;
}

inline bool is_within_root(const Tensor& t, std::size_t bytes) {
    if (t.view_src == nullptr || bytes == 0) return true;
    const Tensor& root = *t.view_src;
    const TypeInfo& info = detail::find_type(root.type);
    const std::size_t limit = info.block != 0 && detail::is_ordinary(root)
                                  ? detail::span_of_ordinary(info, root)
                                  : byte_size(root);
    return t.view_offs <= limit && bytes <= limit - t.view_offs;
}

}  // namespace heddle
