#include "ops/upscale.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/vision/upscale.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "backends/cpu/kernels/node_flops.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"

#ifndef HEDDLE_CPU_UPSCALE_ONCE
#define HEDDLE_CPU_UPSCALE_ONCE
namespace heddle::cpu {
namespace {

/// One dimension of the result over that of x. Everything is defined in single precision: which
/// elements count is decided by its roundings.
struct Axis {
    std::int64_t extent = 1;  ///< of x
    float factor = 1;         ///< of the result's extent to that of x
    float offset = 0.5f;      ///< of a pixel's middle

    std::int64_t clamp(std::int64_t i) const { return std::clamp<std::int64_t>(i, 0, extent - 1); }

    std::int64_t nearest(std::int64_t i) const {
        return clamp(static_cast<std::int64_t>(static_cast<float>(i) / factor));
    }

    /// Where the middle of element `i` of the result lies, counted from the first middle in x.
    float position(std::int64_t i) const {
        return (static_cast<float>(i) + offset) / factor - offset;
    }

    static std::int64_t floor(float position) {
        const auto whole = static_cast<std::int64_t>(position);
        return static_cast<float>(whole) > position ? whole - 1 : whole;
    }
};

// Elements of x that make up one of the result, from `first` on, and their weights. Those outside
// count as the nearest inside.

struct Single {
    static constexpr std::size_t kTaps = 1;
    std::int64_t first;
    std::array<float, 1> weight{1};

    Single(const Axis& axis, std::int64_t i) : first(axis.nearest(i)) {}
};

struct Blend2 {
    static constexpr std::size_t kTaps = 2;
    std::int64_t first;
    std::array<float, 2> weight;

    Blend2(const Axis& axis, std::int64_t i) {
        const float position = axis.position(i);
        first = Axis::floor(position);
        const float part = std::clamp(position - static_cast<float>(axis.clamp(first)), 0.0f, 1.0f);
        weight = {1 - part, part};
    }
};

struct Blend4 {
    static constexpr std::size_t kTaps = 4;
    std::int64_t first;
    std::array<float, 4> weight;

    Blend4(const Axis& axis, std::int64_t i) {
        const float position = axis.position(i);
        const std::int64_t below = Axis::floor(position);
        first = below - 1;
        const float part = position - static_cast<float>(below);
        weight = {outer(part + 1), inner(part), inner(1 - part), outer(2 - part)};
    }

private:
    static constexpr float kAlpha = -0.75f;
    static float inner(float t) { return ((kAlpha + 2) * t - (kAlpha + 3)) * t * t + 1; }
    static float outer(float t) {
        return ((kAlpha * t - 5 * kAlpha) * t + 8 * kAlpha) * t - 4 * kAlpha;
    }
};

/// A row of x with copies of the ends at both sides, which of its elements make up each column of
/// the result, and some rows that have as many columns already. Each task has its own.
struct Stretch {
    static constexpr std::int64_t kTaps = 4;        ///< at most
    static constexpr std::int64_t kEnds = kTaps;    ///< copies of each end
    static constexpr std::int64_t kMostLanes = 64;  ///< vectors may be read from behind the end

    std::int64_t width, columns;
    std::byte* memory;

    static std::size_t rounded(std::int64_t words) {
        return static_cast<std::size_t>(words + kMostLanes + 15) / 16 * 16 * 4;
    }
    std::size_t line_size() const { return rounded(width + 2 * kEnds); }
    std::size_t column_size() const { return rounded(columns); }
    std::size_t size() const { return line_size() + (1 + 2 * kTaps) * column_size(); }

    float* line() const { return reinterpret_cast<float*>(memory); }
    std::int32_t* starts() const { return reinterpret_cast<std::int32_t*>(memory + line_size()); }
    float* weights(std::size_t tap) const {
        return reinterpret_cast<float*>(memory + line_size() + (tap + 1) * column_size());
    }

    float* row(std::size_t slot) const { return weights(kTaps + slot); }

