#include "sched/check.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/test_support.hpp"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"

namespace heddle::sched {
namespace {

/// A graph over a list of nodes that the test writes itself.
class CheckGraphTest : public testing::Test {
protected:
    ggml_context* ctx() { return &static_cast<Context&>(context); }

    Tensor* add(Tensor* a, Tensor* b, const char* name) {
        return ggml_set_name(ggml_add(ctx(), a, b), name);
    }

    std::string objection_to(std::vector<Tensor*> nodes) {
        Graph graph{};
        graph.nodes = nodes.data();
        graph.n_nodes = static_cast<int>(nodes.size());
        if (auto read = index.read(graph); !read) return read.error().message;
        const auto checked = check_graph(index);
        return checked ? "" : checked.error().message;
    }

    TestContext context;
    Tensor* x = context.f32({4}, "x");
    GraphIndex index;
};

TEST_F(CheckGraphTest, SourcesComeBeforeTheirUsers) {
    Tensor* a = add(x, x, "a");
    Tensor* b = add(a, x, "b");
    EXPECT_EQ(objection_to({a, b}), "");
    EXPECT_EQ(objection_to({b, a}),
              "node 'b' f32[4,1,1,1], number 0, reads the result of 'a' f32[4,1,1,1], which is "
              "computed later, as number 1");
}

TEST_F(CheckGraphTest, CyclesAreRefused) {
    Tensor* a = add(x, x, "a");
    Tensor* b = add(a, x, "b");
    a->src[0] = b;
    EXPECT_NE(objection_to({a, b}), "");
    EXPECT_NE(objection_to({b, a}), "");
}

TEST_F(CheckGraphTest, CyclesThroughViewsAreRefused) {
    Tensor* a = add(x, x, "a");
    Tensor* view = ggml_view_1d(ctx(), a, 4, 0);
    a->src[0] = view;
    EXPECT_EQ(objection_to({view, a}), "node 'a' f32[4,1,1,1] reads its own result");
}

TEST_F(CheckGraphTest, GraphsMayBeginInTheMiddle) {
    Tensor* a = add(x, x, "a");
    EXPECT_EQ(objection_to({add(a, x, "b")}), "");
}

TEST_F(CheckGraphTest, NodesMayBeListedSeveralTimes) {
    Tensor* a = add(x, x, "a");
    EXPECT_EQ(objection_to({a, a, a}), "");
}

TEST_F(CheckGraphTest, NodesInPlaceAndCastsAreNoCycles) {
    Tensor* a = add(x, x, "a");
    Tensor* b = ggml_add_inplace(ctx(), a, x);
    Tensor* c = ggml_cast(ctx(), b, GGML_TYPE_F16);
    EXPECT_EQ(objection_to({a, b, c}), "");
}

TEST_F(CheckGraphTest, NodesThatWereWrittenToAreRefused) {
    Tensor* a = add(x, x, "a");
    a->ne[0] = std::int64_t{1} << 62;
    EXPECT_NE(objection_to({a}), "");
    a->op = static_cast<Op>(9999);
    EXPECT_NE(objection_to({a}).find("there is no op 9999"), std::string::npos);
    EXPECT_EQ(objection_to({x, nullptr}), "node 1 of the graph is NULL");
}

}  // namespace
}  // namespace heddle::sched
