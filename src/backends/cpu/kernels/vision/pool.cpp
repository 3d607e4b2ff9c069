#include "ops/pool.hpp"

#include <algorithm>
#include <cfloat>
#include <cstring>

#include "backends/cpu/kernels/node_flops.hpp"
#include "core/half.hpp"

namespace heddle::cpu {
namespace {

/// The elements of a window that lie inside of the data.
Range window(std::int64_t position, std::int64_t stride, std::int64_t padding, std::int64_t taps,
             std::int64_t extent) {
    const std::int64_t first = position * stride - padding;
    const std::int64_t begin = std::clamp<std::int64_t>(first, 0, extent);
    return {begin, std::clamp(first + taps, begin, extent)};
}

float load(const Tensor& x, const std::byte* from) {
    if (x.type == GGML_TYPE_F32) return *reinterpret_cast<const float*>(from);
    return f16_to_f32(*reinterpret_cast<const std::uint16_t*>(from));
}

/// Maximum or sum of elements `range` of a row, going on from `value`.
template <ggml_op_pool kOp>
float gather(const Tensor& x, const std::byte* row, Range range, float value) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
        const float element = load(x, row + static_cast<std::size_t>(i) * x.nb[0]);
        if constexpr (kOp == GGML_OP_POOL_AVG) {
            value += element;
        } else if (element > value) {
            value = element;
        }
    }
    return value;
}

/// The mean is that of the elements inside.
template <ggml_op_pool kOp>
void pool_row(const Tensor& node, Row row) {
    const auto params = unpack<ops::Pool1d::Params>(node);
    const Tensor& x = *node.src[0];
    const std::byte* from = row_at<const std::byte>(x, row);
    for (std::int64_t i = 0; i < node.ne[0]; ++i) {
        const Range inside = window(i, params.stride, params.padding, params.taps, x.ne[0]);
        float value = gather<kOp>(x, from, inside, kOp == GGML_OP_POOL_AVG ? 0.0f : -FLT_MAX);
        if (kOp == GGML_OP_POOL_AVG && inside.begin < inside.end) {
            value /= static_cast<float>(inside.end - inside.begin);
        }
        *at<float>(node, i, row.i1, row.i2, row.i3) = value;
    }
}

/// The mean counts zeros for what lies outside.
template <ggml_op_pool kOp>
void pool_image_row(const Tensor& node, Row row) {
    const auto params = unpack<ops::Pool2d::Params>(node);
    const Tensor& x = *node.src[0];
    const auto area = static_cast<float>(ops::Pool2d::tap_count(params));
    const Range down = window(row.i1, params.stride[1], params.padding[1], params.taps[1], x.ne[1]);
    for (std::int64_t i = 0; i < node.ne[0]; ++i) {
        const Range across =
            window(i, params.stride[0], params.padding[0], params.taps[0], x.ne[0]);
        float value = kOp == GGML_OP_POOL_AVG ? 0.0f : -FLT_MAX;
        for (std::int64_t y = down.begin; y < down.end; ++y) {
            value = gather<kOp>(x, at<const std::byte>(x, 0, y, row.i2, row.i3), across, value);
        }
        *at<float>(node, i, row.i1, row.i2, row.i3) =
            kOp == GGML_OP_POOL_AVG ? value / area : value;
    }
}

std::string_view op_objection(std::int32_t op) {
    const bool known = op == GGML_OP_POOL_MAX || op == GGML_OP_POOL_AVG;
    return known ? "" : "the kind of pooling is not max or avg";
}

template <class D>
std::string_view objection(const Tensor& node) {
    const Type type = node.src[0]->type;
    if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16) return "x is not f32 or f16";
    return op_objection(unpack<typename D::Params>(node).op);
}

template <class D, void (*kMaximum)(const Tensor&, Row), void (*kMean)(const Tensor&, Row)>
void run(const Tensor& node, const Task& task) {
    const bool is_mean = unpack<typename D::Params>(node).op == GGML_OP_POOL_AVG;
    for_rows(node, task.share(row_count(node)),
             [&](const Row& row) { return is_mean ? kMean(node, row) : kMaximum(node, row); });
}

template <class D>
Demand demand(const Tensor& node, int threads) {
    return flops_demand<D>(node, row_count(node), threads);
}

// ---- the gradient ------------------------------------------------------------------------------