    template <class Blend>
    void set_columns(const Axis& across) const {
        for (std::int64_t i = 0; i < columns; ++i) {
            const Blend blend(across, i);
            const std::int64_t first = std::clamp(blend.first, -kEnds, width);
            starts()[i] = static_cast<std::int32_t>(first + kEnds);
            for (std::size_t k = 0; k < Blend::kTaps; ++k) weights(k)[i] = blend.weight[k];
        }
        for (std::int64_t i = columns; i < columns + kMostLanes; ++i) {
            starts()[i] = starts()[columns - 1];
        }
    }

    void set_line(const std::byte* row, std::size_t pitch) const {
        float* to = line() + kEnds;
        if (pitch == sizeof(float)) {
            std::memcpy(to, row, static_cast<std::size_t>(width) * sizeof(float));
        } else {
            for (std::int64_t i = 0; i < width; ++i, row += pitch) {
                to[i] = *reinterpret_cast<const float*>(row);
            }
        }
        std::fill_n(line(), kEnds, to[0]);
        std::fill_n(to + width, kEnds, to[width - 1]);
    }
};

struct Axes {
    Axis across, down, plane, batch;
};

}  // namespace
}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// As many columns as there are lanes, from `i` on. Their elements mostly lie so near to each other
/// that one vector has them all.
template <std::size_t kTaps>
HWY_INLINE hn::Vec<Floats> stretch_at(const float* line, const std::int32_t* start,
                                      const std::array<const float*, kTaps>& weights,
                                      std::int64_t i) {
    const Floats d;
    const hn::RebindToSigned<Floats> di;
    const auto sum_of = [&](auto tap) HWY_ATTR {
        if constexpr (kTaps == 1) return tap(0);
        auto sum = hn::Mul(tap(0), hn::LoadU(d, weights[0] + i));
        for (std::size_t k = 1; k < kTaps; ++k) {
            sum = hn::MulAdd(tap(k), hn::LoadU(d, weights[k] + i), sum);
        }
        return sum;
    };
    const std::int64_t step = lane_count(d);
    const std::int32_t first = start[i], last = start[i + step - 1];
    const auto starts = hn::LoadU(di, start + i);
    if (last - first < step) {
        const auto lanes = hn::IndicesFromVec(d, hn::Sub(starts, hn::Set(di, first)));
        return sum_of([&](std::size_t k) HWY_ATTR {
            return hn::TableLookupLanes(hn::LoadU(d, line + first + k), lanes);
        });
    }
    return sum_of([&](std::size_t k) HWY_ATTR { return hn::GatherIndex(d, line + k, starts); });
}

/// y[i] = f(i), a vector at a time.
template <class F>
HWY_INLINE void put_vectors(float* y, std::int64_t n, F f) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) hn::StoreU(f(i), d, y + i);
    if (i >= n) return;
    float part[hn::MaxLanes(Floats())];
    hn::StoreU(f(i), d, part);
    std::memcpy(y + i, part, static_cast<std::size_t>(n - i) * sizeof(float));
}

/// A row of x, `pitch` bytes from one element to the next, with as many columns as the result.
template <std::size_t kTaps>
HWY_INLINE void stretch_row(const Stretch& stretch, const std::byte* row, std::size_t pitch,
                            float* to) {
    stretch.set_line(row, pitch);
    const float* line = stretch.line();
    const std::int32_t* starts = stretch.starts();
    std::array<const float*, kTaps> weights;
    for (std::size_t k = 0; k < kTaps; ++k) weights[k] = stretch.weights(k);
    put_vectors(to, stretch.columns, [&](std::int64_t i) HWY_ATTR {
        return stretch_at<kTaps>(line, starts, weights, i);
    });
}

/// y = the sum of rows, each times its weight.
template <std::size_t kTaps>
HWY_INLINE void blend_rows(const std::array<const float*, kTaps>& rows,
                           const std::array<float, kTaps>& weight, float* y, std::int64_t n) {
    const Floats d;
    put_vectors(y, n, [&](std::int64_t i) HWY_ATTR {
        auto sum = hn::Mul(hn::LoadU(d, rows[0] + i), hn::Set(d, weight[0]));
        for (std::size_t k = 1; k < kTaps; ++k) {
            sum = hn::MulAdd(hn::LoadU(d, rows[k] + i), hn::Set(d, weight[k]), sum);
        }
        return sum;
    });
}

