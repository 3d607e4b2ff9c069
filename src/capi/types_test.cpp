#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "ggml-impl.h"
#include "ggml.h"
#include "ggml/op_list.h"
#include "ggml/ops_math.h"
#include "heddle/heddle.h"

namespace {

TEST(TypeTraits, HaveARowForEveryNumber) {
    for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<ggml_type>(number);
        const ggml_type_traits* traits = ggml_get_type_traits(type);
        ASSERT_NE(traits, nullptr);
        EXPECT_EQ(traits->blck_size, ggml_blck_size(type));
        EXPECT_EQ(traits->type_size, ggml_type_size(type));
        EXPECT_STREQ(traits->type_name, ggml_type_name(type));
        EXPECT_EQ(traits->is_quantized, ggml_is_quantized(type));
    }
    EXPECT_EQ(ggml_blck_size(static_cast<ggml_type>(4)), 0);
    EXPECT_STREQ(ggml_type_name(static_cast<ggml_type>(31)),
                 "TYPE_Q4_0_4_4 REMOVED, use Q4_0 with runtime repacking");
}

TEST(TypeTraits, OfferTheConversionsThatTheFormatPromises) {
    const auto has = [](ggml_type type) {
        const ggml_type_traits* traits = ggml_get_type_traits(type);
        return std::string(traits->to_float ? "to " : "") + (traits->from_float_ref ? "from" : "");
    };
    EXPECT_EQ(has(GGML_TYPE_F32), "");
    EXPECT_EQ(has(GGML_TYPE_I32), "");
    for (const ggml_type both :
         {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_XS,
          GGML_TYPE_IQ3_S, GGML_TYPE_NVFP4, GGML_TYPE_TQ1_0}) {
        EXPECT_EQ(has(both), "to from") << ggml_type_name(both);
    }
    for (const ggml_type decode :
         {GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS, GGML_TYPE_IQ1_S, GGML_TYPE_IQ1_M}) {
        EXPECT_EQ(has(decode), "to ") << ggml_type_name(decode);
    }
    EXPECT_EQ(has(GGML_TYPE_Q8_1), "from");
    EXPECT_EQ(has(GGML_TYPE_Q8_K), "");
}

TEST(QuantizeChunk, WritesOnlyItsRows) {
    std::vector<float> values(3 * 32, 1.0f);
    std::vector<unsigned char> blocks(3 * 34, 0xEE);
    EXPECT_EQ(ggml_quantize_chunk(GGML_TYPE_Q8_0, values.data(), blocks.data(), 32, 1, 32, nullptr),
              34u);
    EXPECT_EQ(blocks[0], 0xEE);
    EXPECT_EQ(blocks[34 + 2], 127);
    EXPECT_EQ(blocks[68], 0xEE);
}

TEST(QuantizeChunk, RefusesWhatCannotBe) {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    std::vector<float> values(64, 1.0f);
    std::vector<unsigned char> blocks(512);
    EXPECT_EQ(ggml_quantize_chunk(GGML_TYPE_Q8_0, values.data(), blocks.data(), 5, 1, 32, nullptr),
              0u);
    EXPECT_STREQ(heddle_last_error(),
                 "quantize: 1 rows of 32 values from value 5 on are not whole rows");
    EXPECT_EQ(ggml_quantize_chunk(GGML_TYPE_I32, values.data(), blocks.data(), 0, 1, 32, nullptr),
              0u);
    EXPECT_NE(std::strlen(heddle_last_error()), 0u);
    EXPECT_EQ(ggml_ftype_to_ggml_type(GGML_FTYPE_UNKNOWN), GGML_TYPE_COUNT);
    heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
    EXPECT_TRUE(ggml_quantize_requires_imatrix(GGML_TYPE_IQ1_S));
    EXPECT_FALSE(ggml_quantize_requires_imatrix(GGML_TYPE_IQ1_M));
}

