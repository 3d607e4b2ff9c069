#include "core/graph.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/hash_set.hpp"
#include "core/test_support.hpp"
#include "ggml/op_list.h"

namespace heddle {
namespace {

std::vector<std::string> names(std::span<Tensor* const> tensors) {
    std::vector<std::string> list;
    for (const Tensor* tensor : tensors) list.emplace_back(name_of(*tensor));
    return list;
}

bool is_marked(const Tensor& tensor) { return (tensor.flags & GGML_TENSOR_FLAG_COMPUTE) != 0; }

using Names = std::vector<std::string>;

/// d = (a + b) + (b + c), with everything but the inputs unnamed.
class Diamond : public testing::Test {
protected:
    Graph& new_graph_of(std::size_t capacity, bool gradients = false) {
        return **new_graph(context_, capacity, gradients);
    }

    TestContext context_;
    Tensor* a_ = context_.f32({1}, "a");
    Tensor* b_ = context_.f32({1}, "b");
    Tensor* c_ = context_.f32({1}, "c");
    Tensor* left_ = context_.node({a_, b_});
    Tensor* right_ = context_.node({b_, c_});
    Tensor* top_ = context_.node({left_, right_});
};

TEST_F(Diamond, PutsSourcesBeforeUsersInOrderOfTheirSlots) {
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *top_, true));
    EXPECT_EQ(names(nodes_of(graph)), (Names{"node_0", "node_1", "node_2"}));
    EXPECT_EQ(names(leafs_of(graph)), (Names{"a", "b", "c"}));
    EXPECT_EQ(graph.nodes[0], left_);
    EXPECT_EQ(graph.nodes[1], right_);
    EXPECT_EQ(graph.nodes[2], top_);
}

TEST_F(Diamond, CanVisitSourcesFromTheRight) {
    Graph& graph = new_graph_of(8);
    graph.order = GGML_CGRAPH_EVAL_ORDER_RIGHT_TO_LEFT;
    ASSERT_TRUE(expand(graph, *top_, true));
    EXPECT_EQ(graph.nodes[0], right_);
    EXPECT_EQ(graph.nodes[1], left_);
    EXPECT_EQ(names(leafs_of(graph)), (Names{"c", "b", "a"}));
}

TEST_F(Diamond, NamesWhatHasNoNameByItsPlace) {
    a_->name[0] = '\0';
    set_name(*left_, "kept");
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *top_, true));
    EXPECT_EQ(names(leafs_of(graph)), (Names{"leaf_0", "b", "c"}));
    EXPECT_EQ(names(nodes_of(graph)), (Names{"kept", "node_1", "node_2"}));

    Graph& later = new_graph_of(8);  // names survive
    ASSERT_TRUE(expand(later, *right_, true));
    EXPECT_EQ(names(nodes_of(later)), (Names{"node_1"}));
}

TEST_F(Diamond, CountsEverySlotThatRefersToATensor) {
    top_->src[2] = left_;
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *top_, true));
    EXPECT_EQ(use_count(graph, *a_), 1);
    EXPECT_EQ(use_count(graph, *b_), 2);
    EXPECT_EQ(use_count(graph, *left_), 2);
    EXPECT_EQ(use_count(graph, *top_), 0);
    EXPECT_EQ(use_count(graph, *context_.f32({1})), 0);
    for (int i = 0; i < graph.n_nodes; ++i) {  // what plug-ins inline gives the same
        EXPECT_EQ(ggml_node_get_use_count(&graph, i), use_count(graph, *graph.nodes[i]));
    }
}

TEST_F(Diamond, ExpandingTwiceChangesNothing) {
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *top_, true));
    ASSERT_TRUE(expand(graph, *top_, true));
    ASSERT_TRUE(expand(graph, *left_, true));
    EXPECT_EQ(graph.n_nodes, 3);
    EXPECT_EQ(graph.n_leafs, 3);
    EXPECT_EQ(use_count(graph, *left_), 1);
}

