/// Ops on signals and images: [width, channels, batch] and [width, height, channels, batch]. Part
/// of `heddle/heddle.hpp`.
#pragma once

#include <array>

#include "../../ggml/ops_layout.h"
#include "../../ggml/ops_nn.h"
#include "op.hpp"

namespace heddle::api {

/// How a kernel moves over an image; the first number is for the width.
struct Sweep {
    std::array<int, 2> stride = {1, 1};
    std::array<int, 2> padding = {0, 0};
    std::array<int, 2> dilation = {1, 1};
};

namespace detail {

template <auto function>
Tensor swept(const Tensor& kernel, const Tensor& x, const Sweep& s) {
    return op<function>(kernel, x, s.stride[0], s.stride[1], s.padding[0], s.padding[1],
                        s.dilation[0], s.dilation[1]);
}

}  // namespace detail

// ---- convolutions ------------------------------------------------------------------------------

/// kernel [k, in, out], x [length, in, n] give [length', out, n].
inline Tensor conv_1d(const Tensor& kernel, const Tensor& x, int stride = 1, int padding = 0,
                      int dilation = 1) {
    return op<ggml_conv_1d>(kernel, x, stride, padding, dilation);
}
/// kernel [kw, kh, in, out], x [w, h, in, n] give [w', h', out, n]. By way of im2col.
inline Tensor conv_2d(const Tensor& kernel, const Tensor& x, const Sweep& sweep = {}) {
    return detail::swept<ggml_conv_2d>(kernel, x, sweep);
}
/// The same in one op, without the memory of im2col.
inline Tensor conv_2d_direct(const Tensor& kernel, const Tensor& x, const Sweep& sweep = {}) {
    return detail::swept<ggml_conv_2d_direct>(kernel, x, sweep);
}
/// Channel by channel: kernel [kw, kh, 1, c], x [w, h, c, n] give [w', h', c, n].
inline Tensor conv_2d_depthwise(const Tensor& kernel, const Tensor& x, const Sweep& sweep = {}) {
    return detail::swept<ggml_conv_2d_dw_direct>(kernel, x, sweep);
}
/// kernel [k, out, in], x [length, in] give [(length - 1) stride + k, out].
inline Tensor conv_transpose_1d(const Tensor& kernel, const Tensor& x, int stride) {
    return op<ggml_conv_transpose_1d>(kernel, x, stride, 0, 1);
}
/// kernel [kw, kh, out, in], x [w, h, in, n] give [(w - 1) stride + kw, ..., out, n].
inline Tensor conv_transpose_2d(const Tensor& kernel, const Tensor& x, int stride) {
    return op<ggml_conv_transpose_2d_p0>(kernel, x, stride);
}
/// The patches a two-dimensional convolution with `kernel` multiplies, one to a row.
inline Tensor im2col(const Tensor& kernel, const Tensor& x, const Sweep& s = {},
                     ggml_type type = GGML_TYPE_F32) {
    return op<ggml_im2col>(kernel, x, s.stride[0], s.stride[1], s.padding[0], s.padding[1],
                           s.dilation[0], s.dilation[1], true, type);
}

// ---- pooling and resizing ----------------------------------------------------------------------

/// The mean or the largest (`how`) of windows of `width` elements.
inline Tensor pool_1d(const Tensor& x, ggml_op_pool how, int width, int stride, int padding = 0) {
    return op<ggml_pool_1d>(x, how, width, stride, padding);
}
inline Tensor pool_2d(const Tensor& x, ggml_op_pool how, std::array<int, 2> window,
                      std::array<int, 2> stride, std::array<float, 2> padding = {0, 0}) {
    return op<ggml_pool_2d>(x, how, window[0], window[1], stride[0], stride[1], padding[0],
                            padding[1]);
}
/// Larger by a whole factor in both directions.
inline Tensor upscale(const Tensor& x, int factor, ggml_scale_mode mode = GGML_SCALE_MODE_NEAREST) {
    return op<ggml_upscale>(x, factor, mode);
}
/// To these extents; `mode` is a ggml_scale_mode, with ggml_scale_flag bits added.
inline Tensor interpolate(const Tensor& x, std::array<std::int64_t, 4> extents,
                          std::uint32_t mode = GGML_SCALE_MODE_BILINEAR) {
    return op<ggml_interpolate>(x, extents[0], extents[1], extents[2], extents[3], mode);
}

/// Sines and cosines of `timesteps`, `dimensions` for each.
inline Tensor timestep_embedding(const Tensor& timesteps, int dimensions, int longest_period) {
    return op<ggml_timestep_embedding>(timesteps, dimensions, longest_period);
}

}  // namespace heddle::api
