#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_reduce.h"
#include "ops/acc_set.hpp"
#include "ops/add1.hpp"
#include "ops/add_id.hpp"
#include "ops/binary.hpp"
#include "ops/build.hpp"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "ops/clamp.hpp"
#include "ops/custom.hpp"
#include "ops/generate.hpp"
#include "ops/glu.hpp"
#include "ops/leaky_relu.hpp"
#include "ops/math.hpp"
#include "ops/matmul.hpp"
#include "ops/norm.hpp"
#include "ops/reduce.hpp"
#include "ops/scale.hpp"
#include "ops/sort.hpp"
#include "ops/triangle.hpp"
#include "ops/unary.hpp"
#include "ops/upscale.hpp"

// What the builders of ops on elements, rows and matrices make, and what they refuse. (No kernels.)
namespace heddle {
namespace {

class Elementwise : public testing::Test {
protected:
    Tensor* tensor(std::string_view name, Extents extent, Type type = GGML_TYPE_F32) {
        Tensor* made = *new_tensor(*context_, type, extent);
        set_name(*made, name);
        return made;
    }

    /// With the first two dimensions exchanged, as strides alone say it.
    Tensor* transposed(std::string_view name, Extents extent) {
        Tensor* made = tensor(name, extent);
        std::swap(made->ne[0], made->ne[1]);
        std::swap(made->nb[0], made->nb[1]);
        return made;
    }

    template <Descriptor D>
    Result<Tensor*> build(const Args<D>& args, std::initializer_list<Tensor*> src) {
        return heddle::build<D>(*context_, args, src);
    }
    template <Descriptor D>
    Result<Tensor*> build_in_place(const Args<D>& args, std::initializer_list<Tensor*> src) {
        return heddle::build_in_place<D>(*context_, args, src);
    }

    template <Descriptor D>
    std::string refusal(const Args<D>& args, std::initializer_list<Tensor*> src) {
        const std::size_t used = used_bytes(*context_);
        auto made = heddle::build<D>(*context_, args, src);
        EXPECT_EQ(used_bytes(*context_), used) << "a refusal must leave the context as it was";
        return made ? "not refused" : made.error().message;
    }

    static float param_f32(const Tensor& node, int word) {
        float value;
        std::memcpy(&value, node.op_params + word, sizeof value);
        return value;
    }