TEST_F(Diamond, MarksOnlyWhatIsToBeComputed) {
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *top_, false));
    EXPECT_EQ(graph.n_nodes, 3);
    for (const Tensor* node : nodes_of(graph)) EXPECT_FALSE(is_marked(*node));
    ASSERT_TRUE(expand(graph, *right_, true));
    EXPECT_FALSE(is_marked(*left_));
    EXPECT_TRUE(is_marked(*right_));
    EXPECT_FALSE(is_marked(*top_));
    EXPECT_FALSE(is_marked(*a_));
}

TEST_F(Diamond, PassesTheMarkOnToNodesThatWereOnlyOrdered) {
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *top_, false));
    ASSERT_TRUE(expand(graph, *top_, true));
    for (const Tensor* node : nodes_of(graph)) EXPECT_TRUE(is_marked(*node)) << name_of(*node);
    EXPECT_EQ(use_count(graph, *left_), 1);
    EXPECT_EQ(graph.n_nodes, 3);
}

TEST_F(Diamond, SelectingKeepsEveryBranchAndMarksOne) {
    Graph& graph = new_graph_of(8);
    Tensor* branches[] = {left_, right_};
    EXPECT_EQ(ggml_build_forward_select(&graph, branches, 2, 1), right_);
    EXPECT_EQ(names(nodes_of(graph)), (Names{"node_0", "node_1"}));
    EXPECT_FALSE(is_marked(*left_));
    EXPECT_TRUE(is_marked(*right_));
}

TEST_F(Diamond, TrainedTensorsAreNodes) {
    b_->flags |= GGML_TENSOR_FLAG_PARAM;
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *left_, true));
    EXPECT_EQ(names(nodes_of(graph)), (Names{"b", "node_1"}));
    EXPECT_EQ(names(leafs_of(graph)), (Names{"a"}));
    EXPECT_FALSE(is_marked(*b_));
}

TEST_F(Diamond, WithoutRoomForNodesTheGraphIsLeftAsItWas) {
    Graph& graph = new_graph_of(2);
    ASSERT_TRUE(expand(graph, *left_, true));
    Tensor* chain = context_.node({top_, left_});
    const auto refused = expand(graph, *chain, true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::out_of_memory);
    EXPECT_EQ(names(nodes_of(graph)), (Names{"node_0"}));
    EXPECT_EQ(names(leafs_of(graph)), (Names{"a", "b"}));
    EXPECT_EQ(use_count(graph, *a_), 1);
    EXPECT_EQ(use_count(graph, *b_), 1);
    EXPECT_EQ(use_count(graph, *left_), 0);
    for (const Tensor* tensor : {c_, right_, top_, chain}) {
        EXPECT_EQ(find(graph.visited_hash_set, tensor), kNoSlot);
    }
    Tensor* small = context_.node({left_, b_});
    ASSERT_TRUE(expand(graph, *small, true));
    EXPECT_EQ(graph.n_nodes, 2);
    EXPECT_EQ(use_count(graph, *left_), 1);
}

TEST_F(Diamond, WithoutRoomForLeafsTheGraphIsLeftAsItWas) {
    Graph& graph = new_graph_of(2);
    Tensor* sum = context_.node({a_, b_, c_});
    const auto refused = expand(graph, *sum, true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "graph: no room for more than 2 leafs");
    EXPECT_EQ(graph.n_nodes, 0);
    EXPECT_EQ(graph.n_leafs, 0);
    for (const Tensor* tensor : {a_, b_, c_, sum}) {
        EXPECT_EQ(find(graph.visited_hash_set, tensor), kNoSlot);
    }
}

TEST_F(Diamond, AppendedNodesAreTakenAsTheyAre) {
    Graph& graph = new_graph_of(2);
    ASSERT_TRUE(append_node(graph, *left_));
    ASSERT_TRUE(append_node(graph, *left_));
    EXPECT_EQ(graph.n_nodes, 2);
    EXPECT_EQ(graph.n_leafs, 0);
    EXPECT_EQ(name_of(*left_), "");
    EXPECT_FALSE(is_marked(*left_));
    EXPECT_EQ(use_count(graph, *left_), 0);
    EXPECT_EQ(append_node(graph, *left_).error().message, "graph: no room for more than 2 nodes");
}

