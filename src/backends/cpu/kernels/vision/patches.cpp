#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/vision/patches.cpp"
#include "backends/cpu/kernels/vision/patches.hpp"

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/vision/interleave.hpp"
#include "backends/cpu/kernels/vision/patch_tile.hpp"

#ifndef HEDDLE_CPU_PATCHES_ONCE
#define HEDDLE_CPU_PATCHES_ONCE
namespace heddle::cpu {
namespace {

/// Patches next to each other, along the width.
struct Run {
    std::int64_t x, y, z, batch;
    std::int64_t count;
    std::byte* to;  ///< the first patch
    std::size_t pitch;

    std::byte* patch(std::int64_t number) const {
        return to + static_cast<std::size_t>(number) * pitch;
    }
};

/// The rows of the data that the patches of a run see, in the order of their elements: one for
/// each row of the kernel, of each channel.
class SeenRows {
public:
    SeenRows(const SlidingVolume& volume, const Run& run)
        : volume_(volume), run_(run), ahead_(kAhead / rows_per_channel() + 1) {
        const SlidingVolume::Axis& width = volume.width;
        const auto pitch = static_cast<std::int64_t>(width.pitch);
        const std::int64_t last = width.source(run.x + run.count - 1, width.taps - 1);
        fetched_ = {std::max<std::int64_t>(width.source(run.x, 0), 0) * pitch,
                    std::min(last + 1, width.extent) * pitch};
    }

    std::int64_t count() const { return volume_.channels * rows_per_channel(); }

    /// The next row; null if it lies outside of the data. Also asks for one that follows later, as
    /// rows of other channels are too far away to be foreseen.
    const std::byte* next() {
        const std::int64_t y = volume_.height.source(run_.y, tap_y_);
        const std::int64_t z = volume_.depth.source(run_.z, tap_z_);
        const bool inside = volume_.depth.has(z) && volume_.height.has(y);
        const std::byte* row = inside ? volume_.row(y, z, channel_, run_.batch) : nullptr;
        if (inside && channel_ + ahead_ < volume_.channels) {
            const std::byte* later = row + static_cast<std::size_t>(ahead_) * volume_.channel_pitch;
            for (std::int64_t b = fetched_.begin; b < fetched_.end; b += 64) {
                hwy::Prefetch(later + b);
            }
        }
        step();
        return row;
    }

private:
    static constexpr std::int64_t kAhead = 32;

    std::int64_t rows_per_channel() const { return volume_.height.taps * volume_.depth.taps; }

    void step() {
        if (++tap_y_ < volume_.height.taps) return;
        tap_y_ = 0;
        if (++tap_z_ < volume_.depth.taps) return;
        tap_z_ = 0;
        ++channel_;
    }

    const SlidingVolume& volume_;
    const Run& run_;
    std::int64_t ahead_;  ///< channels
    Range fetched_;       ///< bytes of a row that the run sees
    std::int64_t channel_ = 0, tap_z_ = 0, tap_y_ = 0;
};

}  // namespace
}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Elements of a row that are looked at together.
constexpr std::int64_t kSegment = 512;

/// Patches that are filled together: their rows stay in L1.
constexpr std::int64_t kPatches = 32;

// ---- reading -----------------------------------------------------------------------------------

HWY_INLINE void round_to_f16(const float* from, std::uint16_t* to, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    if (n < step) return convert_row<F32Rows, F16Rows>(from, to, n);
    for (std::int64_t i = 0; i < n; i += step) {
        const std::int64_t at = HWY_MIN(i, n - step);  // the last may do some again
        store_f16(d, hn::LoadU(d, from + at), to + at);
    }
}

/// `n` elements, a vector at a time: calling for a copy would take longer.
template <class T>
HWY_INLINE void copy_elements(const T* from, T* to, std::int64_t n) {
    const Part<T> d;
    const std::int64_t step = lane_count(d);
    if (n < step) {
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
        return;
    }
    for (std::int64_t i = 0; i < n; i += step) {
        const std::int64_t at = HWY_MIN(i, n - step);  // the last may do some again
        hn::StoreU(hn::LoadU(d, from + at), d, to + at);
    }
}

