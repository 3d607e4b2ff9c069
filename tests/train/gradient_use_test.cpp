// How gradients are used from C: accumulators over several evaluations, resets, failures.

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "heddle/heddle.h"

namespace heddle::test {
namespace {

class GradientUse : public testing::Test {
protected:
    void SetUp() override {
        before_ = heddle_get_error_mode();
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        heddle_clear_error();
    }
    void TearDown() override { heddle_set_error_mode(before_); }

    ggml_backend_t cpu() { return cpu_.get(); }

    ggml_tensor* parameter(std::int64_t n, const char* name) {
        ggml_tensor* x = ggml_new_tensor_1d(context, GGML_TYPE_F32, n);
        ggml_set_param(x);
        ggml_set_name(x, name);
        return x;
    }

    ggml_cgraph* graph_of(ggml_tensor* loss) {
        ggml_set_loss(loss);
        ggml_cgraph* graph = ggml_new_graph_custom(context, 64, true);
        ggml_build_forward_expand(graph, loss);
        return graph;
    }

    void allocate() {
        memory_.reset(ggml_backend_alloc_ctx_tensors(context, cpu_.get()));
        ASSERT_NE(memory_, nullptr) << heddle_last_error();
    }

    void compute(ggml_cgraph* graph) {
        ASSERT_EQ(ggml_backend_graph_compute(cpu_.get(), graph), GGML_STATUS_SUCCESS)
            << heddle_last_error();
    }

