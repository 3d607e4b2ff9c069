#include "ops/order_check.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/test_support.hpp"
#include "ggml-impl.h"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"

namespace heddle {
namespace {

/// Lists of additions that the test writes itself.
class OrderCheckTest : public testing::Test {
protected:
    ggml_context* ctx() { return &static_cast<Context&>(context); }

    Tensor* add(Tensor* a, Tensor* b, const char* name = "") {
        return ggml_set_name(ggml_add(ctx(), a, b), name);
    }

    static std::string objection_to(const std::vector<Tensor*>& nodes) {
        OrderCheck order(nodes.size());
        for (const Tensor* node : nodes) {
            if (!ggml_op_is_empty(node->op)) order.enter(*node);
        }
        const auto checked = order.finish(nodes);
        return checked ? "" : checked.error().message;
    }

    TestContext context{std::size_t{4} << 20};
    Tensor* x = context.f32({4}, "x");
};

TEST_F(OrderCheckTest, AListIsCheckedAtOnce) {
    Tensor* a = add(x, x, "a");
    Tensor* b = add(x, a, "b");
    for (Tensor* node : {a, b}) node->flags |= GGML_TENSOR_FLAG_COMPUTE;
    const auto objection = [](std::vector<Tensor*> nodes) {
        const auto checked = check_order(nodes);
        return checked ? "" : checked.error().message;
    };
    EXPECT_EQ(objection({}), "");
    EXPECT_EQ(objection({x, a, b}), "");
    EXPECT_EQ(objection({b, a}),
              "node 'b' f32[4,1,1,1], number 0, reads the result of 'a' f32[4,1,1,1], which is "
              "computed later, as number 1");
    EXPECT_EQ(objection({a, nullptr}), "node 1 of the graph is NULL");
    b->flags &= ~GGML_TENSOR_FLAG_COMPUTE;  // it is left out
    EXPECT_EQ(objection({b, a}), "");
    b->op = static_cast<Op>(GGML_OP_COUNT + 7);
    EXPECT_EQ(objection({b, a}), "");
}

TEST_F(OrderCheckTest, SourcesComeBeforeTheirUsers) {
    Tensor* a = add(x, x, "a");
    Tensor* b = add(x, a, "b");
    Tensor* c = add(x, x, "c");
    EXPECT_EQ(objection_to({a, c, b}), "");
    EXPECT_EQ(objection_to({c, b, a}),
              "node 'b' f32[4,1,1,1], number 1, reads the result of 'a' f32[4,1,1,1], which is "
              "computed later, as number 2");
}

TEST_F(OrderCheckTest, CyclesAreRefused) {
    Tensor* a = add(x, x, "a");
    Tensor* b = add(a, x, "b");
    a->src[0] = b;
    EXPECT_NE(objection_to({a, b}), "");
    EXPECT_NE(objection_to({b, a}), "");
    a->src[0] = a;
    EXPECT_EQ(objection_to({a}), "node 'a' f32[4,1,1,1] reads its own result");
}

TEST_F(OrderCheckTest, WhatAViewShowsIsRead) {
    Tensor* a = add(x, x, "a");
    Tensor* view = ggml_view_1d(ctx(), a, 4, 0);
    Tensor* b = add(view, x, "b");
    EXPECT_EQ(objection_to({a, view, b}), "");
    EXPECT_EQ(objection_to({view, a, b}), "") << "a view computes nothing";
    EXPECT_EQ(objection_to({view, b, a}),
              "node 'b' f32[4,1,1,1], number 1, reads the result of 'a' f32[4,1,1,1], which is "
              "computed later, as number 2");
}

TEST_F(OrderCheckTest, ResultsOfOtherGraphsAreThere) {
    Tensor* a = add(x, x);
    EXPECT_EQ(objection_to({add(a, x)}), "");
    EXPECT_EQ(objection_to({add(ggml_view_1d(ctx(), a, 4, 0), x)}), "");
}

TEST_F(OrderCheckTest, NodesMayBeListedSeveralTimes) {
    Tensor* a = add(x, x);
    Tensor* b = add(a, x);
    EXPECT_EQ(objection_to({a, a, b, a, b}), "");
}

TEST_F(OrderCheckTest, NodesInPlaceAndCastsAreNoCycles) {
    Tensor* a = add(x, x);
    Tensor* b = ggml_add_inplace(ctx(), a, x);
    Tensor* c = ggml_cast(ctx(), b, GGML_TYPE_F16);
    Tensor* d = ggml_cpy(ctx(), c, ggml_view_1d(ctx(), x, 4, 0));
    EXPECT_EQ(objection_to({a, b, c, d}), "");
    EXPECT_NE(objection_to({b, a, c, d}), "");
}

TEST_F(OrderCheckTest, LongListsAreCheckedToTheirEnds) {
    std::vector<Tensor*> nodes{add(x, x)};
    while (nodes.size() < 3000) nodes.push_back(add(nodes.back(), nodes[nodes.size() / 2]));
    EXPECT_EQ(objection_to(nodes), "");
    std::swap(nodes[0], nodes[2999]);
    EXPECT_NE(objection_to(nodes), "");
}

}  // namespace
}  // namespace heddle