TEST(FileTypes, NameTheTypeOfMostTensors) {
    // Numbers of files and of types are two lists that agree in these, and in no others.
    const std::pair<ggml_ftype, ggml_type> pairs[] = {
        {GGML_FTYPE_ALL_F32, GGML_TYPE_F32},
        {GGML_FTYPE_MOSTLY_F16, GGML_TYPE_F16},
        {GGML_FTYPE_MOSTLY_BF16, GGML_TYPE_BF16},
        {GGML_FTYPE_MOSTLY_Q1_0, GGML_TYPE_Q1_0},
        {GGML_FTYPE_MOSTLY_Q2_0, GGML_TYPE_Q2_0},
        {GGML_FTYPE_MOSTLY_Q4_0, GGML_TYPE_Q4_0},
        {GGML_FTYPE_MOSTLY_Q4_1, GGML_TYPE_Q4_1},
        {GGML_FTYPE_MOSTLY_Q5_0, GGML_TYPE_Q5_0},
        {GGML_FTYPE_MOSTLY_Q5_1, GGML_TYPE_Q5_1},
        {GGML_FTYPE_MOSTLY_Q8_0, GGML_TYPE_Q8_0},
        {GGML_FTYPE_MOSTLY_MXFP4, GGML_TYPE_MXFP4},
        {GGML_FTYPE_MOSTLY_NVFP4, GGML_TYPE_NVFP4},
        {GGML_FTYPE_MOSTLY_Q2_K, GGML_TYPE_Q2_K},
        {GGML_FTYPE_MOSTLY_Q3_K, GGML_TYPE_Q3_K},
        {GGML_FTYPE_MOSTLY_Q4_K, GGML_TYPE_Q4_K},
        {GGML_FTYPE_MOSTLY_Q5_K, GGML_TYPE_Q5_K},
        {GGML_FTYPE_MOSTLY_Q6_K, GGML_TYPE_Q6_K},
        {GGML_FTYPE_MOSTLY_IQ1_S, GGML_TYPE_IQ1_S},
        {GGML_FTYPE_MOSTLY_IQ1_M, GGML_TYPE_IQ1_M},
        {GGML_FTYPE_MOSTLY_IQ2_XXS, GGML_TYPE_IQ2_XXS},
        {GGML_FTYPE_MOSTLY_IQ2_XS, GGML_TYPE_IQ2_XS},
        {GGML_FTYPE_MOSTLY_IQ2_S, GGML_TYPE_IQ2_S},
        {GGML_FTYPE_MOSTLY_IQ3_XXS, GGML_TYPE_IQ3_XXS},
        {GGML_FTYPE_MOSTLY_IQ3_S, GGML_TYPE_IQ3_S},
        {GGML_FTYPE_MOSTLY_IQ4_NL, GGML_TYPE_IQ4_NL},
        {GGML_FTYPE_MOSTLY_IQ4_XS, GGML_TYPE_IQ4_XS}};
    for (const auto& [file, type] : pairs) EXPECT_EQ(ggml_ftype_to_ggml_type(file), type) << file;
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    EXPECT_EQ(ggml_ftype_to_ggml_type(GGML_FTYPE_MOSTLY_Q4_1_SOME_F16), GGML_TYPE_COUNT);
    EXPECT_STREQ(heddle_last_error(), "file type 4 does not name one element type");
    heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
}

TEST(HalfRows, AreConvertedThereAndBackAndNotFromNowhere) {
    const std::vector<float> values{0, 1, -2.5f, 65504, 0.125f};
    const auto n = static_cast<std::int64_t>(values.size());
    std::vector<ggml_fp16_t> halves(values.size());
    std::vector<ggml_bf16_t> brains(values.size());
    std::vector<float> back(values.size());
    ggml_fp32_to_fp16_row(values.data(), halves.data(), n);
    ggml_fp16_to_fp32_row(halves.data(), back.data(), n);
    EXPECT_EQ(back, values);
    for (const auto convert : {ggml_fp32_to_bf16_row, ggml_fp32_to_bf16_row_ref}) {
        convert(values.data(), brains.data(), n);
        ggml_bf16_to_fp32_row(brains.data(), back.data(), n);
        EXPECT_EQ(back, (std::vector<float>{0, 1, -2.5f, 65536, 0.125f})) << "eight bits";
    }
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_fp32_to_fp16_row(nullptr, halves.data(), n);
    EXPECT_STREQ(heddle_last_error(), "ggml_fp32_to_fp16_row: the source is NULL");
    ggml_fp16_to_fp32_row(halves.data(), nullptr, n);
    EXPECT_STREQ(heddle_last_error(), "ggml_fp16_to_fp32_row: the destination is NULL");
    ggml_bf16_to_fp32_row(nullptr, back.data(), n);
    EXPECT_STREQ(heddle_last_error(), "ggml_bf16_to_fp32_row: the source is NULL");
    ggml_fp32_to_bf16_row(nullptr, brains.data(), n);
    EXPECT_STREQ(heddle_last_error(), "ggml_fp32_to_bf16_row: the source is NULL");
    ggml_fp32_to_bf16_row_ref(values.data(), nullptr, n);
    EXPECT_STREQ(heddle_last_error(), "ggml_fp32_to_bf16_row_ref: the destination is NULL");
    heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
}

