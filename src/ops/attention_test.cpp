#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "ggml/ops_reduce.h"
#include "ops/build.hpp"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "ops/flash_attn.hpp"
#include "ops/mask.hpp"
#include "ops/rope.hpp"
#include "ops/soft_max.hpp"
#include "ops/test_support.hpp"

namespace heddle {
namespace {

float f32_word(const Tensor& node, int word) {
    float value;
    std::memcpy(&value, node.op_params + word, sizeof value);
    return value;
}

// ---- masks -------------------------------------------------------------------------------------

TEST(DiagMask, ResultLooksLikeItsOperandAndKeepsThePast) {
    TestContext context;
    Tensor* x = context.f32({10, 10, 3, 2}, "x");
    const Tensor* y = *build<ops::DiagMaskInf>(context, {.n_past = 5}, {x});
    EXPECT_TRUE(same_layout(*x, *y));
    EXPECT_EQ(y->op, GGML_OP_DIAG_MASK_INF);
    EXPECT_EQ(y->op_params[0], 5);
    EXPECT_EQ(y->src[0], x);
    EXPECT_EQ(name_of(*y), "");
    EXPECT_EQ(cost_of(*y).bytes, 2.0 * 10 * 10 * 3 * 2 * 4);
}

TEST(DiagMask, InPlaceResultIsAViewOfTheOperand) {
    TestContext context;
    Tensor* x = context.f32({10, 10}, "x");
    const Tensor* y = *build_in_place<ops::DiagMaskZero>(context, {.n_past = 1}, {x});
    EXPECT_EQ(y->view_src, x);
    EXPECT_EQ(name_of(*y), "x (view)");
    EXPECT_EQ(y->op, GGML_OP_DIAG_MASK_ZERO);
}

// ---- softmax -----------------------------------------------------------------------------------

TEST(SoftMax, WithoutMaskScalesByOne) {
    TestContext context;
    Tensor* x = context.f32({8, 4, 2, 3});
    const Tensor* y = *build<ops::SoftMax>(context, {}, {x});
    EXPECT_TRUE(same_layout(*x, *y));
    EXPECT_EQ(f32_word(*y, 0), 1.0f);
    EXPECT_EQ(f32_word(*y, 1), 0.0f);
    EXPECT_EQ(y->src[1], nullptr);
    EXPECT_EQ(cost_of(*y).flops, 8 * 4 * 2 * 3 * 14.0);
}

TEST(SoftMax, MaskMayHaveMoreRowsAndFewerPlanes) {
    TestContext context;
    Tensor* x = context.f32({8, 4, 6, 3});
    Tensor* mask = context.tensor(GGML_TYPE_F16, {8, 64, 2, 1});
    const Tensor* y = *build<ops::SoftMax>(context, {.scale = 0.5f, .max_bias = 8}, {x, mask});
    EXPECT_EQ(y->src[1], mask);
    EXPECT_EQ(f32_word(*y, 0), 0.5f);
    EXPECT_EQ(f32_word(*y, 1), 8.0f);
    EXPECT_TRUE(check_node(*y));
}

TEST(SoftMax, RefusesMasksThatDoNotFit) {
    TestContext context;
    Tensor* x = context.f32({8, 4, 6, 1}, "x");
    const auto with_mask = [&](Tensor* mask) {
        return refusal<ops::SoftMax>(context, {}, {x, mask});
    };
    EXPECT_EQ(with_mask(context.f32({8, 3}, "m")),
              "soft_max: mask 'm' f32[8,3,1,1] does not cover the rows of 'x' f32[8,4,6,1]");
    EXPECT_EQ(with_mask(context.f32({7, 4}, "m")),
              "soft_max: mask 'm' f32[7,4,1,1] does not cover the rows of 'x' f32[8,4,6,1]");
    EXPECT_EQ(with_mask(context.f32({8, 4, 4}, "m")),
              "soft_max: the planes of mask 'm' f32[8,4,4,1] do not divide those of 'x' "
              "f32[8,4,6,1]");
    EXPECT_EQ(with_mask(context.f32({8, 4, 0}, "m")),
              "soft_max: the planes of mask 'm' f32[8,4,0,1] do not divide those of 'x' "
              "f32[8,4,6,1]");
    EXPECT_EQ(with_mask(context.tensor(GGML_TYPE_I32, {8, 4}, "m")),
              "soft_max: mask 'm' i32[8,4,1,1] is neither F16 nor F32");
    EXPECT_EQ(refusal<ops::SoftMax>(context, {.scale = 1, .max_bias = 8}, {x}),
              "soft_max: max_bias 8 needs a mask");
    EXPECT_EQ(refusal<ops::SoftMax>(context, {}, {nullptr}), "soft_max: operand x is missing");
}

TEST(SoftMax, RefusesOperandsThatAreNotContiguous) {
    TestContext context;
    Tensor* x = context.f32({8, 4}, "x");
    x->nb[1] = 64;
    EXPECT_EQ(refusal<ops::SoftMax>(context, {}, {x}),
              "soft_max: 'x' f32[8,4,1,1] is not contiguous");
}

TEST(SoftMax, SinksAreSetOnceAndCanBeTakenAway) {
    TestContext context;
    Tensor* x = context.f32({8, 4, 6, 1}, "x");
    Tensor* y = *build<ops::SoftMax>(context, {}, {x});
    Tensor* sinks = context.f32({6}, "s");
    EXPECT_EQ(ops::set_sinks<ops::SoftMax>(*y, context.f32({4}, "s")).error().message,
              "sinks: sinks 's' f32[4,1,1,1] are not one for each of the 6 heads of 'x' "
              "f32[8,4,6,1]");
    ASSERT_TRUE(ops::set_sinks<ops::SoftMax>(*y, sinks));
    EXPECT_EQ(y->src[2], sinks);
    EXPECT_FALSE(ops::set_sinks<ops::SoftMax>(*y, sinks));
    ASSERT_TRUE(ops::set_sinks<ops::SoftMax>(*y, nullptr));
    EXPECT_EQ(y->src[2], nullptr);
    EXPECT_FALSE(ops::set_sinks<ops::SoftMax>(*x, sinks));
}

TEST(SoftMaxBack, ResultLooksLikeTheIncomingGradient) {
    TestContext context;
    Tensor* dy = context.f32({8, 4}, "dy");
    Tensor* y = context.f32({8, 4}, "y");
    const Tensor* dx = *build<ops::SoftMaxBack>(context, {.scale = 2, .max_bias = 0}, {dy, y});
    EXPECT_TRUE(same_layout(*dx, *dy));
    EXPECT_EQ(f32_word(*dx, 0), 2.0f);
    const Tensor* in_place = *build_in_place<ops::SoftMaxBack>(context, {}, {dy, y});
    EXPECT_EQ(in_place->view_src, dy);
}

// ---- rotary positions --------------------------------------------------------------------------

TEST(Rope, StoresItsSixteenWords) {
    TestContext context;
    Tensor* x = context.f32({128, 32, 7, 1});
    Tensor* positions = context.tensor(GGML_TYPE_I32, {28});
    const ops::Rope::Params params{.n_dims = 64,
                                   .mode = GGML_ROPE_TYPE_MROPE,
                                   .n_ctx_orig = 4096,
                                   .freq_base = 1e6f,
                                   .freq_scale = 0.5f,
                                   .ext_factor = 0.25f,
                                   .attn_factor = 2,
                                   .beta_fast = 32,
                                   .beta_slow = 3,
                                   .sections = {16, 8, 8, 0},
                                   .n_offs = 4};
    const Tensor* y = *build<ops::Rope>(context, params, {x, positions});
    EXPECT_TRUE(same_layout(*x, *y));
    for (const int word : {0, 3}) EXPECT_EQ(y->op_params[word], 0);
    EXPECT_EQ(y->op_params[1], 64);
    EXPECT_EQ(y->op_params[2], 8);
    EXPECT_EQ(y->op_params[4], 4096);
    EXPECT_EQ(f32_word(*y, 5), 1e6f);
    EXPECT_EQ(f32_word(*y, 6), 0.5f);
    EXPECT_EQ(f32_word(*y, 7), 0.25f);
    EXPECT_EQ(f32_word(*y, 8), 2.0f);
    EXPECT_EQ(f32_word(*y, 9), 32.0f);
    EXPECT_EQ(f32_word(*y, 10), 3.0f);
    EXPECT_EQ(y->op_params[11], 16);
    EXPECT_EQ(y->op_params[14], 0);
    EXPECT_EQ(y->op_params[15], 4);
    EXPECT_EQ(cost_of(*y).flops, 6.0 * 32 * 32 * 7 + 20.0 * 32 * 7);
    EXPECT_EQ(cost_of(*y).bytes, 2.0 * 128 * 32 * 7 * 4);
}

TEST(Rope, DefaultsAreThoseOfTheShortBuilder) {
    TestContext context;
    Tensor* x = context.f32({64, 4, 7});
    Tensor* positions = context.tensor(GGML_TYPE_I32, {7});
    const Tensor* y = *build<ops::Rope>(context, {.n_dims = 64}, {x, positions});
    EXPECT_EQ(f32_word(*y, 5), 10000.0f);
    EXPECT_EQ(f32_word(*y, 6), 1.0f);
    EXPECT_EQ(f32_word(*y, 7), 0.0f);
    EXPECT_EQ(f32_word(*y, 8), 1.0f);
    EXPECT_EQ(f32_word(*y, 9), 0.0f);
}

TEST(Rope, RefusesPositionsThatDoNotMatchTheTokens) {
    TestContext context;
    Tensor* x = context.f32({64, 4, 7}, "x");
    Tensor* seven = context.tensor(GGML_TYPE_I32, {7}, "p");
    EXPECT_EQ(refusal<ops::Rope>(context, {.n_dims = 64, .mode = 1}, {x, seven}),
              "rope: mode 1 is odd");
    EXPECT_EQ(
        refusal<ops::Rope>(context, {.n_dims = 64, .mode = GGML_ROPE_TYPE_IMROPE}, {x, seven}),
        "rope: positions 'p' i32[7,1,1,1] are not 4 for each of the 7 tokens of 'x' "
        "f32[64,4,7,1]");
    EXPECT_EQ(refusal<ops::Rope>(context, {.n_dims = 64}, {x, context.f32({7}, "p")}),
              "rope: positions 'p' f32[7,1,1,1] are not a vector of I32");
    EXPECT_EQ(refusal<ops::Rope>(context, {.n_dims = 64}, {x}),
              "rope: operand positions is missing");
    EXPECT_EQ(refusal<ops::RopeBack>(context, {.n_dims = 64}, {x, seven, context.f32({31}, "f")}),
              "rope_back: factors 'f' f32[31,1,1,1] are fewer than the 32 pairs of 64 elements");
}

TEST(Rope, OffsetIsSetOnFinishedNodes) {
    TestContext context;
    Tensor* x = context.f32({64, 4, 7}, "x");
    Tensor* positions = context.tensor(GGML_TYPE_I32, {7});
    Tensor* y = *build_in_place<ops::Rope>(context, {.n_dims = 32}, {x, positions});
    EXPECT_EQ(y->view_src, x);
    ASSERT_TRUE(ops::Rope::set_offset(*y, 32));
    EXPECT_EQ(y->op_params[15], 32);
    EXPECT_EQ(y->op_params[1], 32);
    EXPECT_EQ(ops::Rope::set_offset(*y, -2).error().message, "rope offset: -2 is negative");
    EXPECT_FALSE(ops::Rope::set_offset(*x, 0));
    Tensor* four = context.tensor(GGML_TYPE_I32, {28});
    Tensor* vision =
        *build<ops::Rope>(context, {.n_dims = 32, .mode = GGML_ROPE_TYPE_VISION}, {x, four});
    EXPECT_FALSE(ops::Rope::set_offset(*vision, 2));
}

TEST(Rope, CorrectionDimensionsFollowTheFormula) {
    // cd(r) = 128 ln(4096 / (2 pi r)) / (2 ln 10000): 20.9 for r = 32, 45.03 for r = 1.
    const auto [low, high] = ops::rope_yarn_corr_dims(128, 4096, 10000, 32, 1);
    EXPECT_EQ(low, 20.0f);
    EXPECT_EQ(high, 46.0f);
}

TEST(Rope, CorrectionDimensionsOfNoContextAreNotNan) {
    const auto [low, high] = ops::rope_yarn_corr_dims(64, 0, 10000, 1, 1);
    EXPECT_EQ(low, 0.0f);
    EXPECT_EQ(high, -std::numeric_limits<float>::infinity());
    for (const float limit : ops::rope_yarn_corr_dims(64, 0, 10000, 0, 0)) {
        EXPECT_FALSE(std::isnan(limit));
    }
}

// ---- attention in one step ---------------------------------------------------------------------

class FlashAttn : public testing::Test {
protected:
    TestContext context_;
    Tensor* q_ = context_.f32({64, 5, 8, 3}, "q");
    Tensor* k_ = context_.tensor(GGML_TYPE_F16, {64, 100, 2, 3}, "k");
    Tensor* v_ = context_.tensor(GGML_TYPE_F16, {32, 100, 2, 3}, "v");
};

TEST_F(FlashAttn, PutsHeadsBeforeTokens) {
    Tensor* mask = context_.tensor(GGML_TYPE_F16, {128, 64, 1, 1});
    const Tensor* y = *build<ops::FlashAttnExt>(
        context_, {.scale = 0.125f, .max_bias = 8, .logit_softcap = 10}, {q_, k_, v_, mask});
    EXPECT_EQ(y->type, GGML_TYPE_F32);
    EXPECT_EQ(extents_of(*y), (Extents{32, 8, 5, 3}));
    EXPECT_EQ(f32_word(*y, 0), 0.125f);
    EXPECT_EQ(f32_word(*y, 1), 8.0f);
    EXPECT_EQ(f32_word(*y, 2), 10.0f);
    EXPECT_EQ(y->op_params[3], GGML_PREC_DEFAULT);
    EXPECT_EQ(y->src[3], mask);
    EXPECT_EQ(cost_of(*y).flops, 2.0 * 8 * 5 * (64 + 32) * 100 * 3);
    EXPECT_TRUE(check_node(*y));
}

TEST_F(FlashAttn, RefusesOperandsThatDoNotMatch) {
    const auto with = [&](Tensor* k, Tensor* v, Tensor* mask) {
        return refusal<ops::FlashAttnExt>(context_, {}, {q_, k, v, mask});
    };
    EXPECT_EQ(with(context_.f32({32, 100, 2, 3}, "k"), v_, nullptr),
              "flash_attn_ext: k 'k' f32[32,100,2,3] and q 'q' f32[64,5,8,3] differ in head size");
    EXPECT_EQ(with(context_.f32({64, 100, 3, 3}, "k"), v_, nullptr),
              "flash_attn_ext: the heads of k 'k' f32[64,100,3,3] do not divide those of q 'q' "
              "f32[64,5,8,3]");
    EXPECT_NE(with(context_.f32({64, 100, 0, 3}, "k"), v_, nullptr), "built");
    EXPECT_NE(with(k_, context_.f32({32, 100, 2, 1}, "v"), nullptr), "built");
    EXPECT_EQ(with(k_, v_, context_.f32({100, 5}, "m")),
              "flash_attn_ext: mask 'm' f32[100,5,1,1] is not F16");
    EXPECT_EQ(refusal<ops::FlashAttnExt>(context_, {.max_bias = 1}, {q_, k_, v_}),
              "flash_attn_ext: max_bias 1 needs a mask");
}

TEST_F(FlashAttn, PrecisionAndSinksAreSetOnFinishedNodes) {
    Tensor* y = *build<ops::FlashAttnExt>(context_, {.scale = 2}, {q_, k_, v_});
    EXPECT_EQ(*ops::FlashAttnExt::precision_of(*y), GGML_PREC_DEFAULT);
    ASSERT_TRUE(ops::FlashAttnExt::set_precision(*y, GGML_PREC_F32));
    EXPECT_EQ(*ops::FlashAttnExt::precision_of(*y), GGML_PREC_F32);
    EXPECT_EQ(y->op_params[3], 10);
    EXPECT_EQ(f32_word(*y, 0), 2.0f);
    EXPECT_EQ(ops::FlashAttnExt::set_precision(*y, 7).error().message,
              "precision: 7 is neither 0 (default) nor 10 (F32)");
    EXPECT_FALSE(ops::FlashAttnExt::set_precision(*q_, 0));
    Tensor* sinks = context_.f32({8});
    ASSERT_TRUE(ops::set_sinks<ops::FlashAttnExt>(*y, sinks));
    EXPECT_EQ(y->src[4], sinks);
}

TEST_F(FlashAttn, GradientCannotBeBuilt) {
    const auto refused = build<ops::FlashAttnBack>(context_, {.masked = 1}, {q_, k_, v_, q_});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::unsupported);
    EXPECT_EQ(
        refused.error().message,
        "flash_attn_back: attention in one step has no gradient; build it from matrix products "
        "and SOFT_MAX where one is needed");
}

}  // namespace
}  // namespace heddle
