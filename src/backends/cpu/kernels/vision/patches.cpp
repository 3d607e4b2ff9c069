#include "backends/cpu/kernels/vision/patches.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/dot/convert.hpp"

namespace heddle::cpu {
namespace {

/// Elements of a row that are looked at together.
constexpr std::int64_t kSegment = 512;

/// Patches that are filled together: their rows stay in the first cache.
constexpr std::int64_t kPatches = 32;

/// `n` elements from number `first` on of a row, in the type of the patches; zeros outside of it.
template <class T>
void read_segment(const SlidingVolume& volume, const std::byte* row, std::int64_t first,
                  std::int64_t n, T* to) {
    const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, n);
    const std::int64_t end = std::clamp<std::int64_t>(volume.width.extent - first, begin, n);
    std::fill(to, to + begin, T{});
    std::fill(to + end, to + n, T{});
    if (begin == end) return;
    const std::byte* from = row + static_cast<std::size_t>(first + begin) * volume.width.pitch;
    const std::size_t size = size_of(volume.data->type);
    alignas(float) std::byte dense[kSegment * sizeof(float)];
    if (volume.width.pitch != size) {
        for (std::int64_t i = 0; i < end - begin; ++i, from += volume.width.pitch) {
            std::memcpy(dense + static_cast<std::size_t>(i) * size, from, size);
        }
        from = dense;
    }
    if (sizeof(T) < size) {
        f32_to_f16_row(reinterpret_cast<const float*>(from), to + begin, end - begin);
    } else {
        std::memcpy(to + begin, from, static_cast<std::size_t>(end - begin) * sizeof(T));
    }
}

/// Patches next to each other, along the width.
struct Run {
    std::int64_t x, y, z, batch;
    std::int64_t count;
    std::byte* to;  ///< the first patch
    std::size_t pitch;
};

/// Taps of the width that fit into a segment.
std::int64_t taps_per_segment(const SlidingVolume::Axis& width) {
    if (width.dilation == 0) return width.taps;
    return std::min(width.taps, (kSegment - 1) / width.dilation + 1);
}

/// Positions whose taps fit into a segment.
std::int64_t positions_per_segment(const SlidingVolume::Axis& width) {
    const std::int64_t reach = (taps_per_segment(width) - 1) * width.dilation + 1;
    return std::min(kPatches, (kSegment - reach) / width.stride + 1);
}

/// Gives each patch its `taps` elements of a segment, from element `at` on. Small numbers of them
/// are constants where this is used most, so that no loop is left.
template <std::int64_t kTaps, class T>
void spread_taps(const SlidingVolume::Axis& width, const Run& run, const T* segment,
                 std::int64_t at, std::int64_t taps) {
    const std::int64_t count = kTaps > 0 ? kTaps : taps;
    for (std::int64_t p = 0; p < run.count; ++p) {
        T* to = reinterpret_cast<T*>(run.to + static_cast<std::size_t>(p) * run.pitch) + at;
        const T* from = segment + p * width.stride;
        for (std::int64_t t = 0; t < count; ++t) to[t] = from[t * width.dilation];
    }
}

template <class T>
void spread_segment(const SlidingVolume::Axis& width, const Run& run, const T* segment,
                    std::int64_t at, std::int64_t taps) {
    switch (taps) {
        case 1:
            return spread_taps<1>(width, run, segment, at, taps);
        case 2:
            return spread_taps<2>(width, run, segment, at, taps);
        case 3:
            return spread_taps<3>(width, run, segment, at, taps);
        case 4:
            return spread_taps<4>(width, run, segment, at, taps);
        default:
            return spread_taps<0>(width, run, segment, at, taps);
    }
}

/// The taps of one row of the kernel, from element `at` of the patches on. `row` is null where the
/// kernel's row lies outside of the data.
template <class T>
void gather_row(const SlidingVolume& volume, const Run& run, const std::byte* row,
                std::int64_t at) {
    const SlidingVolume::Axis& width = volume.width;
    const std::int64_t most = taps_per_segment(width);
    T segment[kSegment];
    for (std::int64_t tap = 0; tap < width.taps; tap += most) {
        const std::int64_t taps = std::min(most, width.taps - tap);
        const std::int64_t span = (run.count - 1) * width.stride + (taps - 1) * width.dilation + 1;
        if (row == nullptr) {
            std::fill(segment, segment + span, T{});
        } else {
            read_segment(volume, row, width.source(run.x, tap), span, segment);
        }
        spread_segment(volume.width, run, segment, at + tap, taps);
    }
}

template <class T>
void gather_run(const SlidingVolume& volume, const Run& run) {
    std::int64_t at = 0;
    for (std::int64_t channel = 0; channel < volume.channels; ++channel) {
        for (std::int64_t tap_z = 0; tap_z < volume.depth.taps; ++tap_z) {
            const std::int64_t z = volume.depth.source(run.z, tap_z);
            for (std::int64_t tap_y = 0; tap_y < volume.height.taps; ++tap_y) {
                const std::int64_t y = volume.height.source(run.y, tap_y);
                const bool inside = volume.depth.has(z) && volume.height.has(y);
                gather_row<T>(volume, run, inside ? volume.row(y, z, channel, run.batch) : nullptr,
                              at);
                at += volume.width.taps;
            }
        }
    }
}

}  // namespace

std::string_view patches_objection(const SlidingVolume& volume, Type type) {
    const Type from = volume.data->type;
    if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16) return "patches are f32 or f16";
    if (from != GGML_TYPE_F32 && from != type) return "x is not f32 nor of the patches' type";
    if (volume.width.dilation < 0) return "the dilation is negative";
    return {};
}

void gather_patches(const SlidingVolume& volume, std::int64_t batch, Range pixels, Type type,
                    std::byte* to, std::size_t pitch) {
    const std::int64_t across = volume.width.positions, down = volume.height.positions;
    const std::int64_t most = positions_per_segment(volume.width);
    std::int64_t pixel = pixels.begin;
    while (pixel < pixels.end) {
        const std::int64_t x = pixel % across;
        const std::int64_t count = std::min({most, across - x, pixels.end - pixel});
        const Run run{.x = x,
                      .y = pixel / across % down,
                      .z = pixel / (across * down),
                      .batch = batch,
                      .count = count,
                      .to = to + static_cast<std::size_t>(pixel - pixels.begin) * pitch,
                      .pitch = pitch};
        if (type == GGML_TYPE_F32) {
            gather_run<float>(volume, run);
        } else {
            gather_run<std::uint16_t>(volume, run);
        }
        pixel += count;
    }
}

}  // namespace heddle::cpu