    OwnedContext context_ = *make_context(1 << 20, nullptr, true);
};

/// Type and extents in one text, such as "f32[4,3,2,1]".
std::string look(const Tensor& t) { return text(name_of(t.type), describe(extents_of(t))); }

// ---- two operands ------------------------------------------------------------------------------

TEST_F(Elementwise, BinaryOpsTileTheSecondOperandToTheFirst) {
    Tensor* a = tensor("a", {10, 6, 4, 3}, GGML_TYPE_F16);
    Tensor* b = tensor("b", {5, 1, 2, 3});
    auto y = build<ops::Sub>({}, {a, b});
    ASSERT_TRUE(y);
    EXPECT_EQ((*y)->op, GGML_OP_SUB);
    EXPECT_EQ(look(**y), "f16[10,6,4,3]");
    EXPECT_EQ((*y)->src[0], a);
    EXPECT_EQ((*y)->src[1], b);
    EXPECT_EQ(name_of(**y), "");
    EXPECT_EQ((*y)->view_src, nullptr);
    EXPECT_EQ(refusal<ops::Mul>({}, {b, a}),
              "mul: b 'a' f16[10,6,4,3] cannot be repeated to fill a 'b' f32[5,1,2,3]");
    EXPECT_EQ(refusal<ops::Div>({}, {a, nullptr}), "div: operand b is missing");
}

TEST_F(Elementwise, EmptyOperandsTileOnlyEmptyOnes) {
    Tensor* none = tensor("none", {0, 3, 1, 1});
    EXPECT_TRUE(build<ops::Add>({}, {none, none}));
    EXPECT_EQ(refusal<ops::Add>({}, {tensor("a", {4, 3, 1, 1}), none}),
              "add: b 'none' f32[0,3,1,1] cannot be repeated to fill a 'a' f32[4,3,1,1]");
}

TEST_F(Elementwise, InPlaceResultsAreNamedViewsWithTheStridesOfTheOperand) {
    Tensor* a = transposed("a", {4, 3, 1, 1});
    auto y = build_in_place<ops::Add>({}, {a, a});
    ASSERT_TRUE(y);
    EXPECT_EQ((*y)->view_src, a);
    EXPECT_TRUE(same_layout(**y, *a));
    EXPECT_EQ(name_of(**y), "a (view)");
    EXPECT_EQ((*y)->op, GGML_OP_ADD);
}

TEST_F(Elementwise, AddMayChooseTheTypeOfItsResult) {
    Tensor* a = tensor("a", {64, 2, 1, 1}, GGML_TYPE_Q4_0);
    Tensor* b = tensor("b", {64, 1, 1, 1});
    auto y = build<ops::Add>({.type = GGML_TYPE_F32}, {a, b});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "f32[64,2,1,1]");
    EXPECT_TRUE(check_node(**y));
    EXPECT_EQ(
        refusal<ops::Add>({.type = GGML_TYPE_F16}, {b, b}),
        "add: a 'b' f32[64,1,1,1] is not quantized, f16 or bf16, so the result cannot be f16");
    EXPECT_EQ(refusal<ops::Add>({.type = GGML_TYPE_F32}, {a, tensor("c", {32, 1, 1, 1})}),
              "add: rows of b 'c' f32[32,1,1,1] cannot be repeated to fill a 'a' q4_0[64,2,1,1]");
}

TEST_F(Elementwise, AddIdMatchesItsThreeOperands) {
    Tensor* a = tensor("a", {32, 2, 5, 1});
    Tensor* b = tensor("b", {32, 8, 1, 1});
    Tensor* ids = tensor("ids", {2, 5, 1, 1}, GGML_TYPE_I32);
    auto y = build<ops::AddId>({}, {a, b, ids});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "f32[32,2,5,1]");
    // 320 sums; a, the result and ten rows of b of 128 bytes, and ten ids.
    const Cost cost = cost_of(**y);
    EXPECT_EQ(cost.flops, 320);
    EXPECT_EQ(cost.bytes, 1280 + 1280 + 10 * 128 + 40);
    EXPECT_EQ(
        refusal<ops::AddId>({}, {a, b, tensor("ids", {2, 4, 1, 1}, GGML_TYPE_I32)}),
        "add_id: a 'a' f32[32,2,5,1] in dimension 2 and ids 'ids' i32[2,4,1,1] in dimension 1 "
        "differ");
    EXPECT_EQ(refusal<ops::AddId>({}, {a, b, tensor("ids", {2, 5, 1, 1})}),
              "add_id: ids 'ids' f32[2,5,1,1] is not i32");
}

TEST_F(Elementwise, Add1TakesASingleValue) {
    Tensor* a = tensor("a", {4, 3, 1, 1});
    EXPECT_TRUE(build<ops::Add1>({}, {a, tensor("one", {1, 1, 1, 1})}));
    EXPECT_EQ(refusal<ops::Add1>({}, {a, a}), "add1: b 'a' f32[4,3,1,1] is not a single value");
}

TEST_F(Elementwise, AccAndSetKeepTheirRegionInFiveWords) {
    Tensor* a = tensor("a", {8, 8, 1, 1});
    Tensor* b = tensor("b", {4, 2, 1, 1});
    // Strides beyond 32 bits belong to dimensions of extent 1 and are cut, not refused.
    const ops::Region region{.nb1 = 32, .nb2 = 256, .nb3 = (1ull << 40) + 7, .offset = 16};
    auto y = build<ops::Acc>(ops::Acc::at(region, false), {a, b});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "f32[8,8,1,1]");
    EXPECT_EQ(describe_params(**y), "nb1=32 nb2=256 nb3=7 offset=16 in_place=0");
    EXPECT_EQ(cost_of(**y).flops, 8);
    EXPECT_EQ(cost_of(**y).bytes, 256 + 256 + 2 * 32);

    auto z = build_in_place<ops::Set>(ops::Set::at({32, 256, 256, 16}, true), {a, b});
    ASSERT_TRUE(z);
    EXPECT_EQ((*z)->op_params[4], 1);
    EXPECT_EQ((*z)->view_src, a);
    EXPECT_TRUE(check_node(**z));
}

