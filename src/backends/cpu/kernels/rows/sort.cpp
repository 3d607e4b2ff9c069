#include "ops/sort.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/sort.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/rows/row_largest.hpp"
#include "backends/cpu/kernels/rows/row_order.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"

#ifndef HEDDLE_CPU_SORT_ONCE
#define HEDDLE_CPU_SORT_ONCE
namespace heddle::cpu {
namespace {

/// Bytes that a task needs for values of which it keeps the indices and their order: two numbers
/// for sorting, the value, its index and its place.
constexpr std::int64_t kBytesPerCandidate = 2 * 8 + 4 + 4 + 4;

/// So many values are at hand in the search for the largest: k, and as many again so that sorting
/// out is rare, or all of a row that is not much longer.
std::int64_t candidates_of(const Tensor& top_k) {
    constexpr std::int64_t least = 256;
    const std::int64_t n = top_k.src[0]->ne[0], k = top_k.ne[0];
    return n <= 4 * k || n <= least ? n : std::max(2 * k, least);
}

std::int64_t scratch_of(const Tensor& node) {
    const std::int64_t bytes =
        node.op == GGML_OP_TOP_K ? candidates_of(node) * kBytesPerCandidate : 2 * 8 * node.ne[0];
    return (bytes + 63) / 64 * 64;
}

}  // namespace
}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

void argsort(const Tensor& node, const Task& task) {
    const bool falling = unpack<ops::Argsort::Params>(node).order == GGML_SORT_ORDER_DESC;
    auto* room = reinterpret_cast<std::uint64_t*>(task.scratch + task.index * scratch_of(node));
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        order_row(row_at<const float>(*node.src[0], row), node.ne[0], falling, room,
                  row_at<std::int32_t>(node, row));
    });
}

void top_k(const Tensor& node, const Task& task) {
    const std::int64_t size = candidates_of(node);
    std::byte* scratch = task.scratch + task.index * scratch_of(node);
    auto* sorting = reinterpret_cast<std::uint64_t*>(scratch);
    auto* values = reinterpret_cast<float*>(sorting + 2 * size);
    auto* indices = reinterpret_cast<std::int32_t*>(values + size);
    const LargestRoom room{size, sorting, values, indices, indices + size};
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        find_largest(row_at<const float>(*node.src[0], row), node.src[0]->ne[0], node.ne[0], room,
                     row_at<std::int32_t>(node, row));
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(argsort);
HWY_EXPORT(top_k);
namespace {

std::string_view objection_to_rows(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32) return "x is not f32";
    if (node.type != GGML_TYPE_I32) return "the result is not i32";
    if (x.ne[1] != node.ne[1] || x.ne[2] != node.ne[2] || x.ne[3] != node.ne[3]) {
        return "the result does not have the rows of x";
    }
    return has_packed_rows(x) && has_packed_rows(node) ? "" : "rows are not dense";
}

/// What a node wants that spends so many operations on each element of x.
Demand sort_demand(const Tensor& node, int threads, double flops_per_element) {
    const Tensor& x = *node.src[0];
    const double flops = flops_per_element * static_cast<double>(element_count(x));
    const int tasks = worthwhile_tasks(0, flops, row_count(x), threads);
    return {.tasks = tasks, .scratch = static_cast<std::size_t>(tasks * scratch_of(node))};
}

// ---- ARGSORT ----

std::string_view argsort_objection(const Tensor& node) {
    const std::int32_t order = unpack<ops::Argsort::Params>(node).order;
    if (order != GGML_SORT_ORDER_ASC && order != GGML_SORT_ORDER_DESC)
        return "the order is neither ascending nor descending";
    if (node.ne[0] != node.src[0]->ne[0]) return "the result does not have the extents of x";
    return objection_to_rows(node);
}

void run_argsort(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(argsort)(node, task);
}

Demand argsort_demand(const Tensor& node, int threads) { return sort_demand(node, threads, 20); }

// ---- TOP_K ----

std::string_view top_k_objection(const Tensor& node) {
    if (node.ne[0] > node.src[0]->ne[0]) return "rows of x have fewer than k elements";
    return objection_to_rows(node);
}

/// The largest first, although any order would do.
void run_top_k(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(top_k)(node, task); }

Demand top_k_demand(const Tensor& node, int threads) { return sort_demand(node, threads, 2); }

}  // namespace

extern const Kernel kArgsort{.name = "argsort",
                             .op = GGML_OP_ARGSORT,
                             .objection = argsort_objection,
                             .run = run_argsort,
                             .demand = argsort_demand};
extern const Kernel kTopK{.name = "top_k",
                          .op = GGML_OP_TOP_K,
                          .objection = top_k_objection,
                          .run = run_top_k,
                          .demand = top_k_demand};

}  // namespace heddle::cpu
#endif