/// Reads `n` elements from number `first` on of one row after the other, in the type of the
/// patches; zeros outside of the row.
template <class T>
class Segment {
public:
    Segment(const SlidingVolume& volume, std::int64_t first, std::int64_t n)
        : n_(n),
          begin_(HWY_MIN(HWY_MAX(-first, 0), n)),
          end_(HWY_MIN(HWY_MAX(volume.width.extent - first, begin_), n)),
          pitch_(volume.width.pitch),
          offset_((first + begin_) * static_cast<std::int64_t>(pitch_)),
          size_(size_of(volume.data->type)) {}

    /// `row` is null where it lies outside of the data.
    HWY_INLINE void read(const std::byte* row, T* to) const {
        if (row == nullptr || begin_ == end_) {
            std::memset(to, 0, static_cast<std::size_t>(n_) * sizeof(T));
            return;
        }
        for (std::int64_t i = 0; i < begin_; ++i) to[i] = 0;
        if (pitch_ == size_) {
            convert(row + offset_, to + begin_);
        } else {
            read_apart(row + offset_, to + begin_);
        }
        for (std::int64_t i = end_; i < n_; ++i) to[i] = 0;
    }

private:
    HWY_INLINE void convert(const std::byte* from, T* to) const {
        if constexpr (sizeof(T) < sizeof(float)) {
            if (size_ == sizeof(float)) {
                return round_to_f16(reinterpret_cast<const float*>(from), to, end_ - begin_);
            }
        }
        copy_elements(reinterpret_cast<const T*>(from), to, end_ - begin_);
    }

    /// The elements do not lie side by side.
    HWY_NOINLINE void read_apart(const std::byte* from, T* to) const {
        alignas(float) std::byte dense[kSegment * sizeof(float)];
        for (std::int64_t i = 0; i < end_ - begin_; ++i, from += pitch_) {
            std::memcpy(dense + static_cast<std::size_t>(i) * size_, from, size_);
        }
        convert(dense, to);
    }

    std::int64_t n_, begin_, end_;
    std::size_t pitch_;
    std::int64_t offset_;  ///< bytes
    std::size_t size_;     ///< of an element of the data
};

// ---- few taps ----------------------------------------------------------------------------------

/// Elements of one patch, of `rows` rows of the data.
template <int kTaps, class T>
HWY_INLINE void write_patch(const T* from, std::int64_t step, std::int64_t rows, T* to) {
    using Turns = Interleave<kTaps, T>;
    constexpr std::int64_t lanes = Turns::kLanes;
    if (rows < lanes) {
        T whole[kTaps * lanes];
        Turns::store(from, step, whole);
        std::memcpy(to, whole, static_cast<std::size_t>(rows * kTaps) * sizeof(T));
        return;
    }
    for (std::int64_t r = 0; r < rows; r += lanes) {
        const std::int64_t at = HWY_MIN(r, rows - lanes);  // the last may do some again
        Turns::store(from + at, step, to + at * kTaps);
    }
}

/// The patches' elements from number `at` on, of the first `rows` rows of the tile.
template <int kTaps, class T>
void write_patches(const SlidingVolume::Axis& width, const Run& run, const PatchTile<T>& tile,
                   std::int64_t at, std::int64_t rows) {
    for (std::int64_t p = 0; p < run.count; ++p) {
        T* to = reinterpret_cast<T*>(run.patch(p)) + at;
        write_patch<kTaps>(tile.columns[p * width.stride], width.dilation * PatchTile<T>::kRows,
                           rows, to);
    }
}

template <class T>
void gather_tiles(const SlidingVolume& volume, const Run& run) {
    const SlidingVolume::Axis& width = volume.width;
    const std::int64_t span = (run.count - 1) * width.stride + PatchTile<T>::reach(width);
    const Segment<T> segment(volume, width.source(run.x, 0), span);
    SeenRows seen(volume, run);
    PatchTile<T> tile;
    for (std::int64_t first = 0; first < seen.count(); first += PatchTile<T>::kRows) {
        const std::int64_t rows = HWY_MIN(PatchTile<T>::kRows, seen.count() - first);
        for (std::int64_t r = 0; r < rows; ++r) segment.read(seen.next(), tile.rows[r]);
        tile.turn_rows(rows, span);
        const std::int64_t at = first * width.taps;
        switch (width.taps) {
            case 1:
                write_patches<1>(width, run, tile, at, rows);
                break;
            case 2:
                write_patches<2>(width, run, tile, at, rows);
                break;
            case 3:
                write_patches<3>(width, run, tile, at, rows);
                break;
            default:
                write_patches<4>(width, run, tile, at, rows);
                break;
        }
    }
}

