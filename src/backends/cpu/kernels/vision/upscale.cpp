#include "ops/upscale.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "backends/cpu/kernels/node_flops.hpp"

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
};

// Elements of x that make up one of the result, and their weights.

struct Single {
    std::int64_t index;

    Single(const Axis& axis, std::int64_t i) : index(axis.nearest(i)) {}
};

struct Blend2 {
    std::array<std::int64_t, 2> index;
    std::array<float, 2> weight;

    Blend2(const Axis& axis, std::int64_t i) {
        const float position = axis.position(i);
        const auto below = static_cast<std::int64_t>(std::floor(position));
        index = {axis.clamp(below), axis.clamp(below + 1)};
        const float part = std::clamp(position - static_cast<float>(index[0]), 0.0f, 1.0f);
        weight = {1 - part, part};
    }
};

struct Blend4 {
    std::array<std::int64_t, 4> index;
    std::array<float, 4> weight;

    Blend4(const Axis& axis, std::int64_t i) {
        const float position = axis.position(i), floor = std::floor(position);
        const auto below = static_cast<std::int64_t>(floor);
        for (std::size_t k = 0; k < 4; ++k) {
            index[k] = axis.clamp(below - 1 + static_cast<std::int64_t>(k));
        }
        const float part = position - floor;
        weight = {outer(part + 1), inner(part), inner(1 - part), outer(2 - part)};
    }

private:
    static constexpr float kAlpha = -0.75f;
    static float inner(float t) { return ((kAlpha + 2) * t - (kAlpha + 3)) * t * t + 1; }
    static float outer(float t) {
        return ((kAlpha * t - 5 * kAlpha) * t + 8 * kAlpha) * t - 4 * kAlpha;
    }
};

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

float sample(const Plane& plane, const Single& x, const Single& y) {
    return plane(x.index, y.index);
}

float sample(const Plane& plane, const Blend2& x, const Blend2& y) {
    return plane(x.index[0], y.index[0]) * x.weight[0] * y.weight[0] +
           plane(x.index[1], y.index[0]) * x.weight[1] * y.weight[0] +
           plane(x.index[0], y.index[1]) * x.weight[0] * y.weight[1] +
           plane(x.index[1], y.index[1]) * x.weight[1] * y.weight[1];
}

float sample(const Plane& plane, const Blend4& x, const Blend4& y) {
    float sum = 0;
    for (std::size_t row = 0; row < 4; ++row) {
        float part = 0;
        for (std::size_t k = 0; k < 4; ++k) {
            part += plane(x.index[k], y.index[row]) * x.weight[k];
        }
        sum += part * y.weight[row];
    }
    return sum;
}

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

/// Bytes for the blends of all columns, which each task finds once.
std::size_t columns_size(const Tensor& node) {
    constexpr std::size_t largest =
        std::max({sizeof(Single), sizeof(Blend2), sizeof(Blend4), sizeof(Triangle)});
    return (static_cast<std::size_t>(node.ne[0]) * largest + 63) / 64 * 64;
}

template <class Blend>
void run_with(const Tensor& node, const Task& task, bool align_corners) {
    const Axis across = axis_of(node, 0, align_corners), down = axis_of(node, 1, align_corners);
    const Axis plane = axis_of(node, 2, false), batch = axis_of(node, 3, false);
    auto* columns = reinterpret_cast<Blend*>(task.scratch + static_cast<std::size_t>(task.index) *
                                                                columns_size(node));
    for (std::int64_t i = 0; i < node.ne[0]; ++i) std::construct_at(columns + i, across, i);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        const Plane from{*node.src[0], plane.nearest(row.i2), batch.nearest(row.i3)};
        const Blend y(down, row.i1);
        for (std::int64_t i = 0; i < node.ne[0]; ++i) {
            *at<float>(node, i, row.i1, row.i2, row.i3) = sample(from, columns[i], y);
        }
    });
}

void run(const Tensor& node, const Task& task) {
    if (is_empty(node)) return;
    const std::int32_t mode = unpack<ops::Upscale::Params>(node).mode;
    const bool align_corners = (mode & GGML_SCALE_FLAG_ALIGN_CORNERS) != 0;
    switch (ops::Upscale::interpolation_of(mode)) {
        case GGML_SCALE_MODE_NEAREST:
            return run_with<Single>(node, task, align_corners);
        case GGML_SCALE_MODE_BICUBIC:
            return run_with<Blend4>(node, task, align_corners);
        default:
            break;
    }
    if ((mode & GGML_SCALE_FLAG_ANTIALIAS) != 0) {
        return run_with<Triangle>(node, task, align_corners);
    }
    run_with<Blend2>(node, task, align_corners);
}

std::string_view objection(const Tensor& node) {
    if (node.src[0]->type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "only f32";
    const std::int32_t mode =
        ops::Upscale::interpolation_of(unpack<ops::Upscale::Params>(node).mode);
    return mode < GGML_SCALE_MODE_COUNT ? "" : "the interpolation is not known";
}

/// Also where values are only copied, finding them takes some arithmetic.
Demand demand(const Tensor& node, int threads) {
    const double flops =
        flops_of<ops::Upscale>(node) + 4 * static_cast<double>(element_count(node));
    const int tasks = worthwhile_tasks(0, flops, row_count(node), threads);
    return {.tasks = tasks, .scratch = static_cast<std::size_t>(tasks) * columns_size(node)};
}

}  // namespace

extern const Kernel kUpscale{.name = "upscale_f32",
                             .op = GGML_OP_UPSCALE,
                             .objection = objection,
                             .run = run,
                             .demand = demand};

}  // namespace heddle::cpu