    static void set(ggml_tensor* x, const std::vector<float>& values) {
        ggml_backend_tensor_set(x, values.data(), 0, values.size() * sizeof(float));
    }
    static std::vector<float> get(const ggml_tensor* x) {
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(x)));
        ggml_backend_tensor_get(x, values.data(), 0, values.size() * sizeof(float));
        return values;
    }

private:
    heddle_error_mode before_{};
    ggml_context_ptr owned_{
        ggml_init({.mem_size = std::size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_backend_ptr cpu_{ggml_backend_cpu_init()};
    ggml_backend_buffer_ptr memory_;

protected:
    ggml_context* context = owned_.get();
};

TEST_F(GradientUse, AccumulatorsAddUpOverEvaluationsUntilReset) {
    ggml_tensor* x = parameter(3, "x");
    ggml_cgraph* graph = graph_of(ggml_sum(context, ggml_sqr(context, x)));
    ggml_tensor* accumulator = ggml_new_tensor_1d(context, GGML_TYPE_F32, 3);
    std::vector<ggml_tensor*> accumulators(std::size_t(ggml_graph_n_nodes(graph)));
    ASSERT_EQ(ggml_graph_node(graph, 0), x);
    accumulators[0] = accumulator;
    ggml_build_backward_expand(context, graph, accumulators.data());
    ASSERT_STREQ(heddle_last_error(), "");
    EXPECT_EQ(ggml_graph_get_grad_acc(graph, x), accumulator);
    EXPECT_EQ(ggml_graph_get_grad(graph, x)->view_src, accumulator);
    allocate();
    set(x, {1, 2, 3});
    ggml_graph_reset(graph);
    compute(graph);
    EXPECT_EQ(get(accumulator), (std::vector<float>{2, 4, 6}));
    compute(graph);
    EXPECT_EQ(get(accumulator), (std::vector<float>{4, 8, 12}));
    ggml_graph_reset(graph);
    EXPECT_EQ(get(accumulator), (std::vector<float>{0, 0, 0}));
    compute(graph);
    EXPECT_EQ(get(ggml_graph_get_grad(graph, x)), (std::vector<float>{2, 4, 6}));
    EXPECT_STREQ(heddle_last_error(), "");
}

TEST_F(GradientUse, WithoutAccumulatorsEveryEvaluationStartsAnew) {
    ggml_tensor* x = parameter(2, "x");
    ggml_cgraph* graph = graph_of(ggml_sum(context, ggml_sqr(context, x)));
    ggml_build_backward_expand(context, graph, nullptr);
    allocate();
    set(x, {1, -3});
    ggml_graph_reset(graph);
    for (int i = 0; i < 2; ++i) {
        compute(graph);
        EXPECT_EQ(get(ggml_graph_get_grad(graph, x)), (std::vector<float>{2, -6}));
    }
    EXPECT_EQ(ggml_graph_get_grad_acc(graph, x), nullptr);
}

TEST_F(GradientUse, LossesAddUpEvenWhereOneDependsOnAnother) {
    ggml_tensor* x = parameter(2, "x");
    ggml_tensor* first = ggml_sum(context, x);
    ggml_set_loss(first);
    ggml_cgraph* graph = graph_of(ggml_sqr(context, first));
    ggml_build_backward_expand(context, graph, nullptr);
    allocate();
    set(x, {1, 2});
    ggml_graph_reset(graph);
    for (int i = 0; i < 2; ++i) {  // the gradient that the first loss starts from stays 1
        compute(graph);
        EXPECT_EQ(get(ggml_graph_get_grad(graph, x)), (std::vector<float>{7, 7}));
    }
}

TEST_F(GradientUse, ViewsTakeNothingFromWhatTheyLeaveOut) {
    ggml_tensor* x = parameter(4, "x");
    ggml_cgraph* graph = graph_of(ggml_sum(context, ggml_view_1d(context, x, 2, sizeof(float))));
    ggml_build_backward_expand(context, graph, nullptr);
    allocate();
    const float infinity = std::numeric_limits<float>::infinity();
    set(x, {infinity, 1, 2, -infinity});
    ggml_graph_reset(graph);
    compute(graph);
    EXPECT_EQ(get(ggml_graph_get_grad(graph, x)), (std::vector<float>{0, 1, 1, 0}));
}

TEST_F(GradientUse, MemoryOfIntermediatesMayBeReused) {
    const ggml_context_ptr weights(
        ggml_init({.mem_size = 4096, .mem_buffer = nullptr, .no_alloc = true}));
    ggml_tensor* x = ggml_new_tensor_1d(weights.get(), GGML_TYPE_F32, 4);
    ggml_set_param(x);
    const ggml_backend_buffer_ptr memory(ggml_backend_alloc_ctx_tensors(weights.get(), cpu()));
    const auto part = [&](std::size_t first) {
        return ggml_view_1d(context, x, 2, first * sizeof(float));
    };
    ggml_tensor* product = ggml_sum(context, ggml_mul(context, part(2), part(1)));
    ggml_tensor* squares = ggml_sum(context, ggml_sqr(context, part(0)));
    ggml_cgraph* graph = graph_of(ggml_add(context, product, squares));
    ggml_build_backward_expand(context, graph, nullptr);
    ggml_set_output(ggml_graph_get_grad(graph, x));
    const ggml_gallocr_ptr allocator(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
    ASSERT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), graph)) << heddle_last_error();
    set(x, {1, 2, 3, 4});
    ggml_graph_reset(graph);
    for (int i = 0; i < 2; ++i) {
        compute(graph);
        EXPECT_EQ(get(ggml_graph_get_grad(graph, x)), (std::vector<float>{2, 7, 6, 3}));
    }
}

TEST_F(GradientUse, ResetAlsoSetsTheMomentsOfAdamwToZero) {
    ggml_tensor* x = parameter(2, "x");
    ggml_cgraph* graph = graph_of(ggml_sum(context, x));
    ggml_build_backward_expand(context, graph, nullptr);
    ggml_tensor* m = ggml_new_tensor_1d(context, GGML_TYPE_F32, 2);
    ggml_tensor* v = ggml_new_tensor_1d(context, GGML_TYPE_F32, 2);
    ggml_tensor* values = ggml_new_tensor_1d(context, GGML_TYPE_F32, 7);
    ggml_build_forward_expand(
        graph, ggml_opt_step_adamw(context, x, ggml_graph_get_grad(graph, x), m, v, values));
    allocate();
    set(m, {1, 2});
    set(v, {3, 4});
    ggml_graph_reset(graph);
    EXPECT_EQ(get(m), (std::vector<float>{0, 0}));
    EXPECT_EQ(get(v), (std::vector<float>{0, 0}));
}

TEST_F(GradientUse, MemoryOfAContextIsResetInPlace) {
    const ggml_context_ptr own(
        ggml_init({.mem_size = std::size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = false}));
    ggml_tensor* x = ggml_new_tensor_1d(own.get(), GGML_TYPE_F32, 1);
    ggml_set_param(x);
    ggml_tensor* loss = ggml_sqr(own.get(), x);
    ggml_set_loss(loss);
    ggml_cgraph* graph = ggml_new_graph_custom(own.get(), 16, true);
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(own.get(), graph, nullptr);
    ggml_graph_reset(graph);
    EXPECT_EQ(*static_cast<float*>(ggml_graph_get_grad_acc(graph, loss)->data), 1);
}

TEST_F(GradientUse, FailuresAreSentences) {
    ggml_tensor* x = parameter(4, "x");
    ggml_cgraph* graph = graph_of(ggml_sum(context, ggml_tanh(context, x)));
    const int nodes = ggml_graph_n_nodes(graph);
    ggml_build_backward_expand(context, graph, nullptr);
    EXPECT_STREQ(heddle_last_error(), "no gradient rule for op TANH at node 'node_1' f32[4,1,1,1]");
    EXPECT_EQ(ggml_graph_n_nodes(graph), nodes);
    EXPECT_EQ(ggml_graph_get_grad(graph, x), nullptr);

    heddle_clear_error();
    ggml_graph_reset(ggml_new_graph_custom(context, 8, false));
    EXPECT_STREQ(heddle_last_error(),
                 "graph reset: the graph was made without tables for gradients");
    heddle_clear_error();
    ggml_graph_reset(nullptr);
    EXPECT_STREQ(heddle_last_error(), "");
}

}  // namespace
}  // namespace heddle::test
