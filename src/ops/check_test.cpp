#include "ops/check.hpp"

#include <limits>

#include "core/sound_layout.hpp"
#include "ops/acc_set.hpp"
#include "ops/add_id.hpp"
#include "ops/binary.hpp"
#include "ops/build.hpp"
#include "ops/catalogue.hpp"
#include "ops/convolution.hpp"
#include "ops/copy.hpp"
#include "ops/copy_builders.hpp"
#include "ops/dsv4.hpp"
#include "ops/flash_attn.hpp"
#include "ops/generate.hpp"
#include "ops/im2col.hpp"
#include "ops/math.hpp"
#include "ops/matmul.hpp"
#include "ops/norm.hpp"
#include "ops/optimizer.hpp"
#include "ops/pad.hpp"
#include "ops/reduce.hpp"
#include "ops/repeat.hpp"
#include "ops/rope.hpp"
#include "ops/soft_max.hpp"
#include "ops/test_support.hpp"
#include "ops/unary.hpp"
#include "ops/view_builders.hpp"
#include "ops/window.hpp"

namespace heddle {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

class CheckTest : public NodeTest {
protected:
    template <Descriptor D>
    Tensor* node(const Args<D>& args, std::initializer_list<Tensor*> sources) {
        auto made = build<D>(context, args, sources);
        EXPECT_TRUE(made) << made.error().message;
        return made ? *made : nullptr;
    }

    /// What is said against the node; nothing if it can be computed.
    static std::string objection_to(const Tensor* node) {
        const auto checked = check_node(*node);
        return checked ? "" : checked.error().message;
    }

    template <Descriptor D>
    std::string refusal(const Args<D>& args, std::initializer_list<Tensor*> sources) {
        const auto made = build<D>(context, args, sources);
        return made ? "" : made.error().message;
    }

