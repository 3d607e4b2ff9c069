#include "backends/cpu/dot/convert.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/test_support.hpp"
#include "ggml-common.h"
#include "quant/test_support.hpp"

namespace heddle::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CpuConvert, WidensEveryHalf) {
    std::vector<std::uint16_t> halves(65536);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
    std::vector<float> wide(halves.size());
    for_each_target([&] {
        f16_to_f32_row(halves.data(), wide.data(), 65536);
        for (std::size_t i = 0; i < halves.size(); ++i) {
            const float expected = f16_to_f32(halves[i]);
            if (std::isnan(expected)) {
                ASSERT_TRUE(std::isnan(wide[i])) << i;
            } else {
                ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]),
                          std::bit_cast<std::uint32_t>(expected))
                    << i;
            }
        }
        bf16_to_f32_row(halves.data(), wide.data(), 65536);
        for (std::size_t i = 0; i < halves.size(); ++i) {
            const float expected = bf16_to_f32(halves[i]);
            ASSERT_TRUE(wide[i] == expected || (std::isnan(wide[i]) && std::isnan(expected))) << i;
        }
    });
}

/// Values around every rounding edge.
std::vector<float> edges() {
    std::vector<float> values{0.0f,      -0.0f,      65504.0f, 65519.99f, 65520.0f, -65520.0f,
                              kInfinity, -kInfinity, kNan,     0x1p-24f,  0x1p-25f, 0x1.8p-25f,
                              0x1p-126f, 0x1p-149f,  3.4e38f,  -3.4e38f};
    for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
        for (const std::uint32_t mantissa : {0x0u, 0xfffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu,
                                             0x8000u, 0x8001u, 0x18000u, 0x7fffffu}) {
            values.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
        }
    }
    return values;
}

TEST(CpuConvert, RoundsToNearestEvenAsTheLibraryDoes) {
    const std::vector<float> values = edges();
    const auto n = static_cast<std::int64_t>(values.size());
    std::vector<std::uint16_t> halves(values.size());
    std::vector<float> rounded(values.size());
    for_each_target([&] {
        f32_to_f16_row(values.data(), halves.data(), n);
        round_to_f16_row(values.data(), rounded.data(), n);
        for (std::size_t i = 0; i < values.size(); ++i) {
            ASSERT_EQ(halves[i], f32_to_f16(values[i])) << values[i];
            if (std::isnan(values[i])) continue;
            ASSERT_EQ(rounded[i], f16_to_f32(halves[i])) << values[i];
        }
        f32_to_bf16_row(values.data(), halves.data(), n);
        round_to_bf16_row(values.data(), rounded.data(), n);
        for (std::size_t i = 0; i < values.size(); ++i) {
            ASSERT_EQ(halves[i], f32_to_bf16(values[i])) << values[i];
            if (std::isnan(values[i])) continue;
            ASSERT_EQ(rounded[i], bf16_to_f32(halves[i])) << values[i];
        }
    });
}

TEST(CpuConvert, WritesAsManyAsAsked) {
    const std::vector<float> values(80, 1.0f);
    for_each_target([&] {
        for (std::int64_t n = 0; n <= 70; ++n) {
            std::vector<std::uint16_t> halves(80, 0x1234);
            f32_to_f16_row(values.data() + 1, halves.data() + 1, n);
            for (std::int64_t i = 0; i < 79; ++i) {
                ASSERT_EQ(halves[static_cast<std::size_t>(i + 1)], i < n ? 0x3c00 : 0x1234) << n;
            }
        }
    });
}

TEST(CpuConvert, CutsFractionsOff) {
    const float values[] = {1.9f, -1.9f, 0.5f, 3e9f, -3e9f, kNan, kInfinity};
    std::int32_t numbers[7];
    f32_to_i32_row(values, numbers, 7);
    EXPECT_EQ((std::vector<std::int32_t>(numbers, numbers + 7)),
              (std::vector<std::int32_t>{1, -1, 0, INT32_MAX, INT32_MIN, 0, INT32_MAX}));
}

