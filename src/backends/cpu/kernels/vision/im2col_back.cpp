#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/vision/im2col_back.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/vision/interleave.hpp"
#include "backends/cpu/kernels/vision/patch_tile.hpp"
#include "ggml/op_list.h"
#include "ops/im2col.hpp"

#ifndef HEDDLE_CPU_IM2COL_BACK_ONCE
#define HEDDLE_CPU_IM2COL_BACK_ONCE
namespace heddle::cpu {
namespace {

using Tile = PatchTile<float>;

/// The gradient of patches, and where those were taken from.
struct Folding {
    const Tensor &node, &dy;
    SlidingVolume volume;  ///< of the result
    bool is_2d;

    explicit Folding(const Tensor& y) : node(y), dy(*y.src[0]) {
        const auto params = unpack<ops::Im2colBack::Params>(node);
        const Tensor& kernel = *node.src[1];
        is_2d = params.is_2d != 0;
        const int channels = is_2d ? 2 : 1;
        volume.width = sliding_axis(params.window, 0, node, kernel.ne[0], dy.ne[1]);
        if (is_2d) {
            volume.height = sliding_axis(params.window, 1, node, kernel.ne[1], dy.ne[2]);
        }
        volume.channels = node.ne[channels];
        volume.batches = node.ne[channels + 1];
    }

    /// A row of the result.
    float* row(std::int64_t y, std::int64_t channel, std::int64_t batch) const {
        return is_2d ? at<float>(node, 0, y, channel, batch) : at<float>(node, 0, channel, batch);
    }

    /// Element `i` of a patch.
    const float* patch(std::int64_t i, std::int64_t x, std::int64_t y, std::int64_t batch) const {
        return is_2d ? at<const float>(dy, i, x, y, batch) : at<const float>(dy, i, x, batch);
    }

    bool suits_tiles() const {
        return dy.nb[0] == sizeof(float) && Tile::suits(volume.width) &&
               volume.height.taps <= Tile::kRows;
    }
    std::int64_t channels_per_tile() const { return Tile::kRows / volume.height.taps; }
};

}  // namespace
}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Adds `rows` interleaved elements of `kTaps` columns to as many columns, which lie `step`
/// elements apart. Where rows are no whole number of vectors, nothing is added to what follows
/// them.
template <int kTaps>
HWY_INLINE void add_patch(const float* from, std::int64_t rows, float* to, std::int64_t step) {
    using Turns = Interleave<kTaps, float>;
    constexpr std::int64_t lanes = Turns::kLanes;
    std::int64_t r = 0;
    for (; r + lanes <= rows; r += lanes) Turns::add(from + r * kTaps, to + r, step);
    if (r == rows) return;
    float rest[kTaps * lanes] = {};
    std::memcpy(rest, from + r * kTaps,
                static_cast<std::size_t>((rows - r) * kTaps) * sizeof(float));
    Turns::add(rest, to + r, step);
}

