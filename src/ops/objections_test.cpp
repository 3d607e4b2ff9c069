#include "ops/objections.hpp"

#include "ggml/op_list.h"
#include "ops/binary.hpp"
#include "ops/reduce.hpp"
#include "ops/test_support.hpp"
#include "ops/view_op.hpp"

namespace heddle {
namespace {

TEST(Objections, SayNothingWhereThereAreNone) { EXPECT_EQ(Objections().text(), ""); }

TEST(Objections, OfOneKernelAreItsReason) {
    Objections why;
    why.add("sum_rows", "x is not f32");
    EXPECT_EQ(why.text(), "x is not f32");
}

TEST(Objections, OfSeveralKernelsAreAllTold) {
    Objections why;
    why.add("add", "a is neither f32 nor f16");
    why.add("add_blocks", "b is not f32");
    EXPECT_EQ(why.text(), "add: a is neither f32 nor f16; add_blocks: b is not f32");
}

TEST(Objections, ThatAreTheSameAreToldOnce) {
    Objections why;
    why.add("add", "rows are not dense");
    why.add("add_blocks", "rows are not dense");
    EXPECT_EQ(why.text(), "rows are not dense");
}

TEST(Objections, TellTypesAndExtents) {
    TestContext context;
    Tensor& x = *context.tensor(GGML_TYPE_F16, {8, 4});
    Tensor& y = *context.tensor(GGML_TYPE_F32, {8, 1, 1, 1});
    Tensor node = x;
    node.op = GGML_OP_ADD;
    node.src[0] = &x, node.src[1] = &y;
    Objections why;
    why.add("add", "a is not f32");
    EXPECT_EQ(why.text_for(node), "a is not f32 (f16[8,4] = ADD(f16[8,4], f32[8]))");
}

TEST(Objections, TellOfNodesThatNoOpBuilds) {
    Tensor node{};
    node.op = static_cast<Op>(9999);
    node.type = static_cast<Type>(99);
    Objections why;
    why.add({}, "it is not such a node as its op builds");
    EXPECT_EQ(why.text_for(node),
              "it is not such a node as its op builds (unknown type[0,0,0,0] = unknown op())");
}

}  // namespace
}  // namespace heddle
