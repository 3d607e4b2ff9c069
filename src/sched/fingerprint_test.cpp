#include "sched/fingerprint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "backends/sim/test_support.hpp"
#include "ggml/ops.h"

namespace heddle::sched {
namespace {

/// A small graph with a bit of everything, built anew each time.
struct Small {
    sim::Bench bench;
    Tensor *weight, *input, *product, *view, *sum, *out;
    Graph* graph;

    Small() {
        ggml_context* const c = bench.context();
        weight =
            bench.place(ggml_new_tensor_2d(c, GGML_TYPE_F32, 4, 4), ggml_backend_cpu_buffer_type());
        ggml_backend_buffer_set_usage(weight->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        input = ggml_new_tensor_2d(c, GGML_TYPE_F32, 4, 4);
        ggml_set_input(input);
        product = ggml_mul_mat(c, weight, input);
        view = ggml_view_2d(c, product, 2, 4, product->nb[1], 8);
        sum = ggml_add(c, product, input);
        out = ggml_scale(c, ggml_mul_mat(c, ggml_cont(c, view), view), 0.5f);
        graph = ggml_new_graph_custom(c, 64, false);
        ggml_build_forward_expand(graph, sum);
        ggml_build_forward_expand(graph, out);
    }
};

class FingerprintTest : public testing::Test {
protected:
    void SetUp() override { take(first); }

    void take(Small& small, Fingerprint::OwnBuffers own = {}) {
        ASSERT_TRUE(index.read(*small.graph));
        print.take(index, own);
    }

    /// Whether a graph with this change still counts as the same.
    bool survives(const std::function<void(Small&)>& change) {
        Small other;
        change(other);
        return print.matches(*other.graph, {});
    }