TEST_F(Elementwise, AccAndSetRefuseWhatCannotFit) {
    Tensor* a = tensor("a", {8, 8, 1, 1});
    Tensor* b = tensor("b", {8, 9, 1, 1});
    EXPECT_EQ(refusal<ops::Acc>({}, {a, b}),
              "acc: b 'b' f32[8,9,1,1] has more elements than a 'a' f32[8,8,1,1]");
    EXPECT_EQ(refusal<ops::Acc>({}, {transposed("t", {8, 9, 1, 1}), a}),
              "acc: a 't' f32[9,8,1,1] is not contiguous");
    // The limit holds for the offset as given, not for the 32 bits that are kept of it.
    EXPECT_EQ(refusal<ops::Set>(ops::Set::at({.offset = 1ull << 32}, false), {b, a}),
              "set: offset 4294967296 is not below 1073741824");
}

// ---- one operand -------------------------------------------------------------------------------

TEST_F(Elementwise, FunctionsGiveDenseResultsOfAnyOperand) {
    Tensor* x = transposed("x", {4, 3, 2, 1});
    auto y = build<ops::Sqrt>({}, {x});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "f32[3,4,2,1]");
    EXPECT_TRUE(is_contiguous(**y));
    EXPECT_EQ(cost_of(**y).flops, 24 * kTranscendental);
    EXPECT_EQ(cost_of(**build<ops::Sqr>({}, {x})).flops, 24);
}

TEST_F(Elementwise, MemoryIsSharedSilentlyByTheAgreedOpsOnly) {
    EXPECT_TRUE(kOpInfo<ops::Sqr>.may_reuse_source);
    EXPECT_TRUE(kOpInfo<ops::RmsNorm>.may_reuse_source);
    EXPECT_TRUE(kOpInfo<ops::Fill>.may_reuse_source);
    EXPECT_FALSE(kOpInfo<ops::Sin>.may_reuse_source);
    EXPECT_FALSE(kOpInfo<ops::Norm>.may_reuse_source);
    EXPECT_FALSE(kOpInfo<ops::Glu>.may_reuse_source);
    EXPECT_FALSE(kOpInfo<ops::LeakyRelu>.may_reuse_source);
}

TEST_F(Elementwise, ScaleTakesRowsWithAPitchBetweenThem) {
    Tensor* x = tensor("x", {4, 3, 2, 1});
    auto y = build<ops::Scale>({.scale = 2, .bias = 1}, {x});
    ASSERT_TRUE(y);
    EXPECT_EQ(describe_params(**y), "scale=2 bias=1");
    x->nb[1] = 32, x->nb[2] = 96, x->nb[3] = 192;
    EXPECT_TRUE(build<ops::Scale>({}, {x}));
    x->nb[2] = 128;
    EXPECT_EQ(refusal<ops::Scale>({}, {x}),
              "scale: x 'x' f32[4,3,2,1] is not dense but for a pitch between rows");
}

TEST_F(Elementwise, ClampIsAlwaysInPlace) {
    Tensor* x = tensor("x", {4, 3, 1, 1});
    auto y = build<ops::Clamp>({.min = -1, .max = 2}, {x});
    ASSERT_TRUE(y);
    EXPECT_EQ((*y)->view_src, x);
    EXPECT_EQ(name_of(**y), "x (view)");
    EXPECT_EQ(describe_params(**y), "min=-1 max=2");
}

TEST_F(Elementwise, UnaryKeepsItsFunctionAndZeroesTheRest) {
    Tensor* x = tensor("x", {4, 3, 1, 1});
    auto y = build<ops::Unary>(ops::Unary::of(GGML_UNARY_OP_SILU), {x});
    ASSERT_TRUE(y);
    EXPECT_EQ((*y)->op_params[0], GGML_UNARY_OP_SILU);
    for (int word = 1; word < 16; ++word) EXPECT_EQ((*y)->op_params[word], 0) << word;
    EXPECT_EQ(describe_op_of(**y), "SILU");
    EXPECT_EQ(refusal<ops::Unary>({.function = 22}, {x}), "unary: function 22 is not below 22");
    EXPECT_EQ(refusal<ops::Unary>({.function = -1}, {x}), "unary: function -1 is not below 22");
}