TEST_F(Diamond, ClearedGraphsCanBeFilledAgain) {
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *top_, true));
    clear(graph);
    EXPECT_EQ(graph.n_nodes, 0);
    EXPECT_EQ(graph.n_leafs, 0);
    EXPECT_EQ(use_count(graph, *b_), 0);
    EXPECT_TRUE(is_marked(*top_));
    ASSERT_TRUE(expand(graph, *left_, true));
    EXPECT_EQ(names(nodes_of(graph)), (Names{"node_0"}));
    EXPECT_EQ(use_count(graph, *b_), 1);
}

TEST_F(Diamond, CopiesShareTensorsAndKeepUseCounts) {
    Graph& graph = new_graph_of(8, true);
    ASSERT_TRUE(expand(graph, *top_, true));
    Tensor* gradient = context_.f32({1});
    Tensor* accumulator = context_.f32({1});
    const std::size_t slot = find(graph.visited_hash_set, left_);
    graph.grads[slot] = gradient;
    graph.grad_accs[slot] = accumulator;
    graph.uid = 7;

    Graph& copy = new_graph_of(100, true);
    ASSERT_TRUE(copy_graph(graph, copy));
    EXPECT_EQ(names(nodes_of(copy)), names(nodes_of(graph)));
    EXPECT_EQ(names(leafs_of(copy)), names(leafs_of(graph)));
    EXPECT_EQ(copy.size, 100);
    EXPECT_EQ(copy.uid, 0u);
    EXPECT_EQ(use_count(copy, *b_), 2);
    EXPECT_EQ(gradient_of(copy, *left_), gradient);
    EXPECT_EQ(accumulator_of(copy, *left_), accumulator);
    EXPECT_EQ(gradient_of(copy, *right_), nullptr);
}

TEST_F(Diamond, CopiesNeedRoomAndTablesForGradients) {
    Graph& graph = new_graph_of(8, true);
    ASSERT_TRUE(expand(graph, *top_, true));
    EXPECT_FALSE(copy_graph(graph, new_graph_of(8, false)));
    const auto refused = copy_graph(graph, new_graph_of(2, true));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "graph copy: 3 nodes and 3 leafs do not fit a graph of capacity 2");
}

TEST_F(Diamond, DuplicatesHaveGradientTablesWhereAskedFor) {
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *top_, true));
    const Graph* plain = *duplicate_graph(context_, graph, false);
    EXPECT_EQ(plain->grads, nullptr);
    EXPECT_EQ(plain->size, 8);
    EXPECT_EQ(names(nodes_of(*plain)), names(nodes_of(graph)));
    const Graph* with_tables = *duplicate_graph(context_, graph, true);
    ASSERT_NE(with_tables->grads, nullptr);
    EXPECT_EQ(gradient_of(*with_tables, *left_), nullptr);
    const Graph* again = *duplicate_graph(context_, *with_tables, false);
    EXPECT_NE(again->grads, nullptr);
}

TEST_F(Diamond, SlicesShareNodesAndUseCounts) {
    Graph& graph = new_graph_of(8);
    graph.uid = 3;
    ASSERT_TRUE(expand(graph, *top_, true));
    const Graph part = slice(graph, 1, 2);
    EXPECT_EQ(part.n_nodes, 1);
    EXPECT_EQ(part.nodes[0], right_);
    EXPECT_EQ(part.n_leafs, 0);
    EXPECT_EQ(part.size, 0);
    EXPECT_EQ(part.uid, 0u);
    EXPECT_EQ(use_count(part, *right_), 1);
    EXPECT_EQ(gradient_of(part, *right_), nullptr);
}