/// to[i] += from[i]
HWY_INLINE void add_row(const float* from, std::int64_t n, float* to) {
    map_floats(from, to, to, n, [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

/// Patches that are asked for before they are used.
constexpr std::int64_t kAhead = 3;

/// Patches next to each other, of some channels: what they add to each row of the kernel, and of
/// these to rows `band` of the result.
template <int kTaps>
void fold_run(const Folding& folding, Tile& tile, Range positions, std::int64_t position_y,
              Range channels, Range band, std::int64_t batch) {
    const SlidingVolume::Axis &width = folding.volume.width, &height = folding.volume.height;
    const std::int64_t rows = (channels.end - channels.begin) * height.taps;
    const std::int64_t span =
        (positions.end - positions.begin - 1) * width.stride + Tile::reach(width);
    std::memset(tile.columns, 0, static_cast<std::size_t>(span) * sizeof(tile.columns[0]));
    const std::int64_t size = rows * kTaps * static_cast<std::int64_t>(sizeof(float));
    const auto x_pitch = static_cast<std::int64_t>(folding.dy.nb[1]);
    for (std::int64_t x = positions.begin; x < positions.end; ++x) {
        const float* from =
            folding.patch(channels.begin * height.taps * kTaps, x, position_y, batch);
        if (x + kAhead < positions.end) {
            const auto* later = reinterpret_cast<const std::byte*>(from) + kAhead * x_pitch;
            for (std::int64_t b = 0; b < size; b += 64) hwy::Prefetch(later + b);
        }
        add_patch<kTaps>(from, rows, tile.columns[(x - positions.begin) * width.stride],
                         width.dilation * Tile::kRows);
    }
    tile.turn_columns(rows, span);

    const std::int64_t first = width.source(positions.begin, 0);
    const std::int64_t begin = HWY_MAX(first, 0), end = HWY_MIN(first + span, width.extent);
    for (std::int64_t r = 0; r < rows && begin < end; ++r) {
        const std::int64_t y = height.source(position_y, r % height.taps);
        if (y < band.begin || y >= band.end) continue;
        float* to = folding.row(y, channels.begin + r / height.taps, batch);
        add_row(tile.rows[r] + (begin - first), end - begin, to + begin);
    }
}

template <int kTaps>
void fold(const Folding& folding, Range channels, Range band, std::int64_t batch) {
    const SlidingVolume::Axis &width = folding.volume.width, &height = folding.volume.height;
    for (std::int64_t c = channels.begin; c < channels.end; ++c) {
        for (std::int64_t y = band.begin; y < band.end; ++y) {
            std::memset(folding.row(y, c, batch), 0,
                        static_cast<std::size_t>(width.extent) * sizeof(float));
        }
    }
    const auto reaches = [&](std::int64_t position) {
        for (std::int64_t tap = 0; tap < height.taps; ++tap) {
            const std::int64_t y = height.source(position, tap);
            if (band.begin <= y && y < band.end) return true;
        }
        return false;
    };
    const std::int64_t most = Tile::positions(width);
    Tile tile;
    for (std::int64_t y = 0; y < height.positions; ++y) {
        if (!reaches(y)) continue;
        for (std::int64_t x = 0; x < width.positions; x += most) {
            fold_run<kTaps>(folding, tile, {x, HWY_MIN(x + most, width.positions)}, y, channels,
                            band, batch);
        }
    }
}

}  // namespace

void fold_tiles(const Folding& folding, Range channels, Range band, std::int64_t batch) {
    switch (folding.volume.width.taps) {
        case 1:
            return fold<1>(folding, channels, band, batch);
        case 2:
            return fold<2>(folding, channels, band, batch);
        case 3:
            return fold<3>(folding, channels, band, batch);
        default:
            return fold<4>(folding, channels, band, batch);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(fold_tiles);
namespace {

std::string_view objection(const Tensor& node) {
    const Folding folding(node);
    const Tensor &dy = folding.dy, &kernel = *node.src[1];
    if (dy.type != GGML_TYPE_F32) return "dy is not f32";
    if (kernel.type != GGML_TYPE_F32 && kernel.type != GGML_TYPE_F16) {
        return "the kernel is not f32 or f16";
    }
    if (node.nb[0] != sizeof(float)) return "rows of the result are not dense";
    const bool fits = dy.ne[0] == folding.volume.patch_size() &&
                      dy.ne[folding.is_2d ? 3 : 2] == folding.volume.batches &&
                      (folding.is_2d || node.ne[3] == 1);
    return fits ? "" : "dy does not have the patches of the result";
}

/// Blocks of channels. Where these are few, several tasks share each, and part the rows; patches
/// that add to rows of two tasks are read twice.
void run_tiles(const Folding& folding, const Task& task) {
    const SlidingVolume& volume = folding.volume;
    const std::int64_t size = folding.channels_per_tile(), height = volume.height.extent;
    const std::int64_t blocks = (volume.channels + size - 1) / size;
    const std::int64_t units = blocks * volume.batches;
    const std::int64_t bands = std::min((task.count + units - 1) / units, height);
    const Range pieces = task.share(units * bands);
    for (std::int64_t piece = pieces.begin; piece < pieces.end; ++piece) {
        const std::int64_t band = piece % bands, first = piece / bands % blocks * size;
        HWY_DYNAMIC_DISPATCH(fold_tiles)
        (folding, {first, std::min(first + size, volume.channels)},
         {height * band / bands, height * (band + 1) / bands}, piece / bands / blocks);
    }
}

/// Adds what the taps of the kernel's row `tap_y` saw in row `y` of the result.
void add_row(const Folding& folding, float* to, std::int64_t position_y, std::int64_t tap_y,
             std::int64_t channel, std::int64_t batch) {
    const SlidingVolume::Axis& width = folding.volume.width;
    const std::int64_t row = (channel * folding.volume.height.taps + tap_y) * width.taps;
    for (std::int64_t tap = 0; tap < width.taps; ++tap) {
        const Range inside = positions_inside(width, tap);
        for (std::int64_t x = inside.begin; x < inside.end; ++x) {
            to[width.source(x, tap)] += *folding.patch(row + tap, x, position_y, batch);
        }
    }
}

void run_rows(const Folding& folding, const Task& task) {
    const Tensor& node = folding.node;
    const SlidingVolume::Axis& height = folding.volume.height;
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        float* to = row_at<float>(node, row);
        std::memset(to, 0, static_cast<std::size_t>(node.ne[0]) * sizeof(float));
        if (!folding.is_2d) return add_row(folding, to, 0, 0, row.i1, row.i2);
        for (std::int64_t tap = 0; tap < height.taps; ++tap) {
            const std::int64_t way = row.i1 - height.source(0, tap);
            if (way < 0 || way % height.stride != 0) continue;
            const std::int64_t position = way / height.stride;
            if (position < height.positions) {
                add_row(folding, to, position, tap, row.i2, row.i3);
            }
        }
    });
}

void run(const Tensor& node, const Task& task) {
    if (is_empty(node)) return;
    const Folding folding(node);
    if (folding.suits_tiles()) {
        run_tiles(folding, task);
    } else {
        run_rows(folding, task);
    }
}

}  // namespace

extern const Kernel kIm2colBack{
    .name = "im2col_back", .op = GGML_OP_IM2COL_BACK, .objection = objection, .run = run};

}  // namespace heddle::cpu
#endif
