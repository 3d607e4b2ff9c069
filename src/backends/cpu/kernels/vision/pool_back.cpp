#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/vision/pool_back.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cfloat>
#include <cstring>

#include "backends/cpu/kernels/node_flops.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "backends/cpu/kernels/vision/pool_windows.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_nn.h"

#ifndef HEDDLE_CPU_POOL_BACK_ONCE
#define HEDDLE_CPU_POOL_BACK_ONCE
namespace heddle::cpu {
namespace {

/// The gradient of a pooling: what `node` gets from `dy`.
struct PoolingBack {
    const Tensor &node, &dy, &x;
    bool is_mean;
    PoolAxis across, down;
    float area;

    bool has_dense_rows() const {
        return node.nb[0] == sizeof(float) && dy.nb[0] == sizeof(float) && x.nb[0] == sizeof(float);
    }
    bool overlaps() const { return across.taps > across.stride || down.taps > down.stride; }

    /// Whether each element is in exactly one window.
    bool is_tiled() const {
        const auto is_tiled_along = [&](const PoolAxis& axis, int d) {
            return axis.padding == 0 && axis.taps == axis.stride &&
                   axis.extent == dy.ne[d] * axis.stride;
        };
        return is_tiled_along(across, 0) && is_tiled_along(down, 1);
    }

    void clear_plane(std::int64_t i2, std::int64_t i3) const {
        const auto row = static_cast<std::size_t>(node.ne[0]) * sizeof(float);
        if (node.nb[1] == row) {
            std::memset(at(node, 0, 0, i2, i3), 0, row * static_cast<std::size_t>(node.ne[1]));
            return;
        }
        for (std::int64_t i1 = 0; i1 < node.ne[1]; ++i1) {
            std::memset(at(node, 0, i1, i2, i3), 0, row);
        }
    }
};

}  // namespace
}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

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
void give_to_greatest(const PoolingBack& pool, const Window& window, float gradient) {
    float greatest = -FLT_MAX;
    float* to = nullptr;
    for (std::int64_t i1 = window.down.begin; i1 < window.down.end; ++i1) {
        for (std::int64_t i0 = window.across.begin; i0 < window.across.end; ++i0) {
            const float value = *at<const float>(pool.x, i0, i1, window.i2, window.i3);
            if (!(value > greatest)) continue;
            greatest = value;
            to = at<float>(pool.node, i0, i1, window.i2, window.i3);
        }
    }
    if (to != nullptr) *to += gradient;
}

void give_window(const PoolingBack& pool, const Row& row, Range down, std::int64_t i) {
    const Window window{pool.across.window(i), down, row.i2, row.i3};
    const float gradient = *at<const float>(pool.dy, i, row.i1, row.i2, row.i3);
    if (pool.is_mean) {
        spread(pool.node, window, gradient / pool.area);
    } else {
        give_to_greatest(pool, window, gradient);
    }
}

/// Calls `visit(y, k)` for rows `down` and for each tap, or pair of taps where windows are two
/// apart.
template <class Visit>
HWY_INLINE void for_taps(Range down, std::int64_t taps, std::int64_t stride, Visit visit) {
    for (std::int64_t y = 0; y < down.end - down.begin; ++y) {
        for (std::int64_t k = 0; k < taps; k += stride) visit(down.begin + y, k);
    }
}

/// Windows from `i` on, all of which lie inside.
template <class D>
HWY_INLINE void give_some(D d, const PoolingBack& pool, const Row& row, Range down, std::int64_t i,
                          std::int64_t taps, std::int64_t stride) {
    const hn::RebindToSigned<D> di;
    const std::int64_t first = pool.across.first(i);
    std::byte* plane = at(pool.node, first, 0, row.i2, row.i3);
    const std::byte* x_plane = at(pool.x, first, 0, row.i2, row.i3);
    const auto pitch = static_cast<std::int64_t>(pool.node.nb[1]);
    const auto x_pitch = static_cast<std::int64_t>(pool.x.nb[1]);
    const auto gradient = hn::LoadU(d, at<const float>(pool.dy, i, row.i1, row.i2, row.i3));
    const auto mean = pool.is_mean ? hn::Div(gradient, hn::Set(d, pool.area)) : gradient;

    // Taps are numbered in the order in which they are compared: the first of equal ones wins.
    auto greatest = hn::Set(d, -FLT_MAX);
    auto winner = hn::Set(di, -1);
    std::int32_t number = 0;
    const auto compare = [&](hn::Vec<D> value) HWY_ATTR {
        const auto greater = hn::Gt(value, greatest);
        greatest = hn::IfThenElse(greater, value, greatest);
        winner = hn::IfThenElse(hn::RebindMask(di, greater), hn::Set(di, number), winner);
        ++number;
    };
    const auto share = [&]() HWY_ATTR {
        const auto won = hn::RebindMask(d, hn::Eq(winner, hn::Set(di, number)));
        ++number;
        return pool.is_mean ? mean : hn::IfThenElseZero(won, gradient);
    };
    if (!pool.is_mean) {
        for_taps(down, taps, stride, [&](std::int64_t y, std::int64_t k) HWY_ATTR {
            const auto* x = reinterpret_cast<const float*>(x_plane + y * x_pitch) + k;
#if HWY_TARGET != HWY_SCALAR
            if (stride == 2) {
                auto odd = gradient;
                compare(load_even(d, x, odd));
                if (k + 1 < taps) compare(odd);
                return;
            }
#endif
            compare(hn::LoadU(d, x));
        });
    }
    number = 0;
    for_taps(down, taps, stride, [&](std::int64_t y, std::int64_t k) HWY_ATTR {
        auto* to = reinterpret_cast<float*>(plane + y * pitch) + k;
#if HWY_TARGET != HWY_SCALAR
        if (stride == 2) {
            const auto even = share();
            const auto odd = k + 1 < taps ? share() : hn::Zero(d);
            if (!pool.overlaps()) return hn::StoreInterleaved2(even, odd, d, to);
            float pairs[2 * hn::MaxLanes(D())];
            hn::StoreInterleaved2(even, odd, d, pairs);
            for (std::size_t part = 0; part < 2 * hn::Lanes(d); part += hn::Lanes(d)) {
                hn::StoreU(hn::Add(hn::LoadU(d, to + part), hn::LoadU(d, pairs + part)), d,
                           to + part);
            }
            return;
        }
#endif
        hn::StoreU(hn::Add(hn::LoadU(d, to), share()), d, to);
    });
}