TEST_F(Elementwise, EveryFunctionHasItsName) {
    EXPECT_EQ(name_of(GGML_UNARY_OP_ABS), "ABS");
    EXPECT_EQ(name_of(GGML_UNARY_OP_GELU_ERF), "GELU_ERF");
    EXPECT_EQ(name_of(GGML_UNARY_OP_TRUNC), "TRUNC");
    EXPECT_EQ(name_of(GGML_UNARY_OP_COUNT), "");
    EXPECT_EQ(name_of(GGML_GLU_OP_GEGLU_QUICK), "GEGLU_QUICK");
    EXPECT_EQ(name_of(GGML_GLU_OP_COUNT), "");
}

TEST_F(Elementwise, UnaryAsksForDenseRowsExceptForXielu) {
    Tensor* x = transposed("x", {4, 3, 1, 1});
    EXPECT_EQ(refusal<ops::Unary>(ops::Unary::of(GGML_UNARY_OP_ABS), {x}),
              "unary: rows of x 'x' f32[3,4,1,1] are not dense");
    auto y = build<ops::Unary>(ops::Unary::xielu(4, 20.5f, 0.5f, 1e-7f), {x});
    ASSERT_TRUE(y);
    EXPECT_EQ((*y)->op_params[0], GGML_UNARY_OP_XIELU);
    EXPECT_FLOAT_EQ(param_f32(**y, 1), 0.5f + std::log1p(std::exp(4.0f)));
    EXPECT_EQ(param_f32(**y, 2), 20.5f);  // above 20 the logarithm is left out
    EXPECT_EQ(param_f32(**y, 3), 0.5f);
    EXPECT_EQ(param_f32(**y, 4), 1e-7f);
}

TEST_F(Elementwise, GluHalvesRowsOrTakesTwoOperands) {
    Tensor* a = tensor("a", {5, 7, 1, 1}, GGML_TYPE_F16);
    auto halves = build<ops::Glu>({.function = GGML_GLU_OP_GEGLU, .swapped = 1}, {a, nullptr});
    ASSERT_TRUE(halves);
    EXPECT_EQ(look(**halves), "f16[2,7,1,1]");
    EXPECT_EQ(describe_op_of(**halves), "GEGLU");
    EXPECT_EQ((*halves)->op_params[1], 1);
    EXPECT_EQ(cost_of(**halves).flops, 14 * (kTranscendental + 1));

    Tensor* b = tensor("b", {5, 7, 1, 1}, GGML_TYPE_F16);
    auto split =
        build<ops::Glu>({.function = GGML_GLU_OP_SWIGLU_OAI, .alpha = 1.5f, .limit = 7}, {a, b});
    ASSERT_TRUE(split);
    EXPECT_EQ(look(**split), "f16[5,7,1,1]");
    EXPECT_EQ(describe_params(**split), "function=3 swapped=0 alpha=1.5 limit=7");

    EXPECT_EQ(refusal<ops::Glu>({}, {a, tensor("c", {5, 7, 1, 1})}),
              "glu: b 'c' f32[5,7,1,1] is not f16");
    EXPECT_EQ(refusal<ops::Glu>({.function = 6}, {a, b}), "glu: function 6 is not below 6");
    EXPECT_EQ(refusal<ops::Glu>({}, {transposed("t", {5, 7, 1, 1}), nullptr}),
              "glu: rows of a 't' f32[7,5,1,1] are not dense and evenly spaced");
}

// ---- along rows --------------------------------------------------------------------------------

TEST_F(Elementwise, ReductionsHaveOneValuePerRowOrOneInAll) {
    Tensor* x = tensor("x", {10, 5, 4, 3}, GGML_TYPE_F16);
    EXPECT_EQ(look(**build<ops::Sum>({}, {x})), "f16[1,1,1,1]");
    EXPECT_EQ(look(**build<ops::SumRows>({}, {x})), "f16[1,5,4,3]");
    EXPECT_EQ(look(**build<ops::Mean>({}, {x})), "f32[1,5,4,3]");
    EXPECT_EQ(cost_of(**build<ops::Sum>({}, {x})).flops, 600);
    EXPECT_EQ(refusal<ops::CumSum>({}, {x}), "cumsum: x 'x' f16[10,5,4,3] is not f32");
    EXPECT_EQ(refusal<ops::Argmax>({}, {x}), "argmax: x 'x' f16[10,5,4,3] is not a matrix");

    Tensor* matrix = tensor("m", {10, 5, 1, 1});
    EXPECT_EQ(look(**build<ops::Argmax>({}, {matrix})), "i32[5,1,1,1]");
    EXPECT_EQ(look(**build<ops::CumSum>({}, {matrix})), "f32[10,5,1,1]");
    EXPECT_EQ(look(**build<ops::CountEqual>({}, {matrix, matrix})), "i64[1,1,1,1]");
    EXPECT_EQ(refusal<ops::CountEqual>({}, {matrix, x}),
              "count_equal: b 'x' f16[10,5,4,3] does not have the extents of a 'm' f32[10,5,1,1]");
    EXPECT_EQ(refusal<ops::Argmax>({}, {tensor("long", {1ll << 31, 1, 1, 1})}),
              "argmax: rows of x 'long' f32[2147483648,1,1,1] have more than 2147483647 elements");
}

