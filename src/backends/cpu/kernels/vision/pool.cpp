#include "ops/pool.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/vision/pool.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cfloat>

#include "backends/cpu/kernels/vector_rows.hpp"
#include "backends/cpu/kernels/vision/pool_windows.hpp"
#include "ggml/ops_nn.h"

#ifndef HEDDLE_CPU_POOL_ONCE
#define HEDDLE_CPU_POOL_ONCE
namespace heddle::cpu {
namespace {

/// What the windows over rows of signals or over images become.
struct Pooling {
    const Tensor &node, &x;
    bool is_mean, is_signal;
    PoolAxis across, down;
    std::int64_t at_once;  ///< elements of the result that one line serves

    Pooling(const Tensor& y, bool mean, bool signal, PoolAxis width, PoolAxis height)
        : node(y), x(*y.src[0]), is_mean(mean), is_signal(signal), across(width), down(height) {
        constexpr std::int64_t kSpan = 4096;  // floats that should be at hand at once
        const std::int64_t fitting = (kSpan - across.taps) / across.stride / 64 * 64;
        const std::int64_t few = across.stride > kSpan ? 1 : 64;
        const std::int64_t some = fitting < few ? few : fitting;
        at_once = some < node.ne[0] ? some : node.ne[0];
    }

    /// Floats of a line with `count` windows.
    std::int64_t span(std::int64_t count) const {
        const std::int64_t floats = (count - 1) * across.stride + across.taps;
        return floats > 0 ? floats : 0;  // there may be windows of nothing
    }

    /// Bytes of the longest line. Vectors may be read from behind its end.
    std::size_t line_size() const {
        constexpr std::int64_t behind = 2 * 64;
        const std::int64_t floats = span(at_once) + behind;
        return static_cast<std::size_t>((floats + 15) / 16 * 16) * sizeof(float);
    }

    /// What a mean divides by if all of the window lies inside.
    float area() const { return static_cast<float>(across.taps) * static_cast<float>(down.taps); }

    /// Rows of x that make up a row of the result.
    Range rows(std::int64_t i1) const { return is_signal ? Range{i1, i1 + 1} : down.window(i1); }
};

}  // namespace
}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

using One = hn::CappedTag<float, 1>;

/// How elements of a window become one.
struct Largest {
    static constexpr float kNone = -FLT_MAX;
    /// A NaN is never the largest: of two numbers in this order, the second is taken then.
    template <class V>
    static HWY_INLINE V join(V value, V element) {
        return hn::Max(element, value);
    }
};

struct Sum {
    static constexpr float kNone = 0;
    template <class V>
    static HWY_INLINE V join(V value, V element) {
        return hn::Add(value, element);
    }
};

// ---- lines: all rows of the windows joined into one --------------------------------------------

/// The elements at `from` of `count` rows.
template <class Join, class Rows, class D>
HWY_INLINE hn::Vec<D> join_rows(D d, const std::byte* from, std::size_t pitch, std::int64_t count) {
    auto value = hn::Set(d, Join::kNone);
    if (count == 2) {  // as most often: without a loop
        value = Join::join(value, Rows::load(d, from));
        return Join::join(value, Rows::load(d, from + pitch));
    }
    for (; count > 0; --count, from += pitch) value = Join::join(value, Rows::load(d, from));
    return value;
}