    Small first;
    GraphIndex index;
    Fingerprint print;
};

TEST_F(FingerprintTest, TheSameGraphMatches) { EXPECT_TRUE(print.matches(*first.graph, {})); }

TEST_F(FingerprintTest, AGraphBuiltAnewMatches) {
    EXPECT_TRUE(survives([](Small&) {}));
}

TEST_F(FingerprintTest, NamesDoNotMatter) {
    EXPECT_TRUE(survives([](Small& small) { ggml_set_name(small.out, "another"); }));
}

TEST_F(FingerprintTest, NothingMatchesBeforeItIsTakenOrAfterItIsCleared) {
    EXPECT_FALSE(Fingerprint().matches(*first.graph, {}));
    print.clear();
    EXPECT_FALSE(print.matches(*first.graph, {}));
}

TEST_F(FingerprintTest, EveryPropertyOfATensorMatters) {
    EXPECT_FALSE(survives([](Small& s) { s.sum->type = GGML_TYPE_F16; }));
    EXPECT_FALSE(survives([](Small& s) { s.sum->op = GGML_OP_MUL; }));
    EXPECT_FALSE(survives([](Small& s) { s.sum->flags |= GGML_TENSOR_FLAG_OUTPUT; }));
    EXPECT_FALSE(survives([](Small& s) { s.input->flags = 0; }));
    EXPECT_FALSE(survives([](Small& s) { s.view->view_offs += 4; }));
    for (int i = 0; i < GGML_MAX_DIMS; ++i) {
        EXPECT_FALSE(survives([&](Small& s) { s.sum->ne[i] += 1; })) << "ne " << i;
        EXPECT_FALSE(survives([&](Small& s) { s.view->nb[i] += 4; })) << "nb " << i;
        EXPECT_FALSE(survives([&](Small& s) { s.input->ne[i] += 1; })) << "ne of a leaf " << i;
    }
    for (std::size_t i = 0; i < GGML_MAX_OP_PARAMS / sizeof(std::int32_t); ++i) {
        EXPECT_FALSE(survives([&](Small& s) { s.out->op_params[i] ^= 1 << 20; })) << "word " << i;
    }
}

TEST_F(FingerprintTest, ExchangedPropertiesMatter) {
    EXPECT_FALSE(survives([](Small& s) { std::swap(s.view->ne[0], s.view->ne[1]); }));
    EXPECT_FALSE(survives([](Small& s) {
        s.sum->op_params[0] = 1;
        s.sum->op_params[1] = 2;
    }));
}

TEST_F(FingerprintTest, TheWiringMatters) {
    EXPECT_FALSE(survives([](Small& s) { s.sum->src[1] = s.product; }));
    EXPECT_FALSE(survives([](Small& s) { std::swap(s.sum->src[0], s.sum->src[1]); }));
    EXPECT_FALSE(survives([](Small& s) { s.sum->src[2] = s.input; }));
    EXPECT_FALSE(survives([](Small& s) { s.sum->src[1] = nullptr; }));
    EXPECT_FALSE(survives([](Small& s) { s.view->view_src = s.sum; }));
    EXPECT_FALSE(survives([](Small& s) { s.sum->view_src = s.product; }));
}

TEST_F(FingerprintTest, TheOrderAndLengthOfTheListsMatter) {
    EXPECT_FALSE(survives([](Small& s) { std::swap(s.graph->nodes[0], s.graph->nodes[1]); }));
    EXPECT_FALSE(survives([](Small& s) { --s.graph->n_nodes; }));
    EXPECT_FALSE(survives([](Small& s) { std::swap(s.graph->leafs[0], s.graph->leafs[1]); }));
    EXPECT_FALSE(survives([](Small& s) { --s.graph->n_leafs; }));
}

TEST_F(FingerprintTest, TheKindOfMemoryMatters) {
    EXPECT_FALSE(survives([](Small& s) {
        ggml_backend_buffer_set_usage(s.weight->buffer, GGML_BACKEND_BUFFER_USAGE_ANY);
    }));
    EXPECT_FALSE(survives([](Small& s) { s.weight->data = nullptr; }));
    EXPECT_FALSE(survives([](Small& s) {
        s.weight->buffer = nullptr;
        s.weight->data = nullptr;
    }));
    EXPECT_FALSE(
        survives([](Small& s) { s.bench.place(s.input, ggml_backend_cpu_buffer_type()); }));
    EXPECT_FALSE(survives([](Small& s) {
        s.weight->buffer = nullptr;
        s.bench.place(s.weight, ggml_backend_dev_buffer_type(sim::device()));
    }));
}

TEST_F(FingerprintTest, MemoryThatTheSchedulerGaveCountsAsNone) {
    Small placed;
    placed.bench.place(placed.input, ggml_backend_cpu_buffer_type());
    const Buffer* const own[] = {placed.input->buffer};
    EXPECT_FALSE(print.matches(*placed.graph, {}));
    EXPECT_TRUE(print.matches(*placed.graph, own));
    take(placed, own);
    EXPECT_TRUE(print.matches(*first.graph, own));
}

TEST_F(FingerprintTest, ViewsHaveTheMemoryOfTheirRoot) {
    Small placed;
    placed.view->buffer = placed.weight->buffer;
    placed.view->data = placed.weight->data;
    EXPECT_TRUE(print.matches(*placed.graph, {}));
}

TEST_F(FingerprintTest, TensorsInNeitherListAreTheVerySameOnes) {
    Small inside;
    const auto graph_of = [](Small& build, Tensor* source) {
        Graph* const graph = ggml_new_graph_custom(build.bench.context(), 8, false);
        Tensor* const node = ggml_silu(build.bench.context(), source);
        ggml_graph_add_node(graph, node);
        return graph;
    };
    Graph* const graph = graph_of(inside, inside.weight);
    ASSERT_TRUE(index.read(*graph));
    print.take(index, {});
    EXPECT_TRUE(print.matches(*graph, {}));

    Small again;
    EXPECT_TRUE(print.matches(*graph_of(again, inside.weight), {}));
    EXPECT_FALSE(print.matches(*graph_of(again, again.weight), {}));
    ggml_backend_buffer_set_usage(inside.weight->buffer, GGML_BACKEND_BUFFER_USAGE_ANY);
    EXPECT_FALSE(print.matches(*graph, {}));
}

TEST_F(FingerprintTest, AGraphThatListsANodeTwiceIsNeverTheSame) {
    ggml_graph_add_node(first.graph, first.out);
    take(first);
    EXPECT_FALSE(print.matches(*first.graph, {}));
}

TEST_F(FingerprintTest, AGraphOfAViewOfAViewIsNeverTheSame) {
    Tensor* const inner = ggml_view_1d(first.bench.context(), first.product, 4, 0);
    Tensor* const outer = ggml_view_1d(first.bench.context(), first.product, 2, 0);
    outer->view_src = inner;
    ggml_build_forward_expand(first.graph, inner);
    ggml_build_forward_expand(first.graph, outer);
    take(first);
    EXPECT_FALSE(print.matches(*first.graph, {}));
}

TEST_F(FingerprintTest, AListWithAHoleDoesNotMatch) {
    EXPECT_FALSE(survives([](Small& s) { s.graph->nodes[2] = nullptr; }));
    EXPECT_FALSE(survives([](Small& s) { s.graph->leafs[0] = nullptr; }));
}

/// Tensors that the visitor was called for, by number.
std::vector<Tensor*> told_of(const Fingerprint& print, const Graph& graph) {
    std::vector<Tensor*> told;
    print.matches(graph, {}, [&](TensorId begin, std::span<Tensor* const> tensors) {
        EXPECT_EQ(static_cast<std::size_t>(begin), told.size());
        told.insert(told.end(), tensors.begin(), tensors.end());
    });
    return told;
}

TEST_F(FingerprintTest, ItTellsOfTensorsThatAreAlike) {
    const auto add_nodes = [](Small& small) {
        for (int i = 0; i < 50; ++i) {
            small.out = ggml_silu(small.bench.context(), small.out);
            ggml_build_forward_expand(small.graph, small.out);
        }
    };
    add_nodes(first);
    take(first);
    Small other;
    add_nodes(other);
    std::vector<Tensor*> all(nodes_of(*other.graph).begin(), nodes_of(*other.graph).end());
    all.insert(all.end(), leafs_of(*other.graph).begin(), leafs_of(*other.graph).end());
    EXPECT_EQ(told_of(print, *other.graph), all);

    other.out->op_params[0] ^= 1;  // of the last node
    const auto told = told_of(print, *other.graph);
    EXPECT_LT(told.size(), nodes_of(*other.graph).size());
    EXPECT_TRUE(std::ranges::equal(told, std::span(all).first(told.size())));
    nodes_of(*other.graph)[0]->flags ^= GGML_TENSOR_FLAG_OUTPUT;
    EXPECT_TRUE(told_of(print, *other.graph).empty());
}

TEST_F(FingerprintTest, ANodeThatIsItsOwnSourceIsTheSameAgain) {
    const auto add_cast = [](Small& small) {
        ggml_build_forward_expand(small.graph,
                                  ggml_cast(small.bench.context(), small.sum, GGML_TYPE_F16));
    };
    add_cast(first);
    take(first);
    EXPECT_TRUE(survives(add_cast));
    EXPECT_FALSE(survives([](Small&) {}));
}

TEST_F(FingerprintTest, AnEmptyGraphMatchesAnEmptyGraph) {
    Small empty;
    ggml_graph_clear(empty.graph);
    take(empty);
    EXPECT_TRUE(print.matches(*empty.graph, {}));
    EXPECT_FALSE(print.matches(*first.graph, {}));
}

}  // namespace
}  // namespace heddle::sched