/// The same; the usual windows have code of their own.
template <class D>
HWY_INLINE void give_windows(D d, const PoolingBack& pool, const Row& row, Range down,
                             std::int64_t i) {
    const PoolAxis& across = pool.across;
    if (across.taps == 2 && across.stride == 2 && down.end - down.begin == 2) {
        give_some(d, pool, row, {down.begin, down.begin + 2}, i, 2, 2);
    } else {
        give_some(d, pool, row, down, i, across.taps, across.stride);
    }
}

/// Windows of a row of dy that give to all that they see in whole vectors.
Range inside_windows(const PoolingBack& pool) {
    const PoolAxis& across = pool.across;
    if (across.stride > kMostStride || !pool.has_dense_rows()) return {};
    return across.inside(across.reach(), pool.dy.ne[0]);
}

/// Whether windows `inside`, `step` or more, write each element once and need no zeros before that.
bool writes_all(const PoolingBack& pool, Range inside, std::int64_t step) {
    const std::int64_t count = inside.end - inside.begin;
    return pool.is_tiled() && pool.across.stride == 2 && count == pool.dy.ne[0] && count >= step;
}

/// What the windows of rows of dy give, those `inside` with vectors of `d`. Windows overlap, so a
/// plane is one piece of work.
template <class D>
void give_planes(D d, const PoolingBack& pool, Range planes, Range inside) {
    const Tensor& node = pool.node;
    const std::int64_t n = pool.dy.ne[0], step = lane_count(d);
    const bool is_written = writes_all(pool, inside, step);
    for (std::int64_t plane = planes.begin; plane < planes.end; ++plane) {
        Row row{0, plane % node.ne[2], plane / node.ne[2]};
        if (!is_written) pool.clear_plane(row.i2, row.i3);
        for (; row.i1 < pool.dy.ne[1]; ++row.i1) {
            const Range down = pool.down.window(row.i1);
            std::int64_t i = 0;
            for (; i < inside.begin; ++i) give_window(pool, row, down, i);
            for (; i + step <= inside.end; i += step) give_windows(d, pool, row, down, i);
            if (is_written) {
                if (i < n) give_windows(d, pool, row, down, n - step);  // some of them again
                continue;
            }
            for (; i < n; ++i) give_window(pool, row, down, i);
        }
    }
}

}  // namespace

void pool_back(const PoolingBack& pool, Range planes) {
    const Range inside = inside_windows(pool);
    if (inside.end - inside.begin >= lane_count(Floats())) {
        give_planes(Floats(), pool, planes, inside);
    } else {
        give_planes(hn::CappedTag<float, 4>(), pool, planes, inside);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(pool_back);
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor &dy = *node.src[0], &x = *node.src[1];
    if (dy.type != GGML_TYPE_F32 || x.type != GGML_TYPE_F32) return "only f32";
    if (dy.ne[2] != x.ne[2] || dy.ne[3] != x.ne[3]) return "dy and x have not as many planes";
    if (node.nb[0] != sizeof(float)) return "rows of the result are not dense";
    return window_objection(unpack<ops::Pool2dBack::Params>(node));
}

void run(const Tensor& node, const Task& task) {
    const auto params = unpack<ops::Pool2dBack::Params>(node);
    const PoolingBack pool{.node = node,
                           .dy = *node.src[0],
                           .x = *node.src[1],
                           .is_mean = params.op == GGML_OP_POOL_AVG,
                           .across = axis_of(params, 0, node),
                           .down = axis_of(params, 1, node),
                           .area = static_cast<float>(ops::Pool2dBack::tap_count(params))};
    HWY_DYNAMIC_DISPATCH(pool_back)(pool, task.share(node.ne[2] * node.ne[3]));
}

Demand demand(const Tensor& node, int threads) {
    const double bytes = 2 * static_cast<double>(byte_size(node));
    return {.tasks = worthwhile_tasks(bytes, flops_of<ops::Pool2dBack>(node),
                                      node.ne[2] * node.ne[3], threads)};
}

}  // namespace

extern const Kernel kPool2dBack{.name = "pool_2d_back",
                                .op = GGML_OP_POOL_2D_BACK,
                                .objection = objection,
                                .run = run,
                                .demand = demand};

}  // namespace heddle::cpu
#endif