std::string_view back_objection(const Tensor& node) {
    const Tensor &dy = *node.src[0], &x = *node.src[1];
    if (dy.type != GGML_TYPE_F32 || x.type != GGML_TYPE_F32) return "only f32";
    if (dy.ne[2] != x.ne[2] || dy.ne[3] != x.ne[3]) return "dy and x have not as many planes";
    return op_objection(unpack<ops::Pool2dBack::Params>(node).op);
}

/// A window of a plane.
struct Window {
    Range across, down;
    std::int64_t i2, i3;
};

void spread(const Tensor& node, const Window& window, float share) {
    for (std::int64_t y = window.down.begin; y < window.down.end; ++y) {
        for (std::int64_t x = window.across.begin; x < window.across.end; ++x) {
            *at<float>(node, x, y, window.i2, window.i3) += share;
        }
    }
}

/// To the first of the greatest elements; to none if all are -FLT_MAX or less.
void give_to_greatest(const Tensor& node, const Window& window, float gradient) {
    const Tensor& x = *node.src[1];
    float greatest = -FLT_MAX;
    float* to = nullptr;
    for (std::int64_t i1 = window.down.begin; i1 < window.down.end; ++i1) {
        for (std::int64_t i0 = window.across.begin; i0 < window.across.end; ++i0) {
            const float value = *at<const float>(x, i0, i1, window.i2, window.i3);
            if (!(value > greatest)) continue;
            greatest = value;
            to = at<float>(node, i0, i1, window.i2, window.i3);
        }
    }
    if (to != nullptr) *to += gradient;
}

/// Windows overlap, so a plane is one piece of work.
void back_plane(const Tensor& node, std::int64_t i2, std::int64_t i3) {
    const auto params = unpack<ops::Pool2dBack::Params>(node);
    const Tensor& dy = *node.src[0];
    for (std::int64_t i1 = 0; i1 < node.ne[1]; ++i1) {
        for (std::int64_t i0 = 0; i0 < node.ne[0]; ++i0) *at<float>(node, i0, i1, i2, i3) = 0;
    }
    const auto area = static_cast<float>(ops::Pool2dBack::tap_count(params));
    for (std::int64_t y = 0; y < dy.ne[1]; ++y) {
        const Range down =
            window(y, params.stride[1], params.padding[1], params.taps[1], node.ne[1]);
        for (std::int64_t x = 0; x < dy.ne[0]; ++x) {
            const Range across =
                window(x, params.stride[0], params.padding[0], params.taps[0], node.ne[0]);
            const float gradient = *at<const float>(dy, x, y, i2, i3);
            if (params.op == GGML_OP_POOL_AVG) {
                spread(node, {across, down, i2, i3}, gradient / area);
            } else {
                give_to_greatest(node, {across, down, i2, i3}, gradient);
            }
        }
    }
}

void run_back(const Tensor& node, const Task& task) {
    const Range planes = task.share(node.ne[2] * node.ne[3]);
    for (std::int64_t plane = planes.begin; plane < planes.end; ++plane) {
        back_plane(node, plane % node.ne[2], plane / node.ne[2]);
    }
}

Demand back_demand(const Tensor& node, int threads) {
    return flops_demand<ops::Pool2dBack>(node, node.ne[2] * node.ne[3], threads);
}

}  // namespace

extern const Kernel kPool1d{
    .name = "pool_1d",
    .op = GGML_OP_POOL_1D,
    .objection = objection<ops::Pool1d>,
    .run = run<ops::Pool1d, pool_row<GGML_OP_POOL_MAX>, pool_row<GGML_OP_POOL_AVG>>,
    .demand = demand<ops::Pool1d>};

extern const Kernel kPool2d{
    .name = "pool_2d",
    .op = GGML_OP_POOL_2D,
    .objection = objection<ops::Pool2d>,
    .run = run<ops::Pool2d, pool_image_row<GGML_OP_POOL_MAX>, pool_image_row<GGML_OP_POOL_AVG>>,
    .demand = demand<ops::Pool2d>};

extern const Kernel kPool2dBack{.name = "pool_2d_back",
                                .op = GGML_OP_POOL_2D_BACK,
                                .objection = back_objection,
                                .run = run_back,
                                .demand = back_demand};

}  // namespace heddle::cpu