TEST(RowData, IsJudgedByItsNumbers) {
    std::vector<float> values{1, 2, 3};
    EXPECT_TRUE(ggml_validate_row_data(GGML_TYPE_F32, values.data(), 12));
    values[1] = NAN;
    EXPECT_FALSE(ggml_validate_row_data(GGML_TYPE_F32, values.data(), 12));
    EXPECT_TRUE(ggml_validate_row_data(GGML_TYPE_F32, nullptr, 0));
    EXPECT_FALSE(ggml_validate_row_data(GGML_TYPE_F32, nullptr, 12));
    EXPECT_STREQ(heddle_last_error(), "validate: the data is NULL");
    EXPECT_FALSE(ggml_validate_row_data(GGML_TYPE_F32, values.data(), 11)) << "no whole numbers";
}

TEST(OpNames, AreThereForEveryNumberAndForNone) {
    EXPECT_STREQ(ggml_op_name(GGML_OP_ADD), "ADD");
    EXPECT_STREQ(ggml_op_symbol(GGML_OP_ADD), "x+y");
    EXPECT_STREQ(ggml_op_name(static_cast<ggml_op>(9999)), "unknown op");
    EXPECT_STREQ(ggml_op_symbol(static_cast<ggml_op>(9999)), "unknown op");
    EXPECT_STREQ(ggml_unary_op_name(GGML_UNARY_OP_GELU), "GELU");
    EXPECT_STREQ(ggml_glu_op_name(GGML_GLU_OP_SWIGLU), "SWIGLU");
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_context* context = ggml_init({1 << 16, nullptr, true});
    ggml_tensor* x = ggml_new_tensor_1d(context, GGML_TYPE_F32, 4);
    EXPECT_EQ(ggml_get_unary_op(ggml_gelu(context, x)), GGML_UNARY_OP_GELU);
    EXPECT_EQ(ggml_get_glu_op(ggml_swiglu(context, x)), GGML_GLU_OP_SWIGLU);
    EXPECT_STREQ(ggml_op_desc(ggml_gelu(context, x)), "GELU");
    EXPECT_EQ(ggml_get_unary_op(x), GGML_UNARY_OP_COUNT);
    EXPECT_STREQ(heddle_last_error(), "'' f32[4,1,1,1] is not a UNARY node");
    EXPECT_EQ(ggml_get_glu_op(x), GGML_GLU_OP_COUNT);
    EXPECT_STREQ(heddle_last_error(), "'' f32[4,1,1,1] is not a GLU node");
    ggml_free(context);
    heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
}

TEST(ThreadPoolParams, MatchOnlyIfAllOfThemDo) {
    const ggml_threadpool_params a = ggml_threadpool_params_default(3);
    const auto matches_with = [&](const auto& change) {
        ggml_threadpool_params b = a;
        change(b);
        return ggml_threadpool_params_match(&a, &b);
    };
    EXPECT_TRUE(matches_with([](auto&) {}));
    EXPECT_FALSE(matches_with([](auto& b) { b.n_threads = 4; }));
    EXPECT_FALSE(matches_with([](auto& b) { b.prio = GGML_SCHED_PRIO_HIGH; }));
    EXPECT_FALSE(matches_with([](auto& b) { b.poll = 0; }));
    EXPECT_FALSE(matches_with([](auto& b) { b.strict_cpu = !b.strict_cpu; }));
}

TEST(ThreadPoolParams, MatchIgnoresPaused) {
    ggml_threadpool_params a = ggml_threadpool_params_default(3), b = a;
    b.paused = true;
    EXPECT_TRUE(ggml_threadpool_params_match(&a, &b));
    b.cpumask[7] = true;
    EXPECT_FALSE(ggml_threadpool_params_match(&a, &b));
    EXPECT_EQ(a.poll, 50u);
}

}  // namespace
