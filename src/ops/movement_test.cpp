#include <gtest/gtest.h>

#include <limits>

#include "ggml/op_list.h"
#include "ops/build.hpp"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "ops/concat.hpp"
#include "ops/copy_builders.hpp"
#include "ops/pad.hpp"
#include "ops/repeat.hpp"
#include "ops/roll.hpp"
#include "ops/rows.hpp"
#include "ops/test_support.hpp"
#include "ops/view_builders.hpp"

namespace heddle {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

// ---- the same memory seen in another way -------------------------------------------------------

TEST(Reshape, KeepsElementsAndMemory) {
    TestContext context;
    Tensor* x = context.f32({6, 4}, "x");
    const Tensor* y = *reshape_nd(context, x, {3, 2, 4});
    EXPECT_EQ(extents_of(*y), (Extents{3, 2, 4, 1}));
    EXPECT_EQ(strides_of(*y), (Strides{4, 12, 24, 96}));
    EXPECT_EQ(y->view_src, x);
    EXPECT_EQ(y->src[0], x);
    EXPECT_EQ(y->op, GGML_OP_RESHAPE);
    EXPECT_EQ(name_of(*y), "x (reshaped)");
    EXPECT_EQ(cost_of(*y).bytes, 0);
    EXPECT_TRUE(check_node(*y));
}

TEST(Reshape, BorrowsTheShapeOfATensorThatIsNotContiguous) {
    TestContext context;
    Tensor* x = context.f32({6, 4});
    Tensor* shape = *build<ops::Transpose>(context, {}, {context.f32({3, 8})});
    const Tensor* y = *reshape_like(context, x, shape);
    EXPECT_EQ(extents_of(*y), (Extents{8, 3, 1, 1}));
    EXPECT_TRUE(is_contiguous(*y));
    EXPECT_EQ(y->src[1], nullptr);
}

TEST(Reshape, RefusesOtherCountsAndStridedOperands) {
    TestContext context;
    Tensor* x = context.f32({6, 4}, "x");
    EXPECT_EQ(refusal(reshape_nd(context, x, {5, 5})),
              "reshape: 'x' f32[6,4,1,1] has 24 elements, extents [5,5,1,1] have 25");
    EXPECT_EQ(refusal(reshape_nd(context, x, {-6, -4})), "reshape: extent -6 in dimension 0");
    EXPECT_NE(refusal(reshape_nd(context, x, {kHuge, kHuge})), "built");
    EXPECT_EQ(refusal(reshape_nd(context, nullptr, {24})), "reshape: operand x is missing");
    EXPECT_EQ(refusal(reshape_like(context, x, nullptr)),
              "reshape: the tensor that lends its shape is missing");
    Tensor* turned = *build<ops::Transpose>(context, {}, {x});
    EXPECT_EQ(refusal(reshape_nd(context, turned, {24})),
              "reshape: 'x (transposed)' f32[4,6,1,1] is not contiguous");
}

TEST(View, StridesThatAreNotGivenArePacked) {
    TestContext context;
    Tensor* x = context.f32({16, 8, 4, 2}, "x");
    const Tensor* one = *view_nd(context, x, {5}, {}, 8);
    EXPECT_EQ(strides_of(*one), (Strides{4, 20, 20, 20}));
    const Tensor* two = *view_nd(context, x, {5, 3}, {64}, 8);
    EXPECT_EQ(strides_of(*two), (Strides{4, 64, 192, 192}));
    const Tensor* three = *view_nd(context, x, {5, 3, 2}, {64, 512}, 8);
    EXPECT_EQ(strides_of(*three), (Strides{4, 64, 512, 1024}));
    const Tensor* four = *view_nd(context, x, {5, 3, 2, 2}, {64, 512, 2048}, 8);
    EXPECT_EQ(strides_of(*four), (Strides{4, 64, 512, 2048}));
    EXPECT_EQ(name_of(*four), "x (view)");
    EXPECT_TRUE(check_node(*four));
}

TEST(View, StoresTheOffsetFromItsParentAndTheOneFromTheRoot) {
    TestContext context;
    Tensor* x = context.f32({100}, "x");
    Tensor* outer = *view_nd(context, x, {50}, {}, 40);
    const Tensor* inner = *view_nd(context, outer, {10}, {}, 16);
    std::size_t stored;
    std::memcpy(&stored, inner->op_params, sizeof stored);
    EXPECT_EQ(stored, 16u);
    EXPECT_EQ(inner->view_offs, 56u);
    EXPECT_EQ(inner->view_src, x);
    EXPECT_EQ(inner->src[0], outer);
    EXPECT_EQ(describe_params(*inner), "offset=16");
}

TEST(View, DoesNotInheritTheFirstStride) {
    TestContext context;
    Tensor* x = *build<ops::Transpose>(context, {}, {context.f32({6, 4})});
    EXPECT_EQ((*view_nd(context, x, {4}, {}, 0))->nb[0], 4u);
}

TEST(View, RefusesWhatReachesPastTheRoot) {
    TestContext context;
    Tensor* x = context.f32({16}, "x");
    const std::string why = refusal(view_nd(context, x, {16}, {}, 4));
    EXPECT_TRUE(
        why.ends_with("64 bytes at offset 4 reaches past the 64 bytes of 'x' f32[16,1,1,1]"))
        << why;
    EXPECT_FALSE(view_nd(context, x, {1}, {}, SIZE_MAX));
    EXPECT_FALSE(view_nd(context, x, {kHuge}, {}, 0));
    EXPECT_FALSE(view_nd(context, x, {-1}, {}, 0));
    EXPECT_TRUE(view_nd(context, x, {0}, {}, 64));
    EXPECT_FALSE(view_nd(context, x, {4, 4}, {SIZE_MAX / 2}, 0));
    EXPECT_FALSE(view_nd(context, x, {4, 4}, {20}, 0));
    EXPECT_TRUE(view_nd(context, x, {4, 1}, {SIZE_MAX / 2}, 0));  // it leads nowhere
}

TEST(Permute, MovesDimensionIToPlaceAxisI) {
    TestContext context;
    Tensor* x = context.f32({2, 3, 4, 5}, "x");
    const Tensor* y = *build<ops::Permute>(context, {.axis = {2, 0, 1, 3}}, {x});
    EXPECT_EQ(extents_of(*y), (Extents{3, 4, 2, 5}));
    EXPECT_EQ(strides_of(*y), (Strides{8, 24, 4, 96}));
    EXPECT_EQ(name_of(*y), "x (permuted)");
    EXPECT_EQ(y->op_params[0], 2);
    EXPECT_EQ(y->op_params[3], 3);
    EXPECT_TRUE(check_node(*y));
}

TEST(Permute, RefusesAxesThatAreNoPermutation) {
    TestContext context;
    Tensor* x = context.f32({2, 3});
    EXPECT_EQ(refusal<ops::Permute>(context, {.axis = {0, 1, 1, 3}}, {x}),
              "permute: axis 1 is named twice");
    EXPECT_EQ(refusal<ops::Permute>(context, {.axis = {0, 1, 2, 4}}, {x}),
              "permute: axis 4 is not one of 0 to 3");
    EXPECT_EQ(refusal<ops::Permute>(context, {.axis = {-1, 1, 2, 3}}, {x}),
              "permute: axis -1 is not one of 0 to 3");
}

TEST(Transpose, ExchangesTheFirstTwoDimensionsWithoutParameters) {
    TestContext context;
    Tensor* x = context.tensor(GGML_TYPE_F16, {64, 3}, "x");
    const Tensor* y = *build<ops::Transpose>(context, {}, {x});
    EXPECT_EQ(extents_of(*y), (Extents{3, 64, 1, 1}));
    EXPECT_EQ(y->nb[0], 128u);
    EXPECT_EQ(y->nb[1], 2u);
    EXPECT_EQ(name_of(*y), "x (transposed)");
    for (const std::int32_t word : y->op_params) EXPECT_EQ(word, 0);
}

// ---- copies ------------------------------------------------------------------------------------

TEST(Dup, IsContiguousWhateverTheOperand) {
    TestContext context;
    Tensor* x = *build<ops::Transpose>(context, {}, {context.f32({6, 4}, "x")});
    const Tensor* y = *build<ops::Dup>(context, {}, {x});
    EXPECT_EQ(strides_of(*y), (Strides{4, 16, 96, 96}));
    EXPECT_EQ(name_of(*y), "");
    const Tensor* in_place = *build_in_place<ops::Dup>(context, {}, {x});
    EXPECT_TRUE(same_layout(*in_place, *x));
    EXPECT_EQ(name_of(*in_place), "x (transposed) (view)");
}

TEST(Dup, NodesMadeByHandOntoViewsOfOtherShapesAreAccepted) {
    TestContext context;
    Tensor* x = context.f32({6, 4});
    Tensor* y = *view_nd(context, context.tensor(GGML_TYPE_F16, {100}), {4, 6}, {16}, 0);
    y->op = GGML_OP_DUP;
    y->src[0] = x;
    EXPECT_TRUE(check_node(*y));
}

TEST(Cpy, ResultIsTheDestinationSeenAgain) {
    TestContext context;
    Tensor* x = context.f32({6, 4}, "x");
    Tensor* y = *view_nd(context, context.tensor(GGML_TYPE_F16, {100}, "cache"), {8, 3}, {32}, 4);
    const Tensor* copy = *build<ops::Cpy>(context, {}, {x, y});
    EXPECT_TRUE(same_layout(*copy, *y));
    EXPECT_EQ(copy->view_src, y->view_src);
    EXPECT_EQ(copy->view_offs, 4u);
    EXPECT_EQ(copy->src[0], x);
    EXPECT_EQ(copy->src[1], y);
    EXPECT_EQ(name_of(*copy), "cache (view) (copy of x)");
    EXPECT_EQ(cost_of(*copy).bytes, static_cast<double>(byte_size(*x) + byte_size(*y)));
}

TEST(Cpy, IsNamedAfterTheOperandWhereTheDestinationHasNoName) {
    TestContext context;
    Tensor* x = context.f32({4}, "x");
    EXPECT_EQ(name_of(**build<ops::Cpy>(context, {}, {x, context.f32({4})})), "x (copy)");
}

TEST(Cpy, RefusesOtherCounts) {
    TestContext context;
    EXPECT_EQ(refusal<ops::Cpy>(context, {}, {context.f32({4}, "x"), context.f32({5}, "y")}),
              "cpy: 'x' f32[4,1,1,1] has 4 elements, the destination [5,1,1,1] has 5");
}

TEST(Cast, IsACopyOntoItself) {
    TestContext context;
    Tensor* x = *build<ops::Transpose>(context, {}, {context.f32({4, 32}, "x")});
    Tensor* y = *cast(context, x, GGML_TYPE_Q8_0);
    EXPECT_EQ(y->op, GGML_OP_CPY);
    EXPECT_EQ(y->type, GGML_TYPE_Q8_0);
    EXPECT_EQ(extents_of(*y), (Extents{32, 4, 1, 1}));
    EXPECT_TRUE(is_contiguous(*y));
    EXPECT_EQ(y->src[0], x);
    EXPECT_EQ(y->src[1], y);
    EXPECT_EQ(y->view_src, nullptr);
    EXPECT_EQ(name_of(*y), "x (transposed) (copy)");
    EXPECT_TRUE(check_node(*y));
    EXPECT_EQ(refusal(cast(context, context.f32({4}), GGML_TYPE_Q8_0)),
              "cast: rows of 4 elements of type q8_0 are not a multiple of its block size 32");
    EXPECT_EQ(refusal(cast(context, nullptr, GGML_TYPE_F16)), "cast: operand x is missing");
}

TEST(Cont, TakesOtherExtentsWhereTheyAreGiven) {
    TestContext context;
    Tensor* x = *build<ops::Transpose>(context, {}, {context.f32({6, 4}, "x")});
    const Tensor* plain = *build<ops::Cont>(context, {}, {x});
    EXPECT_EQ(extents_of(*plain), (Extents{4, 6, 1, 1}));
    EXPECT_EQ(name_of(*plain), "x (transposed) (cont)");
    const Tensor* shaped = *cont_nd(context, x, {2, 3, 4});
    EXPECT_EQ(extents_of(*shaped), (Extents{2, 3, 4, 1}));
    EXPECT_TRUE(check_node(*shaped));
    EXPECT_EQ(
        refusal(cont_nd(context, x, {5, 5})),
        "cont: 'x (transposed)' f32[4,6,1,1] has 24 elements, the destination [5,5,1,1] has 25");
    EXPECT_FALSE(cont_nd(context, x, {kHuge, kHuge, kHuge, kHuge}));
}

// ---- rows by index -----------------------------------------------------------------------------

TEST(GetRows, DecodesToF32ButKeepsI32) {
    TestContext context;
    Tensor* table = context.tensor(GGML_TYPE_Q4_0, {256, 5, 7, 2});
    Tensor* rows = context.tensor(GGML_TYPE_I32, {4, 7, 2});
    const Tensor* y = *build<ops::GetRows>(context, {}, {table, rows});
    EXPECT_EQ(y->type, GGML_TYPE_F32);
    EXPECT_EQ(extents_of(*y), (Extents{256, 4, 7, 2}));
    EXPECT_EQ(cost_of(*y).bytes, 56 * 144.0 + 56 * 1024.0 + 56 * 4.0);  // touched rows, y, rows
    Tensor* numbers = context.tensor(GGML_TYPE_I32, {3, 5});
    const Tensor* z =
        *build<ops::GetRows>(context, {}, {numbers, context.tensor(GGML_TYPE_I32, {9})});
    EXPECT_EQ(z->type, GGML_TYPE_I32);
    EXPECT_EQ(extents_of(*z), (Extents{3, 9, 1, 1}));
}

TEST(GetRows, RefusesIndicesThatDoNotMatch) {
    TestContext context;
    Tensor* table = context.f32({8, 5, 7}, "t");
    EXPECT_EQ(refusal<ops::GetRows>(context, {}, {table, context.f32({4, 7}, "r")}),
              "get_rows: rows 'r' f32[4,7,1,1] are not I32");
    EXPECT_EQ(
        refusal<ops::GetRows>(context, {}, {table, context.tensor(GGML_TYPE_I32, {4, 6}, "r")}),
        "get_rows: rows 'r' i32[4,6,1,1] do not match the planes of 't' f32[8,5,7,1]");
}

TEST(GetRowsBack, HasTheShapeOfTheTable) {
    TestContext context;
    Tensor* dy = context.tensor(GGML_TYPE_F16, {8, 4}, "dy");
    Tensor* rows = context.tensor(GGML_TYPE_I32, {3}, "r");
    const Tensor* y = *get_rows_back_like(context, dy, rows, context.f32({8, 100}));
    EXPECT_EQ(y->type, GGML_TYPE_F32);
    EXPECT_EQ(extents_of(*y), (Extents{8, 100, 1, 1}));
    EXPECT_EQ(y->src[1], rows);
    EXPECT_EQ(y->src[2], nullptr);
    EXPECT_TRUE(check_node(*y));
    EXPECT_EQ(
        refusal(get_rows_back_like(context, dy, rows, context.f32({7, 100}))),
        "get_rows_back: the result [7,100,1,1] is not a matrix with rows of 8 elements like 'dy' "
        "f16[8,4,1,1]");
    EXPECT_FALSE(get_rows_back_like(context, dy, rows, nullptr));
}

TEST(SetRows, ResultIsTheTableSeenAgain) {
    TestContext context;
    Tensor* table = context.tensor(GGML_TYPE_Q8_0, {256, 11, 4, 6}, "cache");
    Tensor* x = context.f32({256, 7, 4, 6}, "x");
    Tensor* rows = context.tensor(GGML_TYPE_I64, {7, 2, 3}, "r");
    const Tensor* y = *build<ops::SetRows>(context, {}, {x, rows, table});
    EXPECT_TRUE(same_layout(*y, *table));
    EXPECT_EQ(y->view_src, table);
    EXPECT_EQ(name_of(*y), "cache (view)");
    EXPECT_EQ(y->src[0], x);
    EXPECT_EQ(y->src[1], rows);
    EXPECT_EQ(y->src[2], table);
    EXPECT_EQ(cost_of(*y).bytes, 7 * 4 * 6 * (256 * 4.0 + 256 / 32 * 34) + 7 * 2 * 3 * 8);
    EXPECT_TRUE(check_node(*y));
}

TEST(SetRows, RefusesOperandsThatDoNotMatch) {
    TestContext context;
    Tensor* table = context.f32({8, 11, 4}, "t");
    Tensor* x = context.f32({8, 7, 4}, "x");
    const auto with = [&](Tensor* values, Tensor* rows) {
        return refusal<ops::SetRows>(context, {}, {values, rows, table});
    };
    Tensor* seven = context.tensor(GGML_TYPE_I64, {7}, "r");
    EXPECT_EQ(with(x, context.f32({7}, "r")),
              "set_rows: rows 'r' f32[7,1,1,1] are neither I64 nor I32");
    EXPECT_EQ(with(x, context.tensor(GGML_TYPE_I64, {7, 3}, "r")),
              "set_rows: rows 'r' i64[7,3,1,1] do not match 'x' f32[8,7,4,1]");
    EXPECT_EQ(with(x, context.tensor(GGML_TYPE_I64, {7, 0}, "r")),
              "set_rows: rows 'r' i64[7,0,1,1] do not match 'x' f32[8,7,4,1]");
    EXPECT_EQ(with(context.f32({9, 7, 4}, "x"), seven),
              "set_rows: 'x' f32[9,7,4,1] does not match the table 't' f32[8,11,4,1]");
    EXPECT_NE(with(context.tensor(GGML_TYPE_I32, {8, 7, 4}), seven), "built");
    Tensor* strided =
        *build<ops::Permute>(context, {.axis = {1, 0, 2, 3}}, {context.f32({7, 8, 4})});
    set_name(*strided, "s");
    EXPECT_EQ(with(strided, seven), "set_rows: rows of 's' f32[8,7,4,1] are not dense");
}

// ---- larger tensors from smaller ones ----------------------------------------------------------

TEST(Repeat, TilesToTheShapeOfAnotherTensor) {
    TestContext context;
    Tensor* x = context.tensor(GGML_TYPE_I16, {10, 5, 4, 1}, "x");
    const Tensor* y = *repeat_like(context, x, context.f32({10, 10, 4, 3}));
    EXPECT_EQ(y->type, GGML_TYPE_I16);
    EXPECT_EQ(extents_of(*y), (Extents{10, 10, 4, 3}));
    EXPECT_EQ(y->src[1], nullptr);
    EXPECT_EQ(y->view_src, nullptr);
    EXPECT_EQ(cost_of(*y).bytes, 2.0 * 10 * 10 * 4 * 3 * 2);
    EXPECT_TRUE(check_node(*y));
    EXPECT_EQ(refusal(repeat_like(context, x, context.f32({15, 5, 4}))),
              "repeat: tiles of 'x' i16[10,5,4,1] do not fill [15,5,4,1]");
}

TEST(Repeat, AnEmptyTensorFillsNoOther) {
    TestContext context;
    Tensor* nothing = context.f32({0, 5}, "n");
    EXPECT_TRUE(repeat_like(context, nothing, context.f32({4, 0})));
    EXPECT_EQ(refusal(repeat_like(context, nothing, context.f32({4, 5}, "s"))),
              "repeat: 'n' f32[0,5,1,1] is empty and cannot fill 's' f32[4,5,1,1]");
}

TEST(RepeatBack, SumsTiles) {
    TestContext context;
    Tensor* x = context.f32({10, 6}, "x");
    const Tensor* y = *repeat_back_like(context, x, context.f32({5, 2}));
    EXPECT_EQ(extents_of(*y), (Extents{5, 2, 1, 1}));
    EXPECT_EQ(y->src[1], nullptr);
    EXPECT_EQ(refusal(repeat_back_like(context, x, context.f32({5, 4}))),
              "repeat_back: tiles of [5,4,1,1] do not fill 'x' f32[10,6,1,1]");
    EXPECT_FALSE(repeat_back_like(context, x, context.f32({0, 2})));
}

TEST(Concat, AddsExtentsAlongOneDimension) {
    TestContext context;
    Tensor* x = context.f32({11, 12, 13}, "x");
    Tensor* y = context.f32({11, 7, 13}, "y");
    const Tensor* z = *build<ops::Concat>(context, {.dim = 1}, {x, y});
    EXPECT_EQ(extents_of(*z), (Extents{11, 19, 13, 1}));
    EXPECT_EQ(z->op_params[0], 1);
    EXPECT_EQ(refusal<ops::Concat>(context, {.dim = 0}, {x, y}),
              "concat: 'x' f32[11,12,13,1] and 'y' f32[11,7,13,1] differ in dimension 1");
    EXPECT_EQ(refusal<ops::Concat>(context, {.dim = 4}, {x, x}),
              "concat: dimension 4 is not one of 0 to 3");
    EXPECT_FALSE(
        build<ops::Concat>(context, {.dim = 1}, {x, context.tensor(GGML_TYPE_I32, {11, 7, 13})}));
    EXPECT_TRUE(build<ops::Concat>(context, {.dim = 1}, {x, context.f32({11, 0, 13})}));
}

TEST(Concat, RefusesASumThatCannotBeCounted) {
    TestContext context;
    Tensor* x = context.tensor(GGML_TYPE_I8, {kHuge});
    EXPECT_FALSE(build<ops::Concat>(context, {.dim = 0}, {x, x}));
}

TEST(Pad, AddsOnBothSides) {
    TestContext context;
    Tensor* x = context.f32({11, 22, 33, 44});
    const Tensor* y = *build<ops::Pad>(
        context, {.amount = {{{1, 2}, {3, 4}, {5, 6}, {7, 8}}}, .circular = 1}, {x});
    EXPECT_EQ(extents_of(*y), (Extents{14, 29, 44, 59}));
    for (int word = 0; word < 8; ++word) EXPECT_EQ(y->op_params[word], word + 1);
    EXPECT_EQ(y->op_params[8], 1);
}

TEST(Pad, NegativeAmountsCutButNotBelowNothing) {
    TestContext context;
    Tensor* x = context.f32({10}, "x");
    const auto cut = [&](int before, int after) {
        return build<ops::Pad>(context, {.amount = {{{before, after}}}, .circular = 0}, {x});
    };
    EXPECT_EQ((*cut(-2, -3))->ne[0], 5);
    EXPECT_EQ((*cut(-5, -5))->ne[0], 0);
    EXPECT_EQ(refusal(cut(-8, -4)), "pad: extent -2 in dimension 0");
    EXPECT_EQ(refusal(cut(INT32_MIN, INT32_MIN)), "pad: extent -4294967286 in dimension 0");
}

TEST(PadReflect1d, NeedsMoreElementsThanItMirrors) {
    TestContext context;
    Tensor* x = context.f32({10, 3}, "x");
    const Tensor* y = *build<ops::PadReflect1d>(context, {.before = 9, .after = 4}, {x});
    EXPECT_EQ(extents_of(*y), (Extents{23, 3, 1, 1}));
    EXPECT_EQ(y->op_params[0], 9);
    EXPECT_EQ(y->op_params[1], 4);
    EXPECT_EQ(refusal<ops::PadReflect1d>(context, {.before = 10, .after = 0}, {x}),
              "pad_reflect_1d: padding 10 is not one of 0 to 9 for 'x' f32[10,3,1,1]");
    EXPECT_FALSE(build<ops::PadReflect1d>(context, {.before = 0, .after = -1}, {x}));
}

TEST(Roll, RefusesShiftsOfAWholeExtent) {
    TestContext context;
    Tensor* x = context.f32({10, 5}, "x");
    const Tensor* y = *build<ops::Roll>(context, {.shift = {3, -4, 0, 0}}, {x});
    EXPECT_TRUE(same_layout(*x, *y));
    EXPECT_EQ(y->op_params[1], -4);
    EXPECT_EQ(refusal<ops::Roll>(context, {.shift = {0, 5, 0, 0}}, {x}),
              "roll: shift 5 in dimension 1 of extent 5");
}

}  // namespace
}  // namespace heddle
