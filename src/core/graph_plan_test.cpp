#include "core/graph_plan.hpp"

#include <gtest/gtest.h>

#include "ggml.h"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "runtime/test_support.hpp"

namespace heddle {
namespace {

TEST(GraphPlanTest, OutlivesTheGraphItWasMadeOf) {
    auto context = test::make_test_context(false);
    Tensor* a = test::new_floats(context, 4, "a");
    Tensor* sum = ggml_add(context.get(), a, a);
    Tensor* view = ggml_view_1d(context.get(), sum, 2, 4);
    Graph* graph = *new_graph(*context, 8, false);
    ASSERT_TRUE(expand(*graph, *view, true));
    void* const data = sum->data;

    const auto plan = *GraphPlan::make(*graph);
    std::memset(static_cast<void*>(sum), 0, sizeof *sum);  // as if their memory were used again
    std::memset(static_cast<void*>(view), 0, sizeof *view);
    context.reset();

    const Graph& copy = plan->graph();
    ASSERT_EQ(copy.n_nodes, 2);
    ASSERT_EQ(copy.n_leafs, 1);
    EXPECT_EQ(copy.nodes[0]->op, GGML_OP_ADD);
    EXPECT_EQ(copy.nodes[0]->data, data);
    EXPECT_EQ(copy.nodes[0]->src[0], copy.leafs[0]);
    EXPECT_EQ(copy.nodes[0]->src[1], copy.leafs[0]);
    EXPECT_EQ(copy.nodes[1]->view_src, copy.nodes[0]);
    EXPECT_EQ(copy.nodes[1]->src[0], copy.nodes[0]);
    EXPECT_TRUE(copy.nodes[1]->flags & GGML_TENSOR_FLAG_COMPUTE);
    EXPECT_EQ(name_of(*copy.leafs[0]), "a");
}

TEST(GraphPlanTest, KnowsTheUseCountsAndHasAUidOfItsOwn) {
    const auto context = test::make_test_context(false);
    Tensor* a = test::new_floats(context, 4, "a");
    Tensor* b = ggml_add(context.get(), a, a);
    Tensor* c = ggml_add(context.get(), b, a);
    Graph* graph = *new_graph(*context, 8, false);
    ASSERT_TRUE(expand(*graph, *c, true));
    const auto plan = *GraphPlan::make(*graph);
    const Graph& copy = plan->graph();
    EXPECT_EQ(use_count(copy, *copy.leafs[0]), 3);
    EXPECT_EQ(use_count(copy, *copy.nodes[0]), 1);
    EXPECT_EQ(use_count(copy, *copy.nodes[1]), 0);
    EXPECT_NE(copy.uid, 0u);
    EXPECT_NE(copy.uid, (*GraphPlan::make(*graph))->graph().uid);
}

TEST(GraphPlanTest, TakesSlicesAndRepeatedNodes) {
    const auto context = test::make_test_context(false);
    Tensor* a = test::new_floats(context, 4, "a");
    Tensor* b = ggml_add(context.get(), a, a);
    Graph* graph = *new_graph(*context, 8, false);
    ASSERT_TRUE(expand(*graph, *b, true));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(append_node(*graph, *b));
    const auto plan = *GraphPlan::make(slice(*graph, 1, 4));
    const Graph& copy = plan->graph();
    EXPECT_EQ(copy.n_nodes, 3);
    EXPECT_EQ(copy.nodes[0], copy.nodes[2]);
    EXPECT_EQ(use_count(copy, *copy.nodes[0]->src[0]), 2) << "of the whole graph";
}

TEST(GraphPlanTest, CanBeFittedToAnotherGraph) {
    const auto context = test::make_test_context(false);
    Tensor* a = test::new_floats(context, 4, "a");
    Graph* small = *new_graph(*context, 8, false);
    Graph* large = *new_graph(*context, 8, false);
    Tensor* b = ggml_add(context.get(), a, a);
    ASSERT_TRUE(expand(*small, *b, true));
    ASSERT_TRUE(expand(*large, *ggml_add(context.get(), b, a), true));
    const auto plan = *GraphPlan::make(*small);
    const std::uint64_t uid = plan->graph().uid;
    ASSERT_TRUE(plan->update(*large));
    EXPECT_EQ(plan->graph().n_nodes, 2);
    EXPECT_EQ(plan->graph().nodes[1]->src[0], plan->graph().nodes[0]);
    EXPECT_NE(plan->graph().uid, uid);
    small->nodes[0] = nullptr;
    EXPECT_EQ(plan->update(*small).error().message, "graph: node 0 is NULL");
    EXPECT_EQ(plan->graph().n_nodes, 2) << "it is what it was";
}

TEST(GraphPlanTest, IsMadeOfVeryDeepGraphs) {
    constexpr int depth = 100'000;
    const OwnedContext context =
        *make_context(depth * (kTensorOverhead + 64) + (16 << 20), nullptr, true);
    Tensor* x = test::new_floats(context, 1, "x");
    for (int i = 0; i < depth; ++i) x = ggml_add(context.get(), x, x);
    Graph* graph = *new_graph(*context, depth, false);
    ASSERT_TRUE(expand(*graph, *x, true));
    const auto plan = *GraphPlan::make(*graph);
    EXPECT_EQ(plan->graph().n_nodes, depth);
}

TEST(ClosureTest, PutsEverythingAfterWhatItNeeds) {
    const auto context = test::make_test_context();
    Tensor* a = test::new_floats(context, 4, "a");
    Tensor* b = ggml_add(context.get(), a, a);
    Tensor* view = ggml_view_1d(context.get(), b, 2, 0);
    Graph* graph = *new_graph(*context, 8, false);
    ASSERT_TRUE(append_node(*graph, *view));
    const Closure closure = *closure_of(*graph);
    EXPECT_EQ(closure.tensors, (std::vector<Tensor*>{a, b, view}));
    EXPECT_EQ(closure.index_of.at(view), 2u);
}

}  // namespace
}  // namespace heddle
