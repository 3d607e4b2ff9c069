#include "backends/cpu/kernels/elementwise/spans.hpp"

/// Reductions that are counted or added up one by one.
namespace heddle::cpu {
namespace {

// ---- CUMSUM ----

std::string_view cumsum_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "x is not f32";
    if (!same_shape(x, node)) return "the result does not have the extents of x";
    if (!has_packed_rows(x) || !has_packed_rows(node)) return "rows are not dense";
    return {};
}

/// Added up in double, so that long rows keep their digits. y may be x.
void add_up(const float* x, float* y, std::int64_t n) {
    double sum = 0;
    std::int64_t i = 0;
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

void run_cumsum(const Tensor& node, const Task& task) {
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        add_up(row_at<const float>(*node.src[0], row), row_at<float>(node, row), node.ne[0]);
    });
}

// ---- COUNT_EQUAL ----

std::string_view count_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.type != GGML_TYPE_I32 || b.type != GGML_TYPE_I32) return "a and b are not i32";
    if (node.type != GGML_TYPE_I64) return "the result is not i64";
    if (!is_scalar(node)) return "the result is not a single value";
    return same_shape(a, b) ? "" : "b does not have the extents of a";
}

void run_count(const Tensor& node, const Task& task) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    auto* counts = reinterpret_cast<std::int64_t*>(task.scratch);
    std::int64_t equal = 0;
    for_rows(a, task.share(row_count(a)), [&](const Row& row) {
        for (std::int64_t i = 0; i < a.ne[0]; ++i) {
            equal += *at<const std::int32_t>(a, i, row.i1, row.i2, row.i3) ==
                     *at<const std::int32_t>(b, i, row.i1, row.i2, row.i3);
        }
    });
    counts[task.index] = equal;
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