// ---- many taps, or far apart -------------------------------------------------------------------

/// Taps of the width that fit into a segment.
std::int64_t taps_per_segment(const SlidingVolume::Axis& width) {
    if (width.dilation == 0) return width.taps;
    return HWY_MIN(width.taps, (kSegment - 1) / width.dilation + 1);
}

/// Positions whose taps fit into a segment.
std::int64_t positions_per_segment(const SlidingVolume::Axis& width) {
    const std::int64_t reach = (taps_per_segment(width) - 1) * width.dilation + 1;
    return HWY_MIN(kPatches, (kSegment - reach) / width.stride + 1);
}

/// Gives each patch its `taps` elements of a segment, from element `at` on.
template <class T>
void spread_segment(const SlidingVolume::Axis& width, const Run& run, const T* segment,
                    std::int64_t at, std::int64_t taps) {
    for (std::int64_t p = 0; p < run.count; ++p) {
        T* to = reinterpret_cast<T*>(run.patch(p)) + at;
        const T* from = segment + p * width.stride;
        if (width.dilation == 1) {
            copy_elements(from, to, taps);
        } else {
            for (std::int64_t t = 0; t < taps; ++t) to[t] = from[t * width.dilation];
        }
    }
}

template <class T>
void gather_segments(const SlidingVolume& volume, const Run& run) {
    const SlidingVolume::Axis& width = volume.width;
    const std::int64_t most = taps_per_segment(width);
    T segment[kSegment];
    SeenRows seen(volume, run);
    for (std::int64_t r = 0; r < seen.count(); ++r) {
        const std::byte* row = seen.next();
        for (std::int64_t tap = 0; tap < width.taps; tap += most) {
            const std::int64_t taps = HWY_MIN(most, width.taps - tap);
            const std::int64_t span =
                (run.count - 1) * width.stride + (taps - 1) * width.dilation + 1;
            Segment<T>(volume, width.source(run.x, tap), span).read(row, segment);
            spread_segment(width, run, segment, r * width.taps + tap, taps);
        }
    }
}

template <class T>
void gather(const SlidingVolume& volume, std::int64_t batch, Range pixels, std::byte* to,
            std::size_t pitch) {
    const bool tiles = PatchTile<T>::suits(volume.width);
    const std::int64_t across = volume.width.positions, down = volume.height.positions;
    const std::int64_t most =
        tiles ? PatchTile<T>::positions(volume.width) : positions_per_segment(volume.width);
    for (std::int64_t pixel = pixels.begin, count; pixel < pixels.end; pixel += count) {
        const std::int64_t x = pixel % across;
        count = HWY_MIN(HWY_MIN(most, across - x), pixels.end - pixel);
        const Run run{.x = x,
                      .y = pixel / across % down,
                      .z = pixel / (across * down),
                      .batch = batch,
                      .count = count,
                      .to = to + static_cast<std::size_t>(pixel - pixels.begin) * pitch,
                      .pitch = pitch};
        if (tiles) {
            gather_tiles<T>(volume, run);
        } else {
            gather_segments<T>(volume, run);
        }
    }
}

}  // namespace

void gather_f32(const SlidingVolume& volume, std::int64_t batch, Range pixels, std::byte* to,
                std::size_t pitch) {
    gather<std::uint32_t>(volume, batch, pixels, to, pitch);
}

void gather_f16(const SlidingVolume& volume, std::int64_t batch, Range pixels, std::byte* to,
                std::size_t pitch) {
    gather<std::uint16_t>(volume, batch, pixels, to, pitch);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(gather_f32);
HWY_EXPORT(gather_f16);

std::string_view patches_objection(const SlidingVolume& volume, Type type) {
    const Type from = volume.data->type;
    if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16) return "patches are f32 or f16";
    if (from != GGML_TYPE_F32 && from != type) return "x is not f32 nor of the patches' type";
    if (volume.width.dilation < 0) return "the dilation is negative";
    return {};
}

void gather_patches(const SlidingVolume& volume, std::int64_t batch, Range pixels, Type type,
                    std::byte* to, std::size_t pitch) {
    if (type == GGML_TYPE_F32) {
        HWY_DYNAMIC_DISPATCH(gather_f32)(volume, batch, pixels, to, pitch);
    } else {
        HWY_DYNAMIC_DISPATCH(gather_f16)(volume, batch, pixels, to, pitch);
    }
}

}  // namespace heddle::cpu
#endif
