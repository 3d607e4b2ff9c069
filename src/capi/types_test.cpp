#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ggml.h"
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

TEST(ThreadPoolParams, MatchIgnoresPaused) {
    ggml_threadpool_params a = ggml_threadpool_params_default(3), b = a;
    b.paused = true;
    EXPECT_TRUE(ggml_threadpool_params_match(&a, &b));
    b.cpumask[7] = true;
    EXPECT_FALSE(ggml_threadpool_params_match(&a, &b));
    EXPECT_EQ(a.poll, 50u);
}

}  // namespace
