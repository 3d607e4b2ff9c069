#include "train/backward.hpp"

#include <gtest/gtest.h>

#include "core/test_support.hpp"
#include "ggml/op_list.h"
#include "ops/binary.hpp"
#include "ops/build.hpp"
#include "ops/check.hpp"
#include "ops/clamp.hpp"
#include "ops/loss.hpp"
#include "ops/math.hpp"
#include "ops/reduce.hpp"
#include "ops/soft_max.hpp"
#include "ops/unary.hpp"
#include "ops/view_builders.hpp"
#include "train/reset.hpp"

namespace heddle {
namespace {

class BackwardTest : public testing::Test {
protected:
    TestContext context;
    Graph* graph = *new_graph(context, 64, true);

    Tensor* parameter(std::initializer_list<std::int64_t> extents, std::string_view name = "x",
                      Type type = GGML_TYPE_F32) {
        Tensor* x = context.tensor(type, extents, name);
        x->flags |= GGML_TENSOR_FLAG_PARAM;
        return x;
    }

    template <Descriptor D>
    Tensor* node(const Args<D>& args, std::initializer_list<Tensor*> src,
                 std::string_view name = "y") {
        Tensor* made = *build<D>(context, args, src);
        set_name(*made, name);
        return made;
    }

    /// The sum of y as a loss, expanded into the graph.
    Tensor* expand_sum(Tensor* y) {
        Tensor* loss = node<ops::Sum>({}, {y}, "loss");
        loss->flags |= GGML_TENSOR_FLAG_LOSS;
        EXPECT_TRUE(expand(*graph, *loss, true));
        return loss;
    }

