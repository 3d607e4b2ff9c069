#include "ops/print_graph.hpp"

#include <gtest/gtest.h>

#include "core/hash_set.hpp"
#include "core/test_support.hpp"
#include "ops/build.hpp"
#include "ops/copy.hpp"

namespace heddle {
namespace {

TEST(PrintGraph, ListsNodesAndLeafs) {
    TestContext context;
    Tensor* x = context.f32({6, 4}, "x");
    Tensor* weight = context.f32({4, 6}, "w");
    weight->flags |= GGML_TENSOR_FLAG_PARAM;
    Tensor* y = *build<ops::Cpy>(context, {}, {x, weight});
    Graph& graph = **new_graph(context, 8, true);
    ASSERT_TRUE(expand(graph, *y, true));
    graph.grads[find(graph.visited_hash_set, y)] = x;
    EXPECT_EQ(graph_text(graph),
              "=== GRAPH ===\n"
              "n_nodes = 2\n"
              " -   0: [     4,     6,     1]             NONE x\n"
              " -   1: [     4,     6,     1]              CPY g\n"
              "n_leafs = 1\n"
              " -   0: [     6,     4]     NONE                x\n"
              "========================================\n");
}

TEST(DrawGraph, ShowsNodesLeafsAndEdges) {
    TestContext context;
    Tensor* x = context.f32({6, 4}, "x|y");
    Tensor* y = *build<ops::Dup>(context, {}, {x});
    Graph& graph = **new_graph(context, 8, false);
    ASSERT_TRUE(expand(graph, *y, true));
    const auto id = [](const Tensor* tensor) {
        return text('"', static_cast<const void*>(tensor), '"');
    };
    EXPECT_EQ(graph_dot(graph, nullptr),
              "digraph G {\n  newrank = true;\n  rankdir = TB;\n  " + id(y) +
                  " [ style = filled; fillcolor = white; shape = record; "
                  "label=\"node_0 (f32)|0 [6, 4] | <x>x\"; ]\n  " +
                  id(x) +
                  " [ style = filled; fillcolor = pink; shape = record; "
                  "label=\"<x>x\\|y (f32)|CONST 0 [6, 4]\"; ]\n  " +
                  id(x) + ":x -> " + id(y) +
                  ":x [ label = \"src 0\"; style = solid; arrowhead = vee; ]\n}\n");
}

TEST(DrawGraph, GradientsArePartsOfTheirNodes) {
    TestContext context;
    Tensor* x = context.f32({6, 4}, "x");
    Tensor* y = *build<ops::Dup>(context, {}, {x});
    Tensor* gradient = *build<ops::Cont>(context, {}, {x});
    Graph& forward = **new_graph(context, 8, false);
    ASSERT_TRUE(expand(forward, *y, true));
    Graph& graph = **new_graph(context, 8, true);
    ASSERT_TRUE(expand(graph, *y, true));
    ASSERT_TRUE(expand(graph, *gradient, true));
    graph.grads[find(graph.visited_hash_set, y)] = gradient;
    const std::string drawing = graph_dot(graph, &forward);
    EXPECT_NE(drawing.find("fillcolor = green"), std::string::npos);
    EXPECT_NE(drawing.find("<x>x | <g>cont(x)"), std::string::npos);
    EXPECT_NE(drawing.find("style = dashed; arrowhead = empty"), std::string::npos);
    EXPECT_EQ(drawing.find(text(static_cast<const void*>(gradient))), std::string::npos);
    Graph& other = **new_graph(context, 8, false);
    EXPECT_NE(graph_dot(graph, &other).find("fillcolor = lightblue"), std::string::npos);
}

}  // namespace
}  // namespace heddle