TEST_F(Elementwise, NormsKeepTheirEpsilon) {
    Tensor* x = tensor("x", {8, 4, 6, 1});
    auto y = build<ops::RmsNorm>({.eps = 0.5f}, {x});
    ASSERT_TRUE(y);
    EXPECT_EQ(param_f32(**y, 0), 0.5f);
    EXPECT_EQ(cost_of(**y).flops, 4 * 192);
    auto z = build_in_place<ops::GroupNorm>({.n_groups = 3, .eps = 0.25f}, {x});
    ASSERT_TRUE(z);
    EXPECT_EQ(describe_params(**z), "n_groups=3 eps=0.25");
    EXPECT_EQ((*z)->view_src, x);
    EXPECT_EQ(refusal<ops::GroupNorm>({.n_groups = 0}, {x}), "group_norm: n_groups 0 is below 1");
}

TEST_F(Elementwise, SortingGivesIndices) {
    Tensor* x = tensor("x", {16, 5, 1, 1});
    auto sorted = build<ops::Argsort>({.order = GGML_SORT_ORDER_DESC}, {x});
    ASSERT_TRUE(sorted);
    EXPECT_EQ(look(**sorted), "i32[16,5,1,1]");
    EXPECT_EQ((*sorted)->op_params[0], 1);
    EXPECT_EQ(cost_of(**sorted).flops, 80 * 4);

    auto top = build<ops::TopK>({.k = 3}, {x});
    ASSERT_TRUE(top);
    EXPECT_EQ(look(**top), "i32[3,5,1,1]");
    EXPECT_TRUE(check_node(**top));
    EXPECT_EQ(refusal<ops::TopK>({.k = 17}, {x}),
              "top_k: k 17 is not in 0 .. 16, the length of rows of x 'x' f32[16,5,1,1]");
    EXPECT_EQ(refusal<ops::TopK>({.k = -1}, {x}),
              "top_k: k -1 is not in 0 .. 16, the length of rows of x 'x' f32[16,5,1,1]");
}

// ---- products ----------------------------------------------------------------------------------

TEST_F(Elementwise, MulMatGivesF32AndSharesMatricesOfA) {
    Tensor* a = tensor("a", {64, 3, 2, 1}, GGML_TYPE_Q8_0);
    Tensor* b = tensor("b", {64, 5, 4, 3});
    auto y = build<ops::MulMat>({}, {a, b});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "f32[3,5,4,3]");
    EXPECT_EQ(cost_of(**y).flops, 2.0 * 3 * 5 * 64 * 4 * 3);
    EXPECT_EQ(cost_of(**y).bytes,
              double(byte_size(*a)) + double(byte_size(*b)) + double(byte_size(**y)));
    EXPECT_EQ(refusal<ops::MulMat>({}, {tensor("c", {32, 3, 1, 1}), b}),
              "mul_mat: a 'c' f32[32,3,1,1] in dimension 0 and b 'b' f32[64,5,4,3] in dimension 0 "
              "differ");
    EXPECT_EQ(
        refusal<ops::MulMat>({}, {tensor("c", {64, 3, 3, 1}), b}),
        "mul_mat: b 'b' f32[64,5,4,3] in dimension 2 is not a multiple of a 'c' f32[64,3,3,1] "
        "in dimension 2");
    EXPECT_EQ(
        refusal<ops::MulMat>({}, {tensor("c", {64, 3, 0, 1}), b}),
        "mul_mat: b 'b' f32[64,5,4,3] in dimension 2 is not a multiple of a 'c' f32[64,3,0,1] "
        "in dimension 2");
    EXPECT_EQ(
        refusal<ops::MulMat>({}, {transposed("t", {3, 64, 1, 1}), b}),
        "mul_mat: a 't' f32[64,3,1,1] is transposed: its elements lie 12 bytes apart, its rows "
        "4");
}