/// The line for windows `windows` of a row of the result; where there are no data nothing is
/// joined.
template <class Join, class Rows>
HWY_INLINE void fill_line(const Pooling& pool, const Row& row, Range windows, float* line) {
    const Floats d;
    const Tensor& x = pool.x;
    const Range rows = pool.rows(row.i1);
    const std::int64_t count = rows.end - rows.begin, step = lane_count(d);
    const std::int64_t first = pool.across.first(windows.begin);
    const std::int64_t all = pool.span(windows.end - windows.begin);
    const std::int64_t begin = pool.across.clamp(first), end = pool.across.clamp(first + all);
    for (std::int64_t i = first; i < begin && i < first + all; ++i) line[i - first] = Join::kNone;
    for (std::int64_t i = end > first ? end : first; i < first + all; ++i) {
        line[i - first] = Join::kNone;
    }
    const std::byte* from = at<const std::byte>(x, 0, rows.begin, row.i2, row.i3);
    std::int64_t i = begin;
    if (x.nb[0] == static_cast<std::size_t>(Rows::kSize)) {
        for (; i + step <= end; i += step) {
            hn::StoreU(join_rows<Join, Rows>(d, from + i * Rows::kSize, x.nb[1], count), d,
                       line + (i - first));
        }
    }
    for (; i < end; ++i) {
        line[i - first] = hn::GetLane(join_rows<Join, Rows>(
            One(), from + static_cast<std::size_t>(i) * x.nb[0], x.nb[1], count));
    }
}

/// One window of a line.
template <class Join>
HWY_INLINE float join_window(const float* x, std::int64_t taps) {
    auto value = hn::Set(One(), Join::kNone);
    for (std::int64_t k = 0; k < taps; ++k) value = Join::join(value, hn::LoadU(One(), x + k));
    return hn::GetLane(value);
}

/// As many windows as there are lanes.
template <class Join>
HWY_INLINE hn::Vec<Floats> join_windows(const float* x, const PoolAxis& across) {
    const Floats d;
    auto value = hn::Set(d, Join::kNone);
    std::int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
    if (across.stride == 2) {
        auto odd = value;
        for (; k + 2 <= across.taps; k += 2) {
            value = Join::join(value, load_even(d, x + k, odd));
            value = Join::join(value, odd);
        }
        return k < across.taps ? Join::join(value, load_even(d, x + k, odd)) : value;
    }
#endif
    for (; k < across.taps; ++k) value = Join::join(value, hn::LoadU(d, x + k));
    return value;
}

/// y[i] = window i of the line, divided by `divisor` where this is a mean.
template <class Join>
HWY_INLINE void join_line(const float* line, const PoolAxis& across, float divisor, float* y,
                          std::int64_t n) {
    constexpr bool kDivides = Join::kNone == 0;
    const Floats d;
    const std::int64_t step = lane_count(d);
    if (across.stride > kMostStride) {
        for (std::int64_t i = 0; i < n; ++i) {
            const float value = join_window<Join>(line + i * across.stride, across.taps);
            y[i] = kDivides ? value / divisor : value;
        }
        return;
    }
    for (std::int64_t i = 0; i < n; i += step) {
        auto value = join_windows<Join>(line + i * across.stride, across);
        if (kDivides) value = hn::Div(value, hn::Set(d, divisor));
        if (i + step <= n) {
            hn::StoreU(value, d, y + i);
            continue;
        }
        float part[hn::MaxLanes(Floats())];
        hn::StoreU(value, d, part);
        std::memcpy(y + i, part, static_cast<std::size_t>(n - i) * sizeof(float));
    }
}

/// The mean of an image counts zeros for what lies outside, that of a signal the elements inside.
HWY_INLINE float mean_of(const Pooling& pool, Range inside, float sum) {
    if (!pool.is_signal) return sum / pool.area();
    const std::int64_t count = inside.end - inside.begin;
    return count > 0 ? sum / static_cast<float>(count) : 0;
}

template <class Join, class Rows>
void pool_lines(const Pooling& pool, const Row& row, float* line) {
    const PoolAxis& across = pool.across;
    const std::int64_t n = pool.node.ne[0];
    float* y = row_at<float>(pool.node, row);
    for (std::int64_t first = 0; first < n; first += pool.at_once) {
        const Range windows{first, n - first < pool.at_once ? n : first + pool.at_once};
        fill_line<Join, Rows>(pool, row, windows, line);
        join_line<Join>(line, across, pool.area(), y + first, windows.end - first);
        if (!pool.is_signal || !pool.is_mean) continue;
        const Range whole = across.inside(across.taps, n);
        for (std::int64_t i = first; i < windows.end; ++i) {
            if (whole.begin <= i && i < whole.end && across.taps > 0) continue;
            const float sum = join_window<Sum>(line + (i - first) * across.stride, across.taps);
            y[i] = mean_of(pool, across.window(i), sum);
        }
    }
}

