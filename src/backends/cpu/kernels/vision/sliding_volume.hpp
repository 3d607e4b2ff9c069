#pragma once

#include <array>
#include <cstdint>

#include "backends/cpu/kernel.hpp"
#include "ops/sliding.hpp"

namespace heddle::cpu {

/// The places of a kernel over images or volumes. A signal is an image of height 1, an image a
/// volume of depth 1.
struct SlidingVolume {
    /// Width, height or depth.
    struct Axis {
        std::int64_t extent = 1;  ///< of the data
        std::size_t pitch = 0;    ///< bytes from one element of the data to the next
        std::int64_t taps = 1;
        std::int64_t positions = 1;
        std::int64_t stride = 1, padding = 0, dilation = 1;

        /// What a tap sees; outside of 0 .. extent - 1 there are zeros.
        std::int64_t source(std::int64_t position, std::int64_t tap) const {
            return position * stride + tap * dilation - padding;
        }

        bool has(std::int64_t i) const { return 0 <= i && i < extent; }
    };

    const Tensor* data = nullptr;
    Axis width, height, depth;
    std::int64_t channels = 1, batches = 1;
    std::size_t channel_pitch = 0, batch_pitch = 0;

    /// Elements that a kernel sees at one position.
    std::int64_t patch_size() const { return channels * depth.taps * height.taps * width.taps; }

    /// Positions over one batch.
    std::int64_t pixels() const { return width.positions * height.positions * depth.positions; }

    /// Where the row (y, z) of a channel begins.
    const std::byte* row(std::int64_t y, std::int64_t z, std::int64_t channel,
                         std::int64_t batch) const {
        return static_cast<const std::byte*>(data->data) +
               static_cast<std::size_t>(y) * height.pitch +
               static_cast<std::size_t>(z) * depth.pitch +
               static_cast<std::size_t>(channel) * channel_pitch +
               static_cast<std::size_t>(batch) * batch_pitch;
    }
};

/// Axis `number` of a window over `data`, which lies in the dimension of that number.
template <std::size_t N>
SlidingVolume::Axis sliding_axis(const Sliding<N>& window, std::size_t number, const Tensor& data,
                                 std::int64_t taps, std::int64_t positions) {
    return {.extent = data.ne[number],
            .pitch = data.nb[number],
            .taps = taps,
            .positions = positions,
            .stride = window.stride[number],
            .padding = window.padding[number],
            .dilation = window.dilation[number]};
}

/// Positions along one axis where a tap lies inside of the data.
inline Range positions_inside(const SlidingVolume::Axis& axis, std::int64_t tap) {
    const std::int64_t first = axis.source(0, tap);
    const auto steps_to = [&](std::int64_t target) {
        const std::int64_t way = target - first;
        const std::int64_t steps = way <= 0 ? 0 : (way + axis.stride - 1) / axis.stride;
        return steps < axis.positions ? steps : axis.positions;
    };
    return {steps_to(0), steps_to(axis.extent)};
}

}  // namespace heddle::cpu