/// Rows of x are stretched first and kept, since most of them make up several rows of the result.
template <class Blend>
void stretch_rows(const Tensor& node, const Stretch& stretch, const Axes& axes, Range range) {
    constexpr std::size_t kTaps = Blend::kTaps;
    const Tensor& x = *node.src[0];
    stretch.set_columns<Blend>(axes.across);
    const std::byte* plane = nullptr;
    std::array<const std::byte*, kTaps> kept{};
    for_rows(node, range, [&](const Row& row) HWY_ATTR {
        if (row.i1 == 0 || plane == nullptr) {
            plane = at(x, 0, 0, axes.plane.nearest(row.i2), axes.batch.nearest(row.i3));
        }
        const Blend blend(axes.down, row.i1);
        std::array<const float*, kTaps> rows;
        for (std::size_t k = 0; k < kTaps; ++k) {
            const auto i1 = static_cast<std::size_t>(
                axes.down.clamp(blend.first + static_cast<std::int64_t>(k)));
            const std::byte* from = plane + i1 * x.nb[1];
            const std::size_t slot = i1 % kTaps;  // rows next to each other have different ones
            rows[k] = stretch.row(slot);
            if (kept[slot] == from) continue;
            stretch_row<kTaps>(stretch, from, x.nb[0], stretch.row(slot));
            kept[slot] = from;
        }
        float* y = row_at<float>(node, row);
        if constexpr (kTaps == 1) {
            std::memcpy(y, rows[0], static_cast<std::size_t>(stretch.columns) * sizeof(float));
        } else {
            blend_rows<kTaps>(rows, blend.weight, y, stretch.columns);
        }
    });
}

}  // namespace

