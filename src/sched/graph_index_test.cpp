#include "sched/graph_index.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "core/test_support.hpp"
#include "ggml/op_list.h"

namespace heddle::sched {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A graph over lists that the test writes itself.
class Lists {
public:
    std::vector<Tensor*> nodes, leafs;

    const Graph& graph() {
        graph_ = {};
        graph_.nodes = nodes.data();
        graph_.leafs = leafs.data();
        graph_.n_nodes = static_cast<int>(nodes.size());
        graph_.n_leafs = static_cast<int>(leafs.size());
        return graph_;
    }

private:
    Graph graph_{};
};

std::vector<TensorId> sources_of(const GraphIndex& index, TensorId id) {
    std::vector<TensorId> ids;
    for (const auto& source : index.sources(id)) ids.push_back(source.tensor);
    return ids;
}

class GraphIndexTest : public testing::Test {
protected:
    Tensor* view(Tensor* of, Op op = GGML_OP_VIEW) {
        Tensor* made = context.node({of}, op);
        made->view_src = of->view_src != nullptr ? of->view_src : of;
        return made;
    }

    TestContext context{std::size_t{8} << 20};
    Lists lists;
    GraphIndex index;
};

TEST_F(GraphIndexTest, NodesComeFirstThenLeafsThenTheRest) {
    Tensor* leaf = context.f32({1});
    Tensor* stray = context.f32({1});
    Tensor* a = context.node({leaf, stray});
    Tensor* b = context.node({a, leaf});
    lists.nodes = {a, b};
    lists.leafs = {leaf};
    ASSERT_TRUE(index.read(lists.graph()));
    EXPECT_THAT(index.nodes(), ElementsAre(0, 1));
    EXPECT_THAT(index.leafs(), ElementsAre(2));
    EXPECT_EQ(index.size(), 4u);
    EXPECT_THAT(sources_of(index, 0), ElementsAre(2, 3));
    EXPECT_THAT(sources_of(index, 1), ElementsAre(0, 2));
    EXPECT_THAT(sources_of(index, 2), ElementsAre());
    EXPECT_EQ(&index[3], stray);
    EXPECT_TRUE(index.is_node(1));
    EXPECT_FALSE(index.is_node(2));
    EXPECT_EQ(index.find(stray), 3);
    EXPECT_EQ(index.find(nullptr), kNoTensor);
}

TEST_F(GraphIndexTest, SourcesKeepTheirSlotsAcrossGaps) {
    Tensor* x = context.f32({1});
    Tensor* a = context.node({x, nullptr, nullptr, x});
    lists.nodes = {a};
    ASSERT_TRUE(index.read(lists.graph()));
    ASSERT_EQ(index.sources(0).size(), 2u);
    EXPECT_EQ(index.sources(0)[0].slot, 0);
    EXPECT_EQ(index.sources(0)[1].slot, 3);
    EXPECT_EQ(index.sources(0)[1].tensor, 1);
}

TEST_F(GraphIndexTest, ANodeListedTwiceHasOneNumber) {
    Tensor* x = context.f32({1});
    Tensor* a = context.node({x});
    Tensor* b = context.node({a});
    lists.nodes = {a, a, b};
    ASSERT_TRUE(index.read(lists.graph()));
    EXPECT_THAT(index.nodes(), ElementsAre(0, 0, 1));
    EXPECT_THAT(sources_of(index, 0), ElementsAre(2));
    EXPECT_THAT(sources_of(index, 1), ElementsAre(0));
}

TEST_F(GraphIndexTest, ViewsKnowWhoseMemoryTheyAreIn) {
    Tensor* cache = context.f32({8}, "cache");
    Tensor* x = context.f32({1});
    Tensor* part = view(cache);
    Tensor* store = context.node({x, part}, GGML_OP_CPY);
    store->view_src = cache;
    lists.nodes = {part, store};
    lists.leafs = {x};
    ASSERT_TRUE(index.read(lists.graph()));
    const TensorId root = index.find(cache);
    EXPECT_EQ(index.root(0), root);
    EXPECT_EQ(index.root(1), root);
    EXPECT_EQ(index.root(root), root);
    EXPECT_TRUE(index.is_view(0));
    EXPECT_FALSE(index.is_view(1));
    EXPECT_FALSE(index.writes_root(0));
    EXPECT_TRUE(index.writes_root(1));
    EXPECT_FALSE(index.writes_root(root));
}

TEST_F(GraphIndexTest, AViewOfAViewEndsAtTheRoot) {
    Tensor* x = context.f32({8});
    Tensor* inner = view(x);
    Tensor* outer = view(inner);
    outer->view_src = inner;  // no function of ours makes that
    lists.nodes = {outer};
    ASSERT_TRUE(index.read(lists.graph()));
    EXPECT_EQ(&index[index.root(0)], x);
}

TEST_F(GraphIndexTest, ARingOfViewsIsAnError) {
    Tensor* x = context.f32({8}, "ring");
    x->view_src = x;
    lists.nodes = {x};
    const auto read = index.read(lists.graph());
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message, HasSubstr("'ring' f32[8,1,1,1] is a view of a view"));
}