// ---- without lines -----------------------------------------------------------------------------

/// Windows of a row that are joined where they are: all that lie inside. Wide windows overlap, and
/// are better joined from lines.
template <class Rows>
Range direct_windows(const Pooling& pool) {
    constexpr std::int64_t kMostTaps = 3;
    const PoolAxis& across = pool.across;
    const bool is_dense = pool.x.nb[0] == static_cast<std::size_t>(Rows::kSize);
    if (!is_dense || across.stride > kMostStride) return {};
    if (across.taps < 1 || across.taps > kMostTaps) return {};
    return across.inside(across.reach(), pool.node.ne[0]);
}

/// At least as many windows as `d` has lanes.
template <class Join, class Rows, class D>
HWY_INLINE void pool_direct(D d, const Pooling& pool, const Row& row, Range windows,
                            std::int64_t taps, std::int64_t stride) {
    const PoolAxis& across = pool.across;
    const Range rows = pool.rows(row.i1);
    const std::byte* from =
        at<const std::byte>(pool.x, across.first(windows.begin), rows.begin, row.i2, row.i3);
    float* y = row_at<float>(pool.node, row) + windows.begin;
    const auto area = hn::Set(d, pool.area());
    const std::size_t pitch = pool.x.nb[1];
    const std::int64_t count = rows.end - rows.begin, step = lane_count(d);
    const std::int64_t last = windows.end - windows.begin - step;
    for (std::int64_t next = 0; next < last + step; next += step) {
        const std::int64_t i = next < last ? next : last;  // the last ones may be joined twice
        auto value = hn::Set(d, Join::kNone);
        for (std::int64_t k = 0; k < taps; k += stride) {
            const std::byte* x = from + (i * stride + k) * Rows::kSize;
            const auto low = join_rows<Join, Rows>(d, x, pitch, count);
#if HWY_TARGET != HWY_SCALAR
            if (stride == 2) {
                const auto high = join_rows<Join, Rows>(d, x + step * Rows::kSize, pitch, count);
                value = Join::join(value, hn::ConcatEven(d, high, low));
                if (k + 1 < taps) value = Join::join(value, hn::ConcatOdd(d, high, low));
                continue;
            }
#endif
            value = Join::join(value, low);
        }
        if (Join::kNone == 0) value = hn::Div(value, area);
        hn::StoreU(value, d, y + i);
    }
}

/// Windows at the borders, one by one.
template <class Join, class Rows>
HWY_NOINLINE void pool_windows(const Pooling& pool, const Row& row, Range windows) {
    const Range rows = pool.rows(row.i1);
    const std::byte* from = at<const std::byte>(pool.x, 0, rows.begin, row.i2, row.i3);
    float* y = row_at<float>(pool.node, row);
    for (std::int64_t i = windows.begin; i < windows.end; ++i) {
        const Range inside = pool.across.window(i);
        auto value = hn::Set(One(), Join::kNone);
        for (std::int64_t x = inside.begin; x < inside.end; ++x) {
            value = Join::join(value, join_rows<Join, Rows>(One(), from + x * Rows::kSize,
                                                            pool.x.nb[1], rows.end - rows.begin));
        }
        y[i] = hn::GetLane(value);
        if (pool.is_mean) y[i] = mean_of(pool, inside, y[i]);
    }
}

/// Rows whose windows `direct` are joined with vectors of `d`.
template <class Join, class Rows, class D>
void pool_rows_by(D d, const Pooling& pool, Range rows, Range direct) {
    const PoolAxis& across = pool.across;
    const bool is_even = across.taps == 2 && across.stride == 2;  // the usual windows
    const bool has_borders = direct.end - direct.begin < pool.node.ne[0];
    for_rows(pool.node, rows, [&](const Row& row) HWY_ATTR {
        if (is_even) {
            pool_direct<Join, Rows>(d, pool, row, direct, 2, 2);
        } else {
            pool_direct<Join, Rows>(d, pool, row, direct, across.taps, across.stride);
        }
        if (!has_borders) return;
        pool_windows<Join, Rows>(pool, row, {0, direct.begin});
        pool_windows<Join, Rows>(pool, row, {direct.end, pool.node.ne[0]});
    });
}