void upscale(const Tensor& node, const Stretch& stretch, const Axes& axes, Range rows) {
    const std::int32_t mode = unpack<ops::Upscale::Params>(node).mode;
    switch (ops::Upscale::interpolation_of(mode)) {
        case GGML_SCALE_MODE_NEAREST:
            return stretch_rows<Single>(node, stretch, axes, rows);
        case GGML_SCALE_MODE_BICUBIC:
            return stretch_rows<Blend4>(node, stretch, axes, rows);
        default:
            return stretch_rows<Blend2>(node, stretch, axes, rows);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(upscale);
namespace {

/// All elements of x that a triangle of at least a pixel's width reaches, for shrinking.
struct Triangle {
    float middle, support, offset;
    std::int64_t begin, end;

    Triangle(const Axis& axis, std::int64_t i)
        : middle((static_cast<float>(i) + axis.offset) / axis.factor),
          support(std::max(1.0f, 1.0f / axis.factor)),
          offset(axis.offset) {
        begin = std::max<std::int64_t>(static_cast<std::int64_t>(middle - support + offset), 0);
        end = std::min(static_cast<std::int64_t>(middle + support + offset), axis.extent);
    }

    float weight(std::int64_t i) const {
        const float way = (static_cast<float>(i) - middle + offset) / support;
        return std::max(0.0f, 1.0f - std::abs(way));
    }
};

/// A plane of x.
struct Plane {
    const Tensor& x;
    std::int64_t i2, i3;

    float operator()(std::int64_t i0, std::int64_t i1) const {
        return *at<const float>(x, i0, i1, i2, i3);
    }
};

float sample(const Plane& plane, const Triangle& x, const Triangle& y) {
    float sum = 0, weights = 0;
    for (std::int64_t row = y.begin; row < y.end; ++row) {
        const float row_weight = y.weight(row);
        for (std::int64_t column = x.begin; column < x.end; ++column) {
            const float weight = x.weight(column) * row_weight;
            if (weight <= 0) continue;
            sum += plane(column, row) * weight;
            weights += weight;
        }
    }
    return weights > 0 ? sum / weights : 0;
}

Axis axis_of(const Tensor& node, int d, bool align_corners) {
    const std::int64_t from = node.src[0]->ne[d], to = node.ne[d];
    Axis axis{.extent = from, .factor = static_cast<float>(to) / static_cast<float>(from)};
    if (!align_corners) return axis;
    axis.offset = 0;
    if (from > 1 && to > 1) axis.factor = static_cast<float>(to - 1) / static_cast<float>(from - 1);
    return axis;
}

Axes axes_of(const Tensor& node) {
    const bool align_corners =
        (unpack<ops::Upscale::Params>(node).mode & GGML_SCALE_FLAG_ALIGN_CORNERS) != 0;
    return {axis_of(node, 0, align_corners), axis_of(node, 1, align_corners),
            axis_of(node, 2, false), axis_of(node, 3, false)};
}

bool has_triangles(const Tensor& node) {
    const std::int32_t mode = unpack<ops::Upscale::Params>(node).mode;
    return ops::Upscale::interpolation_of(mode) == GGML_SCALE_MODE_BILINEAR &&
           (mode & GGML_SCALE_FLAG_ANTIALIAS) != 0;
}

Stretch stretch_of(const Tensor& node, std::byte* memory) {
    return {.width = node.src[0]->ne[0], .columns = node.ne[0], .memory = memory};
}

/// Bytes that each task needs: for a line, or for the triangles of all columns.
std::size_t scratch_size(const Tensor& node) {
    if (!has_triangles(node)) return stretch_of(node, nullptr).size();
    return (static_cast<std::size_t>(node.ne[0]) * sizeof(Triangle) + 63) / 64 * 64;
}

void sample_rows(const Tensor& node, const Axes& axes, Triangle* columns, Range rows) {
    for (std::int64_t i = 0; i < node.ne[0]; ++i) std::construct_at(columns + i, axes.across, i);
    for_rows(node, rows, [&](const Row& row) {
        const Plane from{*node.src[0], axes.plane.nearest(row.i2), axes.batch.nearest(row.i3)};
        const Triangle y(axes.down, row.i1);
        float* to = row_at<float>(node, row);
        for (std::int64_t i = 0; i < node.ne[0]; ++i) to[i] = sample(from, columns[i], y);
    });
}

void run(const Tensor& node, const Task& task) {
    if (is_empty(node)) return;
    const Axes axes = axes_of(node);
    const Range rows = task.share(row_count(node));
    std::byte* memory = task.scratch + static_cast<std::size_t>(task.index) * scratch_size(node);
    if (has_triangles(node)) {
        return sample_rows(node, axes, reinterpret_cast<Triangle*>(memory), rows);
    }
    HWY_DYNAMIC_DISPATCH(upscale)(node, stretch_of(node, memory), axes, rows);
}

/// Places in a line are counted in 32 bits.
constexpr std::int64_t kMostColumns = std::numeric_limits<std::int32_t>::max() - Stretch::kEnds;

std::string_view objection(const Tensor& node) {
    if (node.src[0]->type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "only f32";
    if (node.nb[0] != sizeof(float)) return "rows of the result are not dense";
    if (node.src[0]->ne[0] > kMostColumns) return "rows of x are too long";
    const std::int32_t mode =
        ops::Upscale::interpolation_of(unpack<ops::Upscale::Params>(node).mode);
    return mode < GGML_SCALE_MODE_COUNT ? "" : "the interpolation is not known";
}

/// Also where values are only copied, finding them takes some arithmetic.
Demand demand(const Tensor& node, int threads) {
    const double flops =
        flops_of<ops::Upscale>(node) + 4 * static_cast<double>(element_count(node));
    const int tasks = worthwhile_tasks(0, flops, row_count(node), threads);
    return {.tasks = tasks, .scratch = static_cast<std::size_t>(tasks) * scratch_size(node)};
}

}  // namespace

extern const Kernel kUpscale{.name = "upscale_f32",
                             .op = GGML_OP_UPSCALE,
                             .objection = objection,
                             .run = run,
                             .demand = demand};

}  // namespace heddle::cpu
#endif