TEST(CpuDecode, TakesBlocksOfAllTypesOfWeights) {
    for (const Type type :
         {GGML_TYPE_Q1_0,   GGML_TYPE_Q2_0,    GGML_TYPE_Q4_0,    GGML_TYPE_Q4_1,
          GGML_TYPE_Q5_0,   GGML_TYPE_Q5_1,    GGML_TYPE_Q8_0,    GGML_TYPE_Q2_K,
          GGML_TYPE_Q3_K,   GGML_TYPE_Q4_K,    GGML_TYPE_Q5_K,    GGML_TYPE_Q6_K,
          GGML_TYPE_TQ1_0,  GGML_TYPE_TQ2_0,   GGML_TYPE_MXFP4,   GGML_TYPE_NVFP4,
          GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS,  GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS,
          GGML_TYPE_IQ2_S,  GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ3_S,   GGML_TYPE_IQ1_S,
          GGML_TYPE_IQ1_M}) {
        EXPECT_NE(exact_decode_of(type), nullptr) << name_of(type);
    }
}

TEST(CpuEncode, PutsValuesWithinHalfAStepAndSumsTheCodes) {
    const auto x = quant::read_floats("input_x.f32");
    for_each_target([&] {
        std::vector<block_q8_0> q0(64);
        std::vector<block_q8_1> q1(64);
        std::vector<block_q8_K> qk(8);
        encode_q8_0_row(x.data(), q0.data(), 2048);
        encode_q8_1_row(x.data(), q1.data(), 2048);
        encode_q8_K_row(x.data(), qk.data(), 2048);
        for (std::size_t i = 0; i < 2048; ++i) {
            const block_q8_0& block = q0[i / 32];
            const float d = f16_to_f32(block.d);
            // The code was chosen with the scale before it was rounded to a half.
            ASSERT_NEAR(x[i], d * block.qs[i % 32], d * (0.5 + 127 * 0x1p-11)) << i;
            ASSERT_EQ(q1[i / 32].qs[i % 32], block.qs[i % 32]);
            const block_q8_K& super = qk[i / 256];
            ASSERT_NEAR(x[i], super.d * super.qs[i % 256], std::abs(super.d) * 0.50001) << i;
        }
        for (const block_q8_1& block : q1) {
            int sum = 0;
            for (const int code : block.qs) sum += code;
            const float s = f16_to_f32(block.s);
            ASSERT_NEAR(s, f16_to_f32(block.d) * static_cast<float>(sum), std::abs(s) * 0x1p-9);
        }
        for (const block_q8_K& block : qk) {
            for (std::size_t g = 0; g < 16; ++g) {
                int sum = 0;
                for (std::size_t j = 0; j < 16; ++j) sum += block.qs[16 * g + j];
                ASSERT_EQ(block.bsums[g], sum);
            }
        }
    });
}

TEST(CpuEncode, MakesZeroOfZerosAndShowsWhatIsNotFinite) {
    for_each_target([&] {
        std::vector<float> x(256, 0.0f);
        block_q8_0 q0[8];
        block_q8_K qk;
        encode_q8_0_row(x.data(), q0, 256);
        encode_q8_K_row(x.data(), &qk, 256);
        EXPECT_EQ(q0[0].d, 0);
        EXPECT_EQ(qk.d, 0);
        EXPECT_EQ(qk.bsums[3], 0);
        for (const float bad : {kNan, kInfinity, -kInfinity}) {
            x[40] = bad;
            encode_q8_0_row(x.data(), q0, 256);
            encode_q8_K_row(x.data(), &qk, 256);
            EXPECT_EQ(q0[0].d, 0);
            EXPECT_TRUE(std::isnan(f16_to_f32(q0[1].d))) << bad;
            EXPECT_TRUE(std::isnan(qk.d)) << bad;
        }
    });
}

}  // namespace
}  // namespace heddle::cpu