TEST_F(Diamond, FindsLeafsBeforeNodesByName) {
    set_name(*left_, "a");
    Graph& graph = new_graph_of(8);
    ASSERT_TRUE(expand(graph, *top_, true));
    EXPECT_EQ(find_tensor(graph, "a"), a_);
    EXPECT_EQ(find_tensor(graph, "node_2"), top_);
    EXPECT_EQ(find_tensor(graph, "none"), nullptr);
}

TEST(Graph, ANodeThatIsItsOwnSourceIsCountedOnce) {
    TestContext context;
    Tensor* x = context.f32({1});
    Tensor* cast = context.node({x}, GGML_OP_CPY);
    cast->src[1] = cast;
    for (const auto order :
         {GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT, GGML_CGRAPH_EVAL_ORDER_RIGHT_TO_LEFT}) {
        Graph& graph = **new_graph(context, 4, false);
        graph.order = order;
        ASSERT_TRUE(expand(graph, *cast, true));
        EXPECT_EQ(graph.n_nodes, 1);
        EXPECT_EQ(use_count(graph, *cast), 1);
        EXPECT_EQ(use_count(graph, *x), 1);
    }
}

TEST(Graph, AChainOfAMillionNodesNeedsNoDeepCallStack) {
    constexpr std::size_t length = 1'000'000;
    TestContext context((length + 1) * kTensorOverhead + graph_overhead(length, false));
    Tensor* end = context.f32({1}, "start");
    for (std::size_t i = 0; i < length; ++i) end = context.node({end}, GGML_OP_SQR);
    Graph& graph = **new_graph(context, length, false);
    ASSERT_TRUE(expand(graph, *end, false));
    EXPECT_EQ(graph.n_nodes, static_cast<int>(length));
    EXPECT_EQ(graph.nodes[length - 1], end);
    EXPECT_EQ(name_of(*end), "node_999999");
    ASSERT_TRUE(expand(graph, *end, true));  // the mark goes down the whole chain
    EXPECT_TRUE(is_marked(*graph.nodes[0]));
}

TEST(Graph, CapacityZeroAndTooLargeOnes) {
    TestContext context;
    Graph& none = **new_graph(context, 0, false);
    EXPECT_FALSE(expand(none, *context.f32({1}), true));
    EXPECT_FALSE(new_graph(context, SIZE_MAX, true));
    EXPECT_FALSE(new_graph(context, std::size_t{1} << 29, true));
}

TEST(Graph, NumbersAreNeverGivenTwice) {
    const std::uint64_t first = next_graph_uid();
    EXPECT_GT(first, 0u);
    EXPECT_GT(next_graph_uid(), first);
}

TEST(HashSet, HasAPrimeNumberOfSlots) {
    EXPECT_EQ(hash_capacity(0), 2u);
    EXPECT_EQ(hash_capacity(2), 2u);
    EXPECT_EQ(hash_capacity(4), 5u);
    EXPECT_EQ(hash_capacity(9), 11u);
    EXPECT_EQ(hash_capacity(4096), 4099u);
    EXPECT_EQ(hash_capacity(4099), 4099u);
}

TEST(HashSet, FindsKeysThatCollideAndWrapAround) {
    HashSet set = ggml_hash_set_new(4);
    ASSERT_EQ(set.size, 5u);
    std::vector<Tensor*> keys;
    for (std::uintptr_t i = 0; i < 5; ++i) {  // all at home in the last slot
        keys.push_back(reinterpret_cast<Tensor*>((4 + 5 * i) << 4));
        const std::size_t slot = probe(set, keys.back());
        EXPECT_EQ(slot, (4 + i) % 5);
        occupy(set, slot, keys.back());
    }
    for (const Tensor* key : keys) EXPECT_EQ(find(set, key), ggml_hash_find(&set, key));
    const auto* absent = reinterpret_cast<const Tensor*>(std::uintptr_t{100} << 4);
    EXPECT_EQ(probe(set, absent), kNoSlot);
    ggml_hash_set_reset(&set);
    EXPECT_EQ(find(set, keys[0]), kNoSlot);
    ggml_hash_set_free(&set);
}

}  // namespace
}  // namespace heddle