TEST_F(GraphIndexTest, AMissingNodeIsAnError) {
    lists.nodes = {context.node({}), nullptr};
    EXPECT_EQ(index.read(lists.graph()).error().message, "node 1 of the graph is NULL");
}

TEST_F(GraphIndexTest, AnEmptyGraphHasNothing) {
    ASSERT_TRUE(index.read(lists.graph()));
    EXPECT_EQ(index.size(), 0u);
    EXPECT_TRUE(index.nodes().empty());
    EXPECT_EQ(index.find(context.f32({1})), kNoTensor);
}

TEST_F(GraphIndexTest, ASecondGraphReplacesTheFirst) {
    Tensor* a = context.node({context.f32({1})});
    lists.nodes = {a};
    ASSERT_TRUE(index.read(lists.graph()));
    Tensor* b = context.node({});
    lists.nodes = {b};
    ASSERT_TRUE(index.read(lists.graph()));
    EXPECT_EQ(index.size(), 1u);
    EXPECT_EQ(index.find(a), kNoTensor);
    EXPECT_EQ(index.find(b), 0);
}

TEST_F(GraphIndexTest, TheSameGraphElsewhereIsBoundAgain) {
    Tensor* stray = context.f32({1});
    const auto build = [&] {
        Tensor* leaf = context.f32({1});
        Tensor* a = context.node({leaf, stray});
        Tensor* b = context.node({a});
        lists.nodes = {a, b, a};
        lists.leafs = {leaf};
        return std::array{a, b, leaf};
    };
    const auto first = build();
    ASSERT_TRUE(index.read(lists.graph()));
    const auto second = build();
    index.rebind(lists.graph());
    EXPECT_EQ(&index[0], second[0]);
    EXPECT_EQ(&index[1], second[1]);
    EXPECT_EQ(&index[2], second[2]);
    EXPECT_EQ(index.find(second[1]), 1);
    EXPECT_EQ(index.find(first[1]), kNoTensor);
    EXPECT_EQ(index.find(stray), 3);
    EXPECT_THAT(sources_of(index, 0), ElementsAre(2, 3));
}

TEST_F(GraphIndexTest, TheTableGrowsWithTensorsInNeitherList) {
    std::vector<Tensor*> strays;
    for (int i = 0; i < 400; ++i) {
        Tensor* node = context.node({});
        for (int slot = 0; slot < kMaxSources; ++slot) {
            strays.push_back(context.f32({1}));
            node->src[slot] = strays.back();
        }
        lists.nodes.push_back(node);
    }
    ASSERT_TRUE(index.read(lists.graph()));
    EXPECT_EQ(index.size(), 400u + strays.size());
    for (std::size_t i = 0; i < strays.size(); ++i) {
        ASSERT_EQ(index.find(strays[i]), static_cast<TensorId>(400 + i));
    }
}

TEST_F(GraphIndexTest, ItKeepsWhatTensorsSaidOfTheirMemory) {
    Tensor* leaf = context.f32({1});
    Tensor* stray = context.f32({1});
    Tensor* bare = context.f32({1});
    float memory = 0;
    bare->data = &memory;
    Tensor* a = context.node({leaf, stray, bare});
    lists.nodes = {a};
    lists.leafs = {leaf, bare};
    ASSERT_TRUE(index.read(lists.graph()));
    bare->data = nullptr;
    EXPECT_TRUE(index.had_memory(index.find(bare)));
    EXPECT_TRUE(index.had_data(index.find(bare)));
    EXPECT_FALSE(index.had_memory(index.find(leaf)));
    EXPECT_TRUE(index.is_listed(index.find(bare)));
    EXPECT_FALSE(index.is_listed(index.find(stray)));
    EXPECT_EQ(index.layout_number(index.find(leaf)), index.layout_number(index.find(stray)));
    EXPECT_NE(index.layout_number(index.find(leaf)), index.layout_number(index.find(a)));
}

TEST_F(GraphIndexTest, ViewsOfViewsAreKnown) {
    Tensor* root = context.f32({1});
    Tensor *inner = view(root), *outer = view(root);
    outer->view_src = inner;
    lists.nodes = {inner, outer};
    lists.leafs = {root};
    ASSERT_TRUE(index.read(lists.graph()));
    EXPECT_FALSE(index.is_deep_view(0));
    EXPECT_TRUE(index.is_deep_view(1));
    EXPECT_EQ(index.root(1), index.find(root));
}

TEST_F(GraphIndexTest, AGraphThatListsANodeTwiceCanBeRebound) {
    Tensor* leaf = context.f32({1});
    Tensor *a = context.node({leaf}), *b = context.node({a});
    lists.nodes = {a, b, a};
    lists.leafs = {leaf};
    ASSERT_TRUE(index.read(lists.graph()));
    Tensor *other = context.node({leaf}), *next = context.node({other});
    lists.nodes = {other, next, other};
    index.rebind(lists.graph());
    EXPECT_EQ(&index[0], other);
    EXPECT_EQ(&index[1], next);
    EXPECT_EQ(&index[2], leaf);
    EXPECT_EQ(index.find(next), 1);
}

}  // namespace
}  // namespace heddle::sched
