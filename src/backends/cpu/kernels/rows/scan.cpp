#include "backends/cpu/kernels/elementwise/spans.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/scan.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/lanes.hpp"
#include "ggml/op_list.h"

/// Reductions that are counted or added up one by one.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

// ---- CUMSUM ----

using Doubles = hn::ScalableTag<double>;

#if HWY_TARGET == HWY_SCALAR
#define HEDDLE_SUMS_IN_LANES 0
#else  // with two lanes it takes longer than one by one
#define HEDDLE_SUMS_IN_LANES (HWY_MAX_BYTES >= 32)
#endif

#if HEDDLE_SUMS_IN_LANES
/// Adds up whole vectors from the start, and leaves their sum in `sum`. Returns their elements.
std::int64_t add_up_lanes(const float* x, float* y, std::int64_t n, double& sum) {
    const Doubles d;
    const hn::Rebind<float, Doubles> df;
    const hn::RebindToSigned<Doubles> di;
    const std::int64_t step = lane_count(d);
    const auto lane = hn::Iota(di, 0);
    const auto lanes_before = [=](int distance) HWY_ATTR {
        const auto before = hn::Sub(lane, hn::Set(di, distance));
        return hn::IndicesFromVec(d, hn::And(before, hn::Set(di, step - 1)));
    };
    const auto has_before = [=](int distance) HWY_ATTR {
        return hn::RebindMask(d, hn::Gt(lane, hn::Set(di, distance - 1)));
    };
    const auto by_one = lanes_before(1), by_two = lanes_before(2), by_four = lanes_before(4);
    const auto has_one = has_before(1), has_two = has_before(2), has_four = has_before(4);
    const auto add_moved = [](auto v, auto lanes, auto mask) HWY_ATTR {
        return hn::Add(v, hn::IfThenElseZero(mask, hn::TableLookupLanes(v, lanes)));
    };
    const auto last = hn::IndicesFromVec(d, hn::Set(di, step - 1));
    auto before = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        auto sums = hn::PromoteTo(d, hn::LoadU(df, x + i));
        sums = add_moved(sums, by_one, has_one);
        sums = add_moved(sums, by_two, has_two);
        if constexpr (hn::MaxLanes(d) > 4) sums = add_moved(sums, by_four, has_four);
        hn::StoreU(hn::DemoteTo(df, hn::Add(before, sums)), df, y + i);
        before = hn::Add(before, hn::TableLookupLanes(sums, last));  // waits for nothing but itself
    }
    sum = hn::GetLane(before);
    return i;
}
#endif

/// Added up in double, so that long rows keep their digits. y may be x.
void add_up(const float* x, float* y, std::int64_t n) {
    double sum = 0;
    std::int64_t i = 0;
#if HEDDLE_SUMS_IN_LANES
    i = add_up_lanes(x, y, n, sum);
#endif
    for (; i + 4 <= n; i += 4) {  // among themselves first: only one addition waits for the last
        const double x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
        const double two = x0 + x1, four = two + (x2 + x3);
        y[i] = static_cast<float>(sum + x0);
        y[i + 1] = static_cast<float>(sum + two);
        y[i + 2] = static_cast<float>(sum + (two + x2));
        sum += four;
        y[i + 3] = static_cast<float>(sum);
    }
    for (; i < n; ++i) {
        sum += static_cast<double>(x[i]);
        y[i] = static_cast<float>(sum);
    }
}

void cumsum(const Tensor& node, const Task& task) {
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        add_up(row_at<const float>(*node.src[0], row), row_at<float>(node, row), node.ne[0]);
    });
}

// ---- COUNT_EQUAL ----

std::int64_t count_equal(const std::int32_t* a, const std::int32_t* b, std::int64_t n) {
    const hn::ScalableTag<std::int32_t> d;
    const std::int64_t step = lane_count(d);
    const auto count = [&](auto sum, std::int64_t i) HWY_ATTR {
        const auto is_equal = hn::Eq(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
        return hn::Sub(sum, hn::VecFromMask(d, is_equal));
    };
    constexpr std::int64_t most = std::int64_t{1} << 30;  // a lane holds no more
    std::int64_t equal = 0, i = 0;
    while (i + step <= n) {
        const std::int64_t end = n - i < most ? n : i + most;
        auto sum0 = hn::Zero(d), sum1 = sum0;
        for (; i + 2 * step <= end; i += 2 * step) {
            sum0 = count(sum0, i);
            sum1 = count(sum1, i + step);
        }
        if (i + step <= end) sum0 = count(sum0, i), i += step;
        equal += hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
    }
    for (; i < n; ++i) equal += a[i] == b[i];
    return equal;
}

/// How many elements of this task's share are equal.
std::int64_t count_equal_share(const Tensor& a, const Tensor& b, const Task& task) {
    std::int64_t equal = 0;
    if (has_packed_rows(a) && has_packed_rows(b)) {
        for_spans(a, b, task, [&](const std::byte* x, const std::byte* y, std::int64_t n) {
            equal += count_equal(reinterpret_cast<const std::int32_t*>(x),
                                 reinterpret_cast<const std::int32_t*>(y), n);
        });
        return equal;
    }
    for_rows(a, task.share(row_count(a)), [&](const Row& row) {
        for (std::int64_t i = 0; i < a.ne[0]; ++i) {
            equal += *at<const std::int32_t>(a, i, row.i1, row.i2, row.i3) ==
                     *at<const std::int32_t>(b, i, row.i1, row.i2, row.i3);
        }
    });
    return equal;
}

#undef HEDDLE_SUMS_IN_LANES
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(cumsum);
HWY_EXPORT(count_equal_share);
namespace {

std::string_view cumsum_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "x is not f32";
    if (!same_shape(x, node)) return "the result does not have the extents of x";
    if (!has_packed_rows(x) || !has_packed_rows(node)) return "rows are not dense";
    return {};
}

void run_cumsum(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(cumsum)(node, task); }

std::string_view count_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.type != GGML_TYPE_I32 || b.type != GGML_TYPE_I32) return "a and b are not i32";
    if (node.type != GGML_TYPE_I64) return "the result is not i64";
    if (!is_scalar(node)) return "the result is not a single value";
    return same_shape(a, b) ? "" : "b does not have the extents of a";
}

void run_count(const Tensor& node, const Task& task) {
    auto* counts = reinterpret_cast<std::int64_t*>(task.scratch);
    counts[task.index] = HWY_DYNAMIC_DISPATCH(count_equal_share)(*node.src[0], *node.src[1], task);
    task.sync();
    if (task.index != 0) return;
    std::int64_t sum = 0;
    for (int i = 0; i < task.count; ++i) sum += counts[i];
    *static_cast<std::int64_t*>(node.data) = sum;
}

Demand count_demand(const Tensor& node, int threads) {
    const Tensor& a = *node.src[0];
    const double bytes = 2.0 * static_cast<double>(byte_size(a));
    const int tasks = worthwhile_tasks(bytes, 0, row_count(a), threads);
    return {.tasks = tasks, .scratch = static_cast<std::size_t>(tasks) * sizeof(std::int64_t)};
}

}  // namespace

extern const Kernel kCumsum{
    .name = "cumsum", .op = GGML_OP_CUMSUM, .objection = cumsum_objection, .run = run_cumsum};
extern const Kernel kCountEqual{.name = "count_equal",
                                .op = GGML_OP_COUNT_EQUAL,
                                .objection = count_objection,
                                .run = run_count,
                                .demand = count_demand};

}  // namespace heddle::cpu
#endif
