#pragma once

#include "backends/cpu/kernel.hpp"
#include "ops/convolution.hpp"

namespace heddle::cpu {

/// A transposed convolution of images; signals are images of height 1.
struct Transposed {
    /// Groups of `stride` elements of the result that are summed together.
    static constexpr std::int64_t kPiece = 512;

    const Tensor &node, &kernel, &x;
    bool is_signal;
    std::int64_t stride;
    std::int64_t taps, taps_y;  ///< extents of the kernel
    std::int64_t width, height, in_channels;
    std::int64_t out_width, out_height, out_channels, batches;
    std::size_t tap_pitch, tap_y_pitch, out_pitch, in_pitch;  ///< of the kernel

    // The data: those of x, or a copy.
    const std::byte* data;
    std::size_t row_pitch, channel_pitch, batch_pitch;

    float* out_row(std::int64_t y, std::int64_t channel, std::int64_t batch) const {
        return is_signal ? at<float>(node, 0, channel) : at<float>(node, 0, y, channel, batch);
    }

    const float* row(std::int64_t y, std::int64_t channel, std::int64_t batch) const {
        return reinterpret_cast<const float*>(data + static_cast<std::size_t>(y) * row_pitch +
                                              static_cast<std::size_t>(channel) * channel_pitch +
                                              static_cast<std::size_t>(batch) * batch_pitch);
    }

    /// The kernel's row for a pair of channels.
    const std::byte* weights(std::int64_t tap_y, std::int64_t out, std::int64_t in) const {
        return static_cast<const std::byte*>(kernel.data) +
               static_cast<std::size_t>(tap_y) * tap_y_pitch +
               static_cast<std::size_t>(out) * out_pitch + static_cast<std::size_t>(in) * in_pitch;
    }

    // Along one axis, tap k of element w lands on element w * stride + k of the result: in group
    // w + k / stride, at place k % stride.

    /// Places of a group that taps land on.
    std::int64_t hit_places(std::int64_t all) const { return stride < all ? stride : all; }
    /// Of `all` taps, those that land on a place.
    std::int64_t taps_at(std::int64_t place, std::int64_t all) const {
        return (all - place + stride - 1) / stride;
    }

    /// Elements of a group that the result has at all.
    std::int64_t places() const { return stride < out_width ? stride : out_width; }
    std::int64_t groups() const { return (out_width + stride - 1) / stride; }
    std::int64_t groups_y() const { return (out_height + stride - 1) / stride; }
    std::int64_t pieces_per_row() const { return (groups() + kPiece - 1) / kPiece; }
    std::int64_t pieces() const { return pieces_per_row() * out_height * out_channels * batches; }

    /// Bytes of a rounded copy of the data, a whole number of cache lines; 0 if there is no need
    /// for one.
    std::size_t rounded_size() const {
        if (kernel.type == GGML_TYPE_F32) return 0;
        return (static_cast<std::size_t>(element_count(x)) * sizeof(float) + 63) / 64 * 64;
    }

    /// Takes the data from a dense copy instead.
    void use_rounded(const float* copy) {
        data = reinterpret_cast<const std::byte*>(copy);
        row_pitch = static_cast<std::size_t>(width) * sizeof(float);
        const std::size_t image = row_pitch * static_cast<std::size_t>(height);
        channel_pitch = image;
        batch_pitch = image * static_cast<std::size_t>(in_channels);
    }
};

inline Transposed transposed_1d(const Tensor& node) {
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    return {.node = node,
            .kernel = kernel,
            .x = x,
            .is_signal = true,
            .stride = unpack<ops::ConvTranspose1d::Params>(node).stride[0],
            .taps = kernel.ne[0],
            .taps_y = 1,
            .width = x.ne[0],
            .height = 1,
            .in_channels = x.ne[1],
            .out_width = node.ne[0],
            .out_height = 1,
            .out_channels = node.ne[1],
            .batches = 1,
            .tap_pitch = kernel.nb[0],
            .tap_y_pitch = 0,
            .out_pitch = kernel.nb[1],
            .in_pitch = kernel.nb[2],
            .data = static_cast<const std::byte*>(x.data),
            .row_pitch = 0,
            .channel_pitch = x.nb[1],
            .batch_pitch = 0};
}

inline Transposed transposed_2d(const Tensor& node) {
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    return {.node = node,
            .kernel = kernel,
            .x = x,
            .is_signal = false,
            .stride = unpack<ops::ConvTranspose2d::Params>(node).stride,
            .taps = kernel.ne[0],
            .taps_y = kernel.ne[1],
            .width = x.ne[0],
            .height = x.ne[1],
            .in_channels = x.ne[2],
            .out_width = node.ne[0],
            .out_height = node.ne[1],
            .out_channels = node.ne[2],
            .batches = node.ne[3],
            .tap_pitch = kernel.nb[0],
            .tap_y_pitch = kernel.nb[1],
            .out_pitch = kernel.nb[2],
            .in_pitch = kernel.nb[3],
            .data = static_cast<const std::byte*>(x.data),
            .row_pitch = x.nb[1],
            .channel_pitch = x.nb[2],
            .batch_pitch = x.nb[3]};
}

}  // namespace heddle::cpu