TEST_F(Elementwise, MulMatOfNoTermsIsRefused) {
    EXPECT_EQ(refusal<ops::MulMat>({}, {tensor("a", {0, 3, 1, 1}), tensor("b", {0, 5, 1, 1})}),
              "mul_mat: a 'a' f32[0,3,1,1] has rows without elements");
}

TEST_F(Elementwise, MulMatIdCountsOnlyTheExpertsThatCanOccur) {
    Tensor* as = tensor("as", {32, 16, 8, 1});
    Tensor* b = tensor("b", {32, 1, 2, 1});
    Tensor* ids = tensor("ids", {2, 2, 1, 1}, GGML_TYPE_I32);
    auto y = build<ops::MulMatId>({}, {as, b, ids});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "f32[16,2,2,1]");
    const Cost cost = cost_of(**y);
    EXPECT_EQ(cost.flops, 2.0 * 16 * 32 * 2 * 2);
    EXPECT_EQ(cost.bytes, double(byte_size(*as)) * 4 / 8 + 256 + 16 + 256);
    EXPECT_EQ(refusal<ops::MulMatId>({}, {as, tensor("b", {32, 0, 2, 1}), ids}),
              "mul_mat_id: ids 'ids' i32[2,2,1,1] in dimension 0 is not a multiple of b 'b' "
              "f32[32,0,2,1] in dimension 1");
    EXPECT_EQ(refusal<ops::MulMatId>({}, {as, tensor("b", {32, 1, 2, 2}), ids}),
              "mul_mat_id: b 'b' f32[32,1,2,2] does not have extent 1 in dimension 3");
}

TEST_F(Elementwise, OutProdSumsOverDimensionOne) {
    Tensor* a = tensor("a", {7, 9, 1, 1});
    Tensor* b = tensor("b", {5, 9, 2, 1});
    auto y = build<ops::OutProd>({}, {a, b});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "f32[7,5,2,1]");
    EXPECT_EQ(cost_of(**y).flops, 2.0 * 7 * 5 * 2 * 9);
}

// ---- values, images, callbacks -----------------------------------------------------------------

TEST_F(Elementwise, ArangeCountsItsSteps) {
    EXPECT_EQ(look(**build<ops::Arange>({0, 10, 3}, {})), "f32[4,1,1,1]");
    EXPECT_EQ(refusal<ops::Arange>({1, 1, 1}, {}), "arange: stop 1 is not above start 1");
    EXPECT_EQ(refusal<ops::Arange>({0, 1, 0}, {}), "arange: steps of 0 do not lead from 0 to 1");
    EXPECT_EQ(refusal<ops::Arange>({0, 8, -1}, {}), "arange: steps of -1 do not lead from 0 to 8");
    const float nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(refusal<ops::Arange>({0, 1, nan}, {}),
              "arange: steps of nan do not lead from 0 to 1");
    EXPECT_EQ(refusal<ops::Arange>({0, nan, 1}, {}), "arange: stop nan is not above start 0");
}

TEST_F(Elementwise, GeneratorsAndTrianglesHaveTheirExtents) {
    EXPECT_EQ(look(**build<ops::TimestepEmbedding>({15, 10000}, {tensor("t", {2, 1, 1, 1})})),
              "f32[15,2,1,1]");
    EXPECT_EQ(refusal<ops::TimestepEmbedding>({-1, 10}, {tensor("t", {2, 1, 1, 1})}),
              "timestep_embedding: dim -1 is below 0");
    EXPECT_EQ(look(**build<ops::Diag>({}, {tensor("d", {10, 1, 4, 3})})), "f32[10,10,4,3]");
    EXPECT_EQ(refusal<ops::Diag>({}, {tensor("d", {10, 2, 4, 3})}),
              "diag: x 'd' f32[10,2,4,3] does not have extent 1 in dimension 1");
    EXPECT_EQ(
        refusal<ops::Diag>({}, {tensor("d", {1ll << 40, 1, 1, 1})}),
        "diag: a tensor of extents [1099511627776,1099511627776,1,1] is too large to address");
    EXPECT_TRUE(build<ops::Tri>({GGML_TRI_TYPE_LOWER}, {tensor("m", {4, 4, 2, 1})}));
    EXPECT_EQ(refusal<ops::Tri>({4}, {tensor("m", {4, 4, 2, 1})}),
              "tri: type 4 is not one of 0 to 3");
    EXPECT_EQ(refusal<ops::Tri>({}, {tensor("m", {4, 5, 2, 1})}),
              "tri: x 'm' f32[4,5,2,1] is not square");
    EXPECT_EQ(refusal<ops::Fill>({1}, {tensor("i", {4, 1, 1, 1}, GGML_TYPE_I32)}),
              "fill: x 'i' i32[4,1,1,1] is not f32 or f16");
}

