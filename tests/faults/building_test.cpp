// Building graphs while calls to the system fail.

#include <gtest/gtest.h>

#include "ggml-cpp.h"
#include "ggml/ops.h"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

constexpr std::size_t kArena = 1 << 20;
constexpr int kNodes = 31;  ///< those that the four results depend on

/// Nodes of one context, built step by step.
class Builder {
public:
    Builder(Run& run, ggml_context* context) : run_(run), context_(context) {}

    /// A matrix of F32.
    ggml_tensor* matrix(std::int64_t columns, std::int64_t rows) {
        return run_.made(
            "a matrix", [&] { return ggml_new_tensor_2d(context_, GGML_TYPE_F32, columns, rows); });
    }

    ggml_tensor* integers(std::int64_t count) {
        return run_.made("integers",
                         [&] { return ggml_new_tensor_1d(context_, GGML_TYPE_I32, count); });
    }

    /// The node that `function` makes of `args`.
    template <class Function, class... Args>
    ggml_tensor* node(Function* function, Args... args) {
        return run_.made("a node", [&] { return function(context_, args...); });
    }

private:
    Run& run_;
    ggml_context* context_;
};

ggml_tensor* arithmetic(Builder& build, ggml_tensor* x, ggml_tensor* y) {
    ggml_tensor* sum = build.node(ggml_add, x, y);
    sum = build.node(ggml_sub, sum, y);
    sum = build.node(ggml_mul, sum, y);
    sum = build.node(ggml_div, sum, y);
    sum = build.node(ggml_scale, sum, 2.0f);
    sum = build.node(ggml_clamp, sum, -1.0f, 1.0f);
    sum = build.node(ggml_sqr, sum);
    sum = build.node(ggml_gelu, sum);
    sum = build.node(ggml_silu_inplace, sum);
    return build.node(ggml_leaky_relu, sum, 0.1f, false);
}

ggml_tensor* rows(Builder& build, ggml_tensor* x) {
    ggml_tensor* y = build.node(ggml_norm, x, 1e-5f);
    y = build.node(ggml_rms_norm, y, 1e-5f);
    y = build.node(ggml_soft_max, y);
    y = build.node(ggml_cumsum, y);
    ggml_tensor* order = build.node(ggml_argsort, y, GGML_SORT_ORDER_ASC);
    ggml_tensor* chosen = build.node(ggml_get_rows, y, build.integers(4));
    build.node(ggml_sum_rows, chosen);
    build.node(ggml_mean, order->type == GGML_TYPE_I32 ? chosen : y);
    return build.node(ggml_repeat, chosen, x);
}

ggml_tensor* movement(Builder& build, ggml_tensor* x) {
    ggml_tensor* y = build.node(ggml_transpose, x);
    y = build.node(ggml_cont, y);
    y = build.node(ggml_reshape_3d, y, std::int64_t{8}, std::int64_t{2}, std::int64_t{8});
    y = build.node(ggml_permute, y, 0, 2, 1, 3);
    y = build.node(ggml_cont_2d, y, std::int64_t{16}, std::int64_t{8});
    y = build.node(ggml_concat, y, y, 1);
    y = build.node(ggml_pad, y, 2, 1, 0, 0);
    y = build.node(ggml_roll, y, 1, 0, 0, 0);
    return build.node(ggml_view_2d, y, std::int64_t{16}, std::int64_t{8}, y->nb[1], std::size_t{0});
}

ggml_tensor* products(Builder& build, ggml_tensor* x) {
    ggml_tensor* weights = build.matrix(16, 16);
    ggml_tensor* y = build.node(ggml_mul_mat, weights, x);
    ggml_tensor* gate = build.node(ggml_mul_mat, weights, y);
    y = build.node(ggml_swiglu_split, y, gate);
    y = build.node(
        ggml_rope,
        build.node(ggml_reshape_3d, y, std::int64_t{8}, std::int64_t{2}, std::int64_t{8}),
        build.integers(8), 8, 0);
    return build.node(ggml_flash_attn_ext, y, y, y, static_cast<ggml_tensor*>(nullptr), 1.0f, 0.0f,
                      0.0f);
}

void build_graphs(Run& run) {
    const ggml_context_ptr context(run.made("the context", [] {
        return ggml_init({.mem_size = kArena, .mem_buffer = nullptr, .no_alloc = true});
    }));
    Builder build(run, context.get());
    ggml_tensor* x = build.matrix(16, 8);
    ggml_tensor* y = build.matrix(16, 8);
    ggml_tensor* results[] = {arithmetic(build, x, y), rows(build, x), movement(build, x),
                              products(build, x)};

    ggml_cgraph* graph =
        run.made("the graph", [&] { return ggml_new_graph_custom(context.get(), 100, false); });
    for (ggml_tensor* result : results) {
        run.done("expansion", [&] { ggml_build_forward_expand(graph, result); });
    }
    run.expect("the graph has all nodes once", ggml_graph_n_nodes(graph) == kNodes);
    ggml_cgraph* copy =
        run.made("the copy", [&] { return ggml_graph_dup(context.get(), graph, false); });
    run.expect("the copy has the same nodes",
               ggml_graph_n_nodes(copy) == ggml_graph_n_nodes(graph) &&
                   ggml_graph_node(copy, -1) == results[3]);
    run.done("printing", [&] { ggml_graph_print(graph); });
}

TEST(Sweep, BuildingGraphs) { sweep(build_graphs); }

/// What failing calls say, without memory to say it in.
void make_mistakes(Run& run) {
    const ggml_context_ptr context(run.made("the context", [] {
        return ggml_init({.mem_size = 4096, .mem_buffer = nullptr, .no_alloc = true});
    }));
    Builder build(run, context.get());
    ggml_tensor* x = build.matrix(16, 8);
    ggml_tensor* y = build.matrix(15, 7);
    ggml_set_name(x, "a name that is long enough to need memory of its own");
    run.expect("a sum of shapes that do not fit", ggml_add(context.get(), x, y) == nullptr);
    run.expect("the sum says why", *heddle_last_error() != '\0');
    run.expect("a graph that does not fit",
               ggml_new_graph_custom(context.get(), 1000, false) == nullptr);
    run.expect("the graph says why", *heddle_last_error() != '\0');
}

TEST(Sweep, BuildingThatIsRefused) { sweep(make_mistakes); }

}  // namespace
}  // namespace heddle::faults