    Tensor* x = tensor("x", {8, 4, 1, 1});
    Tensor* y = tensor("y", {8, 4, 1, 1});
};

// ---- fields that were written to ---------------------------------------------------------------

TEST_F(CheckTest, ANodeAsItWasBuiltIsAccepted) {
    EXPECT_EQ(objection_to(node<ops::Add>({}, {x, y})), "");
    EXPECT_EQ(objection_to(*build_in_place<ops::Add>(context, {}, {x, y})), "");
    EXPECT_EQ(objection_to(*cast(context, x, GGML_TYPE_F16)), "") << "a cast names itself";
}

TEST_F(CheckTest, AnOpThatDoesNotExistIsNamedByItsNumber) {
    Tensor* sum = node<ops::Add>({}, {x, y});
    sum->op = static_cast<Op>(9999);
    EXPECT_EQ(objection_to(sum), "there is no op 9999");
    sum->op = static_cast<Op>(-1);
    EXPECT_EQ(objection_to(sum), "there is no op -1");
}

TEST_F(CheckTest, AFunctionThatDoesNotExistLeavesTheOpItsName) {
    Tensor* made = node<ops::Unary>(ops::Unary::of(GGML_UNARY_OP_ABS), {x});
    made->op_params[0] = 99;
    EXPECT_EQ(objection_to(made),
              text("unary: function 99 is not below ", static_cast<int>(GGML_UNARY_OP_COUNT)));
    EXPECT_EQ(describe_op_of(*made), "UNARY");
}

TEST_F(CheckTest, AMissingOperandIsNamed) {
    Tensor* sum = node<ops::Add>({}, {x, y});
    sum->src[1] = nullptr;
    EXPECT_EQ(objection_to(sum), "add: operand b is missing");
}

TEST_F(CheckTest, ANodeThatReadsItselfIsRefused) {
    Tensor* sum = node<ops::Add>({}, {x, y});
    set_name(*sum, "sum");
    sum->src[1] = sum;
    EXPECT_EQ(objection_to(sum), "add: operand b 'sum' f32[8,4,1,1] is the node itself");
    Tensor* filled = node<ops::Fill>({.value = 1}, {x});
    filled->src[0] = filled;
    EXPECT_EQ(objection_to(filled), "") << "nothing is read";
}

TEST_F(CheckTest, TypeExtentsAndStridesMustBeAsInferred) {
    Tensor* sum = node<ops::Add>({}, {x, y});
    set_name(*sum, "sum");
    const Tensor built = *sum;
    sum->ne[1] = 5;
    EXPECT_EQ(objection_to(sum), "add: the node 'sum' f32[8,5,1,1] should be f32[8,4,1,1]");
    *sum = built;
    sum->nb[1] = 64;
    EXPECT_EQ(
        objection_to(sum),
        "add: the node 'sum' f32[8,4,1,1] has strides of 4, 64, 128 and 128 bytes, not 4, 32, "
        "128 and 128");
    *sum = built;
    sum->nb[3] = 7;
    EXPECT_EQ(objection_to(sum), "") << "there is one element along dimension 3";
    *sum = built;
    sum->type = GGML_TYPE_I32;
    EXPECT_NE(objection_to(sum), "");
    sum->type = static_cast<Type>(77);
    EXPECT_NE(objection_to(sum), "");
}

TEST_F(CheckTest, OperandsMustBeSuchAsCanBeWalked) {
    Tensor* sum = node<ops::Add>({}, {x, y});
    const Tensor built = *y;
    y->ne[2] = -1;
    EXPECT_EQ(objection_to(sum), "add: operand b 'y' f32[8,4,-1,1]: extent -1 in dimension 2");
    *y = built;
    y->ne[0] = y->ne[1] = std::int64_t{1} << 40;
    EXPECT_NE(objection_to(sum), "");
    *y = built;
    y->nb[1] = std::size_t{1} << 62;
    EXPECT_EQ(objection_to(sum),
              "add: operand b 'y' f32[8,4,1,1]: strides of 4, 4611686018427387904, 128 and 128 "
              "bytes lead further than memory can");
    *y = built;
    y->type = GGML_TYPE_Q4_0;
    EXPECT_NE(objection_to(sum), "") << "rows of 8 are no blocks";
}

TEST_F(CheckTest, ElementsMustLieAtMultiplesOfTheirSize) {
    Tensor* sum = node<ops::Add>({}, {x, y});
    const Tensor built = *y;
    y->nb[1] = 30;
    EXPECT_EQ(objection_to(sum),
              "add: operand b 'y' f32[8,4,1,1] at offset 0 with strides of 4, 30, 128 and 128 "
              "bytes has elements that are not at a multiple of 4 bytes");
    *y = built;
    y->nb[2] = 30;
    EXPECT_EQ(objection_to(sum), "") << "there is one element along dimension 2";
    *y = built;
    Tensor* part = *view_nd(context, x, {8, 2}, {32}, 64);
    sum = node<ops::Sqr>({}, {part});
    EXPECT_EQ(objection_to(sum), "");
    part->view_offs = 62;
    EXPECT_NE(objection_to(sum).find("at offset 62"), std::string::npos);
}

TEST_F(CheckTest, ViewsEndBeforeTheirRoots) {
    Tensor* part = *view_nd(context, x, {8, 2}, {32}, 64);
    set_name(*part, "part");
    Tensor* sum = node<ops::Sqr>({}, {part});
    EXPECT_EQ(objection_to(sum), "");
    part->nb[1] = 1 << 20;
    EXPECT_EQ(objection_to(sum),
              "sqr: operand x 'part' f32[8,2,1,1] is a view of 1048608 bytes at offset 64 and "
              "reaches past the 128 bytes of 'x' f32[8,4,1,1]");
    part->nb[1] = 32;
    part->view_offs = 68;
    EXPECT_NE(objection_to(sum), "");
}

TEST_F(CheckTest, BlocksLieAlongDimension0) {
    Tensor* w = tensor("w", {256, 64, 1, 1}, GGML_TYPE_Q4_0);
    EXPECT_EQ(refusal<ops::Transpose>({}, {w}),
              "transpose: dimension 0 of 'w' q4_0[256,64,1,1] is in blocks of 32 and cannot become "
              "dimension 1");
    EXPECT_EQ(refusal<ops::Permute>({.axis = {0, 2, 1, 3}}, {w}), "");

    Tensor* turned = tensor("turned", {64, 256, 1, 1}, GGML_TYPE_Q4_0);
    turned->nb[0] = 144, turned->nb[1] = 18;
    Tensor* copy = node<ops::Cont>({}, {turned});
    EXPECT_EQ(objection_to(copy),
              "cont: operand x 'turned' q4_0[64,256,1,1]: dimension 0 is not in whole blocks: they "
              "lie 144 bytes apart, and q4_0 has blocks of 18 bytes");
}

TEST_F(CheckTest, ASingleBlockIsAsLongAsItsTypeSays) {
    Tensor* made = *cast(context, tensor("x", {256, 4, 1, 1}), GGML_TYPE_TQ2_0);
    set_name(*made, "made");
    EXPECT_EQ(objection_to(made), "");
    made->type = GGML_TYPE_Q4_K;  // 144 bytes, where strides are still those of 66
    EXPECT_EQ(
        objection_to(made),
        "cpy: the node 'made' q4_K[256,4,1,1]: dimension 0 is not in whole blocks: they lie 66 "
        "bytes apart, and q4_K has blocks of 144 bytes");
}

// ---- nodes of a graph
// ----------------------------------------------------------------------------

/// Makes the second of two equal nodes differ, and asks both checks for it after the first.
class GraphCheckTest : public CheckTest {
protected:
    Tensor* part(Tensor* x) { return *view_nd(context, x, {8, 2}, {32}, 64); }

