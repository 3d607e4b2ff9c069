#pragma once

#include "ops/count.hpp"
#include "ops/rules.hpp"

/// Kernels that slide over an image: parameters and sizes that all convolutions share. Axis 0 is
/// the width, 1 the height, 2 the depth.
namespace heddle {

/// Along each of N axes: steps between positions, zeros around the image, steps between taps.
template <std::size_t N>
struct Sliding {
    std::array<std::int32_t, N> stride;
    std::array<std::int32_t, N> padding;
    std::array<std::int32_t, N> dilation;

    /// Positions of a kernel of extent `taps` over `extent` elements along `axis`.
    ///
    /// The division truncates, so a kernel that reaches past the padded image by less than a stride
    /// still has one position: all its taps lie outside, and the result there is zero.
    Count positions(std::size_t axis, std::int64_t extent, std::int64_t taps) const {
        const Count reach = Count(dilation[axis]) * (Count(taps) - 1) + 1;
        return (Count(extent) + Count(2) * padding[axis] - reach) / stride[axis] + 1;
    }

    /// Strides divide; the first `axes` of them must be positive.
    Result<> check_strides(std::size_t axes = N) const {
        for (std::size_t axis = 0; axis < axes; ++axis) {
            if (stride[axis] < 1) return invalid("stride ", stride[axis], " along axis ", axis);
        }
        return ok();
    }
};

inline constexpr std::array kSlidingFields1{ParamField{"s0", 0}, ParamField{"p0", 1},
                                            ParamField{"d0", 2}};
inline constexpr std::array kSlidingFields2{ParamField{"s0", 0}, ParamField{"s1", 1},
                                            ParamField{"p0", 2}, ParamField{"p1", 3},
                                            ParamField{"d0", 4}, ParamField{"d1", 5}};
inline constexpr std::array kSlidingFields3{
    ParamField{"s0", 0}, ParamField{"s1", 1}, ParamField{"s2", 2},
    ParamField{"p0", 3}, ParamField{"p1", 4}, ParamField{"p2", 5},
    ParamField{"d0", 6}, ParamField{"d1", 7}, ParamField{"d2", 8}};

/// `fields` and, in the words behind them, the given names.
template <std::size_t N, class... Names>
constexpr auto fields_followed_by(const std::array<ParamField, N>& fields, Names... names) {
    std::array<ParamField, N + sizeof...(names)> all{};
    for (std::size_t i = 0; i < N; ++i) all[i] = fields[i];
    std::size_t next = N;
    ((all[next] = ParamField{names, static_cast<int>(next)}, ++next), ...);
    return all;
}

/// Bytes of the data and the result of an op that looks at its kernel's shape only.
inline double bytes_beside_kernel(const Tensor& data, const Tensor& out) {
    return static_cast<double>(byte_size(data)) + static_cast<double>(byte_size(out));
}

}  // namespace heddle
