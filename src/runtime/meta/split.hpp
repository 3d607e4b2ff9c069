#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "ggml-backend.h"

/// Several devices joined into one: each tensor is cut across them, copied to all, or a sum of
/// addends that lie one on each.
namespace heddle::meta {

inline constexpr std::size_t kMaxDevices = GGML_BACKEND_META_MAX_DEVICES;

using Axis = ::ggml_backend_meta_split_axis;
using SplitCallback = ::ggml_backend_meta_get_split_state_t;

/// A run along the cut axis that occurs `repeats` times; in each, the devices follow one another.
struct Segment {
    std::uint32_t repeats = 1;
    std::array<std::int64_t, kMaxDevices> share{};  ///< per device; elements, or bytes in layouts

    std::int64_t length() const;  ///< of one repetition, all devices together
    bool operator==(const Segment&) const = default;
};

/// How a tensor lies on the devices. Segments are there for cut tensors only, none of them of no
/// length, and no two neighbours with the same shares: equal splits have equal members.
struct Split {
    Axis axis = GGML_BACKEND_SPLIT_AXIS_MIRRORED;
    std::vector<Segment> segments;

    bool is_cut() const { return axis <= GGML_BACKEND_SPLIT_AXIS_3; }
    bool is_mirrored() const { return axis == GGML_BACKEND_SPLIT_AXIS_MIRRORED; }
    bool is_sum() const { return axis == GGML_BACKEND_SPLIT_AXIS_PARTIAL; }
    std::size_t dim() const { return static_cast<std::size_t>(axis); }  ///< of a cut tensor

    /// Appends a segment, merged with the last one where the shares are the same.
    void add(const Segment& segment);

    bool operator==(const Split&) const = default;
};

inline Split mirrored() { return {}; }
inline Split sum() { return {GGML_BACKEND_SPLIT_AXIS_PARTIAL, {}}; }

/// "0" to "3", "MIRRORED", "PARTIAL", "NONE", "UNKNOWN"; null for any other number.
const char* axis_name(Axis axis);

/// `MIRRORED`, or `axis 1 (8|8 2x4|4)`: the shares of `devices` devices, segment by segment.
std::string describe(const Split& split, std::size_t devices);

/// What a program said about `tensor`. Fails unless the shares add up to the extent and, along
/// dimension 0, are whole blocks.
Result<Split> checked(const ::ggml_backend_meta_split_state& state, const Tensor& tensor,
                      std::size_t devices);

/// Elements of the axis that `device` has.
std::int64_t total_share(const Split& split, std::size_t device);

/// The same cut along another dimension.
Split moved(Split split, std::size_t dim);

/// The same pattern `count` times.
Split repeated(const Split& split, std::int64_t count);

/// Every share times `factor`.
Split scaled(Split split, std::int64_t factor);

}  // namespace heddle::meta