    std::string refusal(std::span<Tensor* const> accumulators = {}) {
        const int nodes = graph->n_nodes, leafs = graph->n_leafs;
        const auto result = build_backward(context, *graph, accumulators);
        if (result) return "";
        EXPECT_EQ(graph->n_nodes, nodes);
        EXPECT_EQ(graph->n_leafs, leafs);
        for (const Tensor* x : nodes_of(*graph)) EXPECT_EQ(gradient_of(*graph, *x), nullptr);
        return result.error().message;
    }
};

TEST_F(BackwardTest, NamesGradientsAndPutsThemAfterTheForwardNodes) {
    Tensor* x = parameter({3});
    Tensor* y = node<ops::Sqr>({}, {x});
    Tensor* loss = expand_sum(y);
    const int forward = graph->n_nodes;
    ASSERT_EQ(refusal(), "");
    EXPECT_GT(graph->n_nodes, forward);
    EXPECT_EQ(name_of(*gradient_of(*graph, *x)), "grad for x");
    EXPECT_EQ(name_of(*gradient_of(*graph, *y)), "grad for y");
    EXPECT_EQ(gradient_of(*graph, *loss), accumulator_of(*graph, *loss));
    for (const Tensor* made : nodes_of(*graph).subspan(std::size_t(forward))) {
        EXPECT_NE(made->flags & GGML_TENSOR_FLAG_COMPUTE, 0) << describe(*made);
        EXPECT_TRUE(check_node(*made)) << describe(*made);
    }
}

TEST_F(BackwardTest, GivesNothingToWhatNoParameterReaches) {
    Tensor* x = parameter({3});
    Tensor* constant = context.f32({3}, "constant");
    Tensor* square = node<ops::Sqr>({}, {constant}, "square");
    expand_sum(node<ops::Mul>({}, {x, square}));
    ASSERT_EQ(refusal(), "");
    EXPECT_EQ(gradient_of(*graph, *square), nullptr);
    EXPECT_EQ(gradient_of(*graph, *constant), nullptr);
}

TEST_F(BackwardTest, OpsWithoutARuleMayStandWhereNoGradientComes) {
    Tensor* x = parameter({3});
    Tensor* aside = node<ops::Unary>(ops::Unary::of(GGML_UNARY_OP_TANH), {x}, "aside");
    ASSERT_TRUE(expand(*graph, *aside, true));
    expand_sum(x);
    EXPECT_EQ(refusal(), "");
    EXPECT_NE(gradient_of(*graph, *x), nullptr);
}

TEST_F(BackwardTest, ASecondBuildReplacesTheFirst) {
    Tensor* x = parameter({3});
    expand_sum(node<ops::Sqr>({}, {x}));
    ASSERT_EQ(refusal(), "");
    const Tensor* first = gradient_of(*graph, *x);
    ASSERT_TRUE(build_backward(context, *graph, {}));
    EXPECT_NE(gradient_of(*graph, *x), first);
}

TEST_F(BackwardTest, RefusesGraphsThatHaveNoGradient) {
    EXPECT_EQ(refusal(), "backward graph: the graph has no nodes");
    Tensor* y = node<ops::Sqr>({}, {context.f32({3})});
    ASSERT_TRUE(expand(*graph, *y, true));
    EXPECT_EQ(refusal(), "backward graph: none of the 1 nodes is a parameter");
    ASSERT_TRUE(expand(*graph, *parameter({3}), true));
    EXPECT_EQ(refusal(), "backward graph: none of the 2 nodes is a loss");
    graph = *new_graph(context, 8, false);
    ASSERT_TRUE(expand(*graph, *y, true));
    EXPECT_EQ(build_backward(context, *graph, {}).error().message,
              "backward graph: the graph was made without tables for gradients");
}

TEST_F(BackwardTest, RefusesOpsThatWriteOverTheirOperand) {
    Tensor* x = parameter({3});
    Tensor* y = *build_in_place<ops::Sqr>(context, {}, {x});
    set_name(*y, "y");
    expand_sum(y);
    EXPECT_EQ(refusal(),
              "no gradient through node 'y' f32[3,1,1,1]: its op SQR writes over 'x' f32[3,1,1,1]");
}

TEST_F(BackwardTest, RefusesOpsThatAlwaysWriteOverTheirOperand) {
    expand_sum(node<ops::Clamp>({0, 1}, {parameter({3})}));
    EXPECT_EQ(
        refusal(),
        "no gradient through node 'y' f32[3,1,1,1]: its op CLAMP writes over 'x' f32[3,1,1,1]");
}

TEST_F(BackwardTest, NamesTheOpWithoutARule) {
    expand_sum(node<ops::CumSum>({}, {parameter({3})}));
    EXPECT_EQ(refusal(), "no gradient rule for op CUMSUM at node 'y' f32[3,1,1,1]");
}

TEST_F(BackwardTest, NamesTheOperandWithoutARule) {
    Tensor* mask = parameter({3, 2}, "mask");
    Tensor* x = parameter({3, 2});
    // It has a gradient already, from another node: that must not hide the missing rule.
    Tensor* y = node<ops::Add>({}, {node<ops::SoftMax>({}, {x, mask}, "p"), mask});
    expand_sum(y);
    EXPECT_EQ(refusal(),
              "no gradient rule for operand 1 'mask' f32[3,2,1,1] of op SOFT_MAX at node 'p' "
              "f32[3,2,1,1]");
}

TEST_F(BackwardTest, RefusesTypesThatAreNoPlainFloats) {
    Tensor* x = parameter({32}, "x", GGML_TYPE_Q8_0);
    Tensor* y = context.node({x}, GGML_OP_SQR);
    set_name(*y, "y");
    y->flags |= GGML_TENSOR_FLAG_LOSS;
    ASSERT_TRUE(expand(*graph, *y, true));
    EXPECT_EQ(refusal(),
              "no gradient of 'x' q8_0[32,1,1,1], which is neither f32 nor f16, at node 'y' "
              "f32[1,1,1,1]");
}

TEST_F(BackwardTest, RefusesViewsItCannotPlace) {
    Tensor* x = parameter({6});
    Tensor* windows = *view_nd(context, x, {2, 3}, {sizeof(float)}, 0);
    set_name(*windows, "windows");
    expand_sum(windows);
    EXPECT_EQ(refusal(),
              "no gradient rule for the view 'windows' f32[2,3,1,1], whose elements overlap");
    clear(*graph);
    Tensor* turned = node<ops::Transpose>({}, {parameter({4, 3})}, "turned");
    expand_sum(*view_nd(context, turned, {2}, {}, 0));
    EXPECT_EQ(refusal(),
              "no gradient rule for a view of 'turned' f32[3,4,1,1], which is not contiguous");
}

TEST_F(BackwardTest, RefusesAccumulatorsThatDoNotFit) {
    expand_sum(parameter({3}));
    std::array<Tensor*, 2> accumulators{context.f32({4}, "sum"), nullptr};
    EXPECT_EQ(refusal(accumulators),
              "backward graph: the accumulator 'sum' f32[4,1,1,1] is not a dense f32 tensor with "
              "the extents of 'x' f32[3,1,1,1]");
    EXPECT_EQ(refusal(std::span(accumulators).first(1)),
              "backward graph: 1 accumulators for 2 nodes");
}

TEST_F(BackwardTest, RefusesGraphsWithoutRoom) {
    graph = *new_graph(context, 3, true);
    expand_sum(node<ops::Sqr>({}, {parameter({3})}));
    EXPECT_EQ(refusal(), "gradient of 'loss' f32[1,1,1,1]: graph: no room for more than 3 nodes");
}

TEST_F(BackwardTest, ResetNeedsMemoryAndASingleNumber) {
    Tensor* x = parameter({3});
    Tensor* loss = expand_sum(x);
    ASSERT_EQ(refusal(), "");
    EXPECT_EQ(reset_gradients(*graph).error().message,
              "graph reset: the gradient 'grad for loss' f32[1,1,1,1] has no memory");
    loss->flags &= ~GGML_TENSOR_FLAG_LOSS;
    x->flags |= GGML_TENSOR_FLAG_LOSS;
    ASSERT_TRUE(build_backward(context, *graph, {}));
    EXPECT_EQ(reset_gradients(*graph).error().message,
              "graph reset: the gradient 'grad for x' f32[3,1,1,1] of the loss 'x' f32[3,1,1,1] is "
              "not a single f32");
}

}  // namespace
}  // namespace heddle