TEST_F(Elementwise, UpscaleReachesAnyExtents) {
    Tensor* x = tensor("x", {3, 5, 2, 1});
    const auto twice = ops::Upscale::by_factor(*x, 2, GGML_SCALE_MODE_BILINEAR);
    ASSERT_TRUE(twice);
    auto y = build<ops::Upscale>(*twice, {x});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "f32[6,10,2,1]");
    EXPECT_EQ((*y)->op_params[0], 1);
    EXPECT_EQ(cost_of(**y).flops, 8 * 120);
    EXPECT_EQ(ops::Upscale::by_factor(*x, 1, 0).error().message,
              "upscale: factor 1 is not above 1");
    EXPECT_EQ(refusal<ops::Upscale>({.params = {3}, .extent = {6, 10, 2, 1}}, {x}),
              "upscale: interpolation 3 is not below 3");
    EXPECT_EQ(refusal<ops::Upscale>(
                  {.params = {2 | GGML_SCALE_FLAG_ANTIALIAS}, .extent = {6, 10, 2, 1}}, {x}),
              "upscale: antialiasing is for bilinear interpolation, not for 2");
    EXPECT_EQ(refusal<ops::Upscale>({.extent = {6, -1, 2, 1}}, {x}),
              "upscale: extent -1 in dimension 1");
    EXPECT_EQ(refusal<ops::Upscale>({.extent = {1, 1, 1, 1}}, {tensor("none", {0, 1, 1, 1})}),
              "upscale: x 'none' f32[0,1,1,1] has no elements to interpolate");
}

void double_it(Tensor*, const Tensor*, int, int, void*) {}
void make_it(Tensor*, int, int, void*) {}

TEST_F(Elementwise, CallbacksAreKeptAsPluginsReadThem) {
    Tensor* a = tensor("a", {10, 2, 1, 1});
    int token = 0;
    auto y =
        build<ops::MapCustom1>({.function = double_it, .n_tasks = 2, .user_data = &token}, {a});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "f32[10,2,1,1]");
    const auto kept = unpack<ggml_map_custom1_op_params>(**y);
    EXPECT_EQ(kept.fun, double_it);
    EXPECT_EQ(kept.n_tasks, 2);
    EXPECT_EQ(kept.userdata, &token);
    EXPECT_EQ((*y)->op_params[3], 0);
    EXPECT_EQ(refusal<ops::MapCustom1>({.function = double_it, .n_tasks = 0}, {a}),
              "map_custom1: 0 tasks, not at least 1 or -1 for one per thread");
    EXPECT_EQ(refusal<ops::MapCustom1>({}, {a}), "map_custom1: the function is NULL");
}

TEST_F(Elementwise, CustomMakesAnyTensorOfUpToNineOperands) {
    Tensor* a = tensor("a", {10, 1, 1, 1});
    auto y = build<ops::Custom>(
        {.params = {.function = make_it}, .type = GGML_TYPE_I32, .extent = {3, 2, 1, 1}},
        {a, a, a, a, a});
    ASSERT_TRUE(y);
    EXPECT_EQ(look(**y), "i32[3,2,1,1]");
    EXPECT_EQ((*y)->src[4], a);
    EXPECT_TRUE(check_node(**y));
    EXPECT_EQ(
        refusal<ops::Custom>({.params = {.function = make_it}}, {a, a, a, a, a, a, a, a, a, a}),
        "custom: 10 operands, at most 9");
}

}  // namespace
}  // namespace heddle
