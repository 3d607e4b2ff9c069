// Which launches leave their result coded for the next, and which take it. Needs no device.

#include "backends/cuda/passed_columns.hpp"

#include <gtest/gtest.h>

#include "ggml-cpp.h"
#include "ggml.h"
#include "ggml/ops.h"

namespace heddle::cuda {
namespace {

Plan plan_of(ggml_cgraph& graph) {
    Board board;
    board.facts = {.multiprocessors = 132, .architecture = 900, .shared_per_block = 232448};
    auto made = Plan::make(board, graph, Plan::Memory::not_asked);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *std::move(made) : Plan{};
}

/// A sum, and the half of a layer behind it: norm, gate and up, down, sum. Then queries, keys and
/// values of the next one.
struct Layers {
    ggml_context_ptr context{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_tensor *first_weights = vector(), *second_weights = vector();
    Plan plan;

    ggml_tensor* vector() { return ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 512); }
    ggml_tensor* product(ggml_type type, std::int64_t rows, ggml_tensor* x) {
        return ggml_mul_mat(context.get(), ggml_new_tensor_2d(context.get(), type, x->ne[0], rows),
                            x);
    }

    Layers(ggml_type type, ggml_type values) {
        ggml_context* const c = context.get();
        ggml_tensor* const sum = ggml_add(c, vector(), product(type, 512, vector()));
        ggml_tensor* const scaled = ggml_mul(c, ggml_rms_norm(c, sum, 1e-5f), first_weights);
        ggml_tensor* const gated =
            ggml_swiglu_split(c, product(type, 1024, scaled), product(type, 1024, scaled));
        ggml_tensor* const x = ggml_add(c, sum, product(type, 512, gated));
        ggml_tensor* const input = ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), second_weights);
        for (const ggml_type of : {type, type, values})
            ggml_build_forward_expand(graph, product(of, 512, input));
        plan = plan_of(*graph);
    }
    const ColumnGroup& group(std::size_t i) const {
        return std::get<ColumnGroup>(plan.steps[i].work);
    }
};

TEST(PassedColumns, EveryColumnIsLeftForTheLaunchThatReadsIt) {
    const Layers layers(GGML_TYPE_Q4_0, GGML_TYPE_Q4_0);
    const std::vector<Step>& steps = layers.plan.steps;
    ASSERT_EQ(steps.size(), 4U);  // sum; gate and up; down; queries, keys and values
    EXPECT_EQ(steps[0].takes, Step::kNowhere);
    for (std::size_t i = 1; i < 4; ++i) {
        EXPECT_NE(steps[i].takes, Step::kNowhere);
        EXPECT_EQ(steps[i].takes, steps[i - 1].leaves.half);
        EXPECT_NE(steps[i].takes, steps[i].leaves.half);
    }
    EXPECT_EQ(steps[0].leaves.weights, layers.first_weights);
    EXPECT_EQ(steps[1].leaves.weights, nullptr);
    EXPECT_EQ(steps[2].leaves.weights, layers.second_weights);
    EXPECT_EQ(steps[3].leaves.half, Step::kNowhere);
}

TEST(PassedColumns, FloatsAreNotCoded) {
    const Layers layers(GGML_TYPE_F16, GGML_TYPE_F16);
    for (const Step& step : layers.plan.steps) {
        EXPECT_EQ(step.takes, Step::kNowhere);
        EXPECT_EQ(step.leaves.half, Step::kNowhere);
    }
}

TEST(PassedColumns, ValuesOfAnotherTypeHaveTheNormToThemselvesAndTakeTheSameColumn) {
    const Layers layers(GGML_TYPE_Q4_K, GGML_TYPE_Q6_K);
    const std::vector<Step>& steps = layers.plan.steps;
    ASSERT_EQ(steps.size(), 5U);
    EXPECT_EQ(layers.group(3).count, 2);
    EXPECT_EQ(layers.group(4).count, 1);
    EXPECT_EQ(layers.group(3).norm, layers.group(4).norm);
    EXPECT_EQ(steps[3].takes, steps[2].leaves.half);
    EXPECT_EQ(steps[4].takes, steps[2].leaves.half);
}

/// A launch and a product that reads its result, perhaps behind a norm.
struct Pair {
    ggml_context_ptr context{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_context* const c = context.get();

    ggml_tensor* weights() { return ggml_new_tensor_2d(c, GGML_TYPE_Q4_0, 1024, 1024); }
    ggml_tensor* vector() { return ggml_new_tensor_1d(c, GGML_TYPE_F32, 1024); }
    ggml_tensor* attention() {
        ggml_tensor* const q = ggml_new_tensor_3d(c, GGML_TYPE_F32, 128, 1, 8);
        ggml_tensor* const k = ggml_new_tensor_3d(c, GGML_TYPE_F16, 128, 256, 8);
        ggml_tensor* const v = ggml_new_tensor_3d(c, GGML_TYPE_F16, 128, 256, 8);
        return ggml_reshape_1d(c, ggml_flash_attn_ext(c, q, k, v, nullptr, 0.1f, 0, 0), 1024);
    }
    /// Whether a product of `x` takes it coded from the launch before.
    bool is_passed(ggml_tensor* x) {
        ggml_cgraph* const graph = ggml_new_graph(c);
        ggml_build_forward_expand(graph, ggml_mul_mat(c, weights(), x));
        const Plan plan = plan_of(*graph);
        EXPECT_EQ(plan.steps.size(), 2U);
        return !plan.steps.empty() && plan.steps.back().takes != Step::kNowhere;
    }
    ggml_tensor* normed(ggml_tensor* x, ggml_tensor* by) {
        return ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), by);
    }
};

TEST(PassedColumns, AttentionLeavesItsResultUnlessANormFollows) {
    Pair pair;
    EXPECT_TRUE(pair.is_passed(pair.attention()));
    EXPECT_FALSE(pair.is_passed(pair.normed(pair.attention(), pair.vector())));
}

TEST(PassedColumns, AGateLeavesItsResultUnlessANormFollows) {
    Pair pair;
    ggml_tensor* const x = pair.vector();
    ggml_tensor* const gated = ggml_swiglu_split(pair.c, ggml_mul_mat(pair.c, pair.weights(), x),
                                                 ggml_mul_mat(pair.c, pair.weights(), x));
    EXPECT_TRUE(pair.is_passed(gated));
    EXPECT_FALSE(pair.is_passed(pair.normed(gated, pair.vector())));
}

TEST(PassedColumns, WeightsOfANormAreNotWhatTheLaunchBeforeWrites) {
    Pair pair;
    ggml_tensor* const x = ggml_mul_mat(pair.c, pair.weights(), pair.vector());
    EXPECT_TRUE(pair.is_passed(pair.normed(x, pair.vector())));
    EXPECT_FALSE(pair.is_passed(pair.normed(x, x)));
}

}  // namespace
}  // namespace heddle::cuda