template <class Join, class Rows>
void pool_rows(const Pooling& pool, Range rows, float* line) {
    const hn::CappedTag<float, 4> few;  // for small images
    const Range direct = direct_windows<Rows>(pool);
    const std::int64_t count = direct.end - direct.begin;
    if (count >= lane_count(Floats())) {
        return pool_rows_by<Join, Rows>(Floats(), pool, rows, direct);
    }
    if (count >= lane_count(few)) return pool_rows_by<Join, Rows>(few, pool, rows, direct);
    for_rows(pool.node, rows,
             [&](const Row& row) HWY_ATTR { pool_lines<Join, Rows>(pool, row, line); });
}

}  // namespace

void pool_with(const Pooling& pool, Range rows, float* line) {
    const bool is_f32 = pool.x.type == GGML_TYPE_F32;
    if (pool.is_mean) {
        return is_f32 ? pool_rows<Sum, F32Rows>(pool, rows, line)
                      : pool_rows<Sum, F16Rows>(pool, rows, line);
    }
    is_f32 ? pool_rows<Largest, F32Rows>(pool, rows, line)
           : pool_rows<Largest, F16Rows>(pool, rows, line);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(pool_with);
namespace {

Pooling pooling_of(const Tensor& node, const ops::Pool1d::Params& params) {
    const PoolAxis across{.extent = node.src[0]->ne[0],
                          .taps = params.taps,
                          .stride = params.stride,
                          .padding = params.padding};
    return {node, params.op == GGML_OP_POOL_AVG, true, across, {}};
}

Pooling pooling_of(const Tensor& node, const ops::Pool2d::Params& params) {
    const Tensor& x = *node.src[0];
    return {node, params.op == GGML_OP_POOL_AVG, false, axis_of(params, 0, x),
            axis_of(params, 1, x)};
}

/// The functions of a kernel for the op of descriptor `D`.
template <class D>
struct Entry {
    static Pooling pooling(const Tensor& node) {
        return pooling_of(node, unpack<typename D::Params>(node));
    }

    static std::string_view objection(const Tensor& node) {
        const Type type = node.src[0]->type;
        if (type != GGML_TYPE_F32 && type != GGML_TYPE_F16) return "x is not f32 or f16";
        if (node.nb[0] != sizeof(float)) return "rows of the result are not dense";
        constexpr std::int64_t kMostTaps = std::int64_t{1} << 24;  // a line of them is 64 MiB
        const auto why = window_objection(unpack<typename D::Params>(node));
        if (!why.empty() || pooling(node).across.taps <= kMostTaps) return why;
        return "windows are wider than 2^24 elements";
    }

    static void run(const Tensor& node, const Task& task) {
        if (is_empty(node)) return;
        const Pooling pool = pooling(node);
        std::byte* line = task.scratch + static_cast<std::size_t>(task.index) * pool.line_size();
        HWY_DYNAMIC_DISPATCH(pool_with)
        (pool, task.share(row_count(node)), reinterpret_cast<float*>(line));
    }

    static Demand demand(const Tensor& node, int threads) {
        if (is_empty(node)) return {};
        Demand demand = rows_demand(node, threads);
        demand.scratch = static_cast<std::size_t>(demand.tasks) * pooling(node).line_size();
        return demand;
    }

    static constexpr Kernel kernel(std::string_view name) {
        return {.name = name, .op = D::id, .objection = objection, .run = run, .demand = demand};
    }
};

}  // namespace

extern const Kernel kPool1d = Entry<ops::Pool1d>::kernel("pool_1d");
extern const Kernel kPool2d = Entry<ops::Pool2d>::kernel("pool_2d");

}  // namespace heddle::cpu
#endif