    void expect_same(const Tensor* first, const Tensor* second) {
        GraphCheck graph;
        ASSERT_TRUE(graph.check(*first));
        const auto checked = graph.check(*second);
        EXPECT_EQ(checked ? "" : checked.error().message, objection_to(second));
    }
};

TEST_F(GraphCheckTest, ANodeLikeAnAcceptedOneIsAccepted) {
    GraphCheck graph;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(graph.check(*node<ops::Add>({}, {x, y})));
}

TEST_F(GraphCheckTest, WhateverByteOfANodeDiffersItIsCheckedForItself) {
    const Tensor* first = node<ops::SoftMax>({}, {part(x), nullptr, nullptr});
    Tensor* second = node<ops::SoftMax>({}, {part(x), nullptr, nullptr});
    const Tensor built = *second;
    for (std::size_t at = 0; at < offsetof(Tensor, src); ++at) {
        for (const unsigned char bit : {1, 2, 128}) {
            reinterpret_cast<unsigned char*>(second)[at] ^= bit;
            expect_same(first, second);
            *second = built;
        }
    }
}

TEST_F(GraphCheckTest, WhateverByteOfAnOperandOrItsRootDiffersTheNodeIsCheckedForItself) {
    Tensor* whole = tensor("whole", {8, 4, 1, 1});
    Tensor* operand = part(whole);
    const Tensor* first = node<ops::Sqr>({}, {part(x)});
    const Tensor* second = node<ops::Sqr>({}, {operand});
    for (Tensor* changed : {operand, whole}) {
        const Tensor built = *changed;
        for (std::size_t at = 0; at < offsetof(Tensor, src); ++at) {
            for (const unsigned char bit : {1, 2, 128}) {
                reinterpret_cast<unsigned char*>(changed)[at] ^= bit;
                expect_same(first, second);
                *changed = built;
            }
        }
    }
    operand->view_offs = 68;
    expect_same(first, second);
}

TEST_F(GraphCheckTest, OperandsThatAreMissingOrTheNodeItselfAreSeen) {
    const Tensor* first = node<ops::Add>({}, {x, y});
    Tensor* second = node<ops::Add>({}, {x, y});
    second->src[1] = nullptr;
    expect_same(first, second);
    second->src[1] = second;
    expect_same(first, second);
    EXPECT_NE(objection_to(second), "");
    // The first reads the second, which reads itself: the same operand, and not the same case.
    Tensor* third = node<ops::Add>({}, {x, second});
    second->src[1] = y;
    GraphCheck graph;
    ASSERT_TRUE(graph.check(*third));
    second->src[1] = second;
    EXPECT_FALSE(graph.check(*second));
}

TEST_F(GraphCheckTest, WeightsThatAreNoParametersAreSeen) {
    const auto weights = [&](const char* name) {
        Tensor* made = tensor(name, {8, 4, 1, 1});
        made->flags |= GGML_TENSOR_FLAG_PARAM;
        return made;
    };
    Tensor *w = weights("w"), *v = weights("v"), *settings = tensor("settings", {2, 1, 1, 1});
    const Tensor* first = node<ops::OptStepSgd>({}, {w, x, settings});
    const Tensor* second = node<ops::OptStepSgd>({}, {v, x, settings});
    expect_same(first, second);
    v->flags = 0;
    expect_same(first, second);
    EXPECT_NE(objection_to(second), "");
}

// ---- operands without elements -----------------------------------------------------------------

TEST_F(CheckTest, NothingIsReadFromOperandsWithoutElements) {
    Tensor* steps = tensor("steps", {5, 0, 1, 1});
    EXPECT_EQ(objection_to(node<ops::TimestepEmbedding>({.dim = 4}, {steps})),
              "timestep_embedding: operand timesteps 'steps' f32[5,0,1,1] is empty, the result '' "
              "f32[4,5,1,1] is not");
    Tensor* a = tensor("a", {32, 2, 4, 1});
    Tensor* b = tensor("b", {32, 3, 0, 1});
    Tensor* ids = tensor("ids", {2, 4, 1, 1}, GGML_TYPE_I32);
    EXPECT_NE(objection_to(node<ops::AddId>({}, {a, b, ids})), "");
    Tensor* kernel = tensor("kernel", {3, 0, 4, 1});
    Tensor* image = tensor("image", {8, 8, 4, 4});
    EXPECT_NE(objection_to(node<ops::Conv2d>({{1, 1}, {1, 1}, {1, 1}}, {kernel, image})), "");
}

TEST_F(CheckTest, RowsWithoutElementsAreNotTooManyToWalkAlong) {
    Tensor* few = tensor("few", {0, 6, 4, 2});
    Tensor* many = tensor("many", {0, 6, std::int64_t{1} << 46, 2});
    EXPECT_EQ(objection_to(node<ops::RepeatBack>({{}, {8, 6, 4, 2}}, {few})), "");
    EXPECT_EQ(objection_to(node<ops::RepeatBack>({{}, {8, 6, 4, 2}}, {many})),
              "repeat_back: operand x 'many' f32[0,6,70368744177664,2] has no elements, in more "
              "than 268435456 rows");
}

TEST_F(CheckTest, SumsPadsAndTheLikeTakeOperandsWithoutElements) {
    Tensor* none = tensor("none", {0, 3, 1, 1});
    EXPECT_EQ(objection_to(node<ops::Sum>({}, {none})), "");
    EXPECT_EQ(objection_to(node<ops::SumRows>({}, {none})), "");
    EXPECT_EQ(objection_to(node<ops::Pad>(
                  {.amount = {{{0, 2}, {0, 0}, {0, 0}, {0, 0}}}, .circular = 0}, {none})),
              "");
    EXPECT_EQ(objection_to(node<ops::Sqr>({}, {none})), "") << "nothing becomes nothing";
}

// ---- parameters --------------------------------------------------------------------------------

TEST_F(CheckTest, ParametersThatDivideAreLookedAtFirst) {
    Tensor* image = tensor("image", {8, 8, 4, 1});
    Tensor* kernel = tensor("kernel", {3, 3, 4, 2});
    Tensor* made = node<ops::Conv2d>({{1, 1}, {1, 1}, {1, 1}}, {kernel, image});
    for (const std::int32_t stride : {0, -1}) {
        made->op_params[0] = stride;
        EXPECT_EQ(objection_to(made), text("conv_2d: stride ", stride, " along axis 0"));
    }
    Tensor* windows = tensor("windows", {4, 3, 3, 9});
    Tensor* whole = node<ops::WinUnpart>({{3}, 7, 7}, {windows});
    whole->op_params[0] = 0;
    EXPECT_EQ(objection_to(whole), "win_unpart: window width 0 is below 1");
}

TEST_F(CheckTest, ParametersHaveAnUpperEnd) {
    Tensor* image = tensor("image", {9, 5, 8, 64});
    EXPECT_EQ(refusal<ops::GroupNorm>({.n_groups = kMost}, {image}),
              "group_norm: n_groups 2147483647 is above the number of channels of x 'image' "
              "f32[9,5,8,64]");
    Tensor* mixes = tensor("mixes", {24, 2, 1, 1});
    Tensor* scale = tensor("scale", {3, 1, 1, 1});
    Tensor* base = tensor("base", {24, 1, 1, 1});
    EXPECT_EQ(refusal<ops::Dsv4HcComb>({.eps = 0, .iterations = 1 << 30}, {mixes, scale, base}),
              "dsv4_hc_comb: iteration count 1073741824 is above 1024");
    Tensor* heads = tensor("heads", {8, 2, 3, 1});
    Tensor* positions = tensor("positions", {3, 1, 1, 1}, GGML_TYPE_I32);
    EXPECT_EQ(refusal<ops::Rope>({.n_dims = 7}, {heads, positions}),
              "rope: n_dims 7 is not a number of pairs");
}

TEST_F(CheckTest, AMaskMustCoverKeysAndQueries) {
    Tensor* q = tensor("q", {16, 4, 2, 1});
    Tensor* k = tensor("k", {16, 32, 2, 1}, GGML_TYPE_F16);
    Tensor* v = tensor("v", {16, 32, 2, 1}, GGML_TYPE_F16);
    EXPECT_EQ(
        refusal<ops::FlashAttnExt>({}, {q, k, v, tensor("mask", {32, 4, 1, 1}, GGML_TYPE_F16)}),
        "");
    EXPECT_EQ(
        refusal<ops::FlashAttnExt>({}, {q, k, v, tensor("mask", {31, 4, 1, 1}, GGML_TYPE_F16)}),
        "flash_attn_ext: mask 'mask' f16[31,4,1,1] does not cover the 32 keys and 4 queries "
        "of k 'k' f16[16,32,2,1] and q 'q' f32[16,4,2,1]");
}

TEST_F(CheckTest, RegionsLieInsideWhatTheyAreWrittenTo) {
    Tensor* b = tensor("b", {4, 2, 1, 1});
    EXPECT_EQ(refusal<ops::Set>(ops::Set::at({32, 128, 128, 64}, false), {x, b}), "");
    EXPECT_EQ(refusal<ops::Set>(ops::Set::at({32, 128, 128, 96}, false), {x, b}),
              "set: the region of b 'b' f32[4,2,1,1] at offset 96 with strides of 32, 128 and 128 "
              "bytes is not inside a 'x' f32[8,4,1,1]");
    EXPECT_NE(refusal<ops::Acc>(ops::Acc::at({std::size_t{1} << 31, 0, 0, 0}, false), {x, b}), "");
}

}  // namespace
}  // namespace heddle
