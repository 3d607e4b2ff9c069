/// Decoders and encoders of the CUDA backend against those of `quant`, bit for bit, on the host:
/// they are the same functions that kernels call.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/type_traits.hpp"
#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/formats/encode.cuh"
#include "core/type.hpp"
#include "ggml-common.h"
#include "quant/codec.hpp"
#include "quant/traits.hpp"

namespace heddle::cuda {
namespace {

std::vector<Type> all_types() {
    std::vector<Type> types;
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<Type>(i);
        if (quant::codec_of(type) != nullptr) types.push_back(type);
    }
    return types;
}

class EveryFormat : public testing::TestWithParam<Type> {};

TEST_P(EveryFormat, DecodesAnyBytesAsQuantDoes) {
    const Type type = GetParam();
    constexpr int kBlocks = 400;
    std::mt19937 random(7);
    std::vector<std::uint8_t> bytes(kBlocks * size_of(type));
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    const std::int64_t n = kBlocks * block_size(type);
    std::vector<float> expected(static_cast<std::size_t>(n));
    quant::codec_of(type)->decode(bytes.data(), expected.data(), n);

    const bool known = dispatch_format(type, [&](auto format) {
        using F = decltype(format);
        EXPECT_EQ(F::block_elements, block_size(type));
        EXPECT_EQ(static_cast<std::size_t>(F::block_bytes), size_of(type));
        int wrong = 0;
        for (std::int64_t i = 0; i < n; i += 8) {
            float y[8];
            decode8_of_row<F>(bytes.data(), i, y);
            for (int j = 0; j < 8; ++j) {
                const float e = expected[static_cast<std::size_t>(i + j)];
                if (std::isnan(e) && std::isnan(y[j])) continue;
                if (std::memcmp(&e, &y[j], 4) != 0 && wrong++ < 5)
                    ADD_FAILURE() << name_of(type) << " element " << i + j << ": " << y[j]
                                  << ", not " << e;
            }
            const int in_block = static_cast<int>(i % F::block_elements) + 3;
            const float one =
                decode<F>(bytes.data() + i / F::block_elements * F::block_bytes, in_block);
            EXPECT_EQ(std::memcmp(&one, &y[3], 4), 0);
        }
    });
    EXPECT_TRUE(known) << name_of(type);
}

TEST_P(EveryFormat, EncodesTheSameBytesAsQuantWhereItEncodes) {
    const Type type = GetParam();
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0, 1);
    dispatch_encoder(type, [&](auto encoder) {
        for (int round = 0; round < 4000; ++round) {
            float x[32];
            const float size = std::exp2(static_cast<float>(round % 60) - 30);
            for (float& value : x) value = normal(random) * size;
            if (round % 17 == 0) x[round % 32] = 0;
            if (round % 97 == 0) std::fill(std::begin(x), std::end(x), 0.0F);
            if (round % 89 == 0) x[5] = -x[4];
            std::vector<std::uint8_t> expected(size_of(type)), block(size_of(type), 0xaa);
            quant::codec_of(type)->encode(x, expected.data(), 32);
            decltype(encoder)::encode(x, block.data());
            ASSERT_EQ(block, expected) << name_of(type) << ", round " << round;
        }
    });
}

INSTANTIATE_TEST_SUITE_P(AllTypes, EveryFormat, testing::ValuesIn(all_types()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Formats, KnowEveryBlockFormatAndThePlainFloats) {
    EXPECT_EQ(all_types().size(), 27U);
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16})
        EXPECT_TRUE(has_format(type));
    EXPECT_FALSE(has_format(GGML_TYPE_I32));
    EXPECT_FALSE(has_encoder(GGML_TYPE_Q4_K));
}

TEST(Formats, DecodePlainHalvesAsQuantDoes) {
    std::vector<std::uint16_t> bits(65536);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    std::vector<float> f16(bits.size()), bf16(bits.size());
    quant::f16_to_f32_row(bits.data(), f16.data(), 65536);
    quant::bf16_to_f32_row(bits.data(), bf16.data(), 65536);
    for (int i = 0; i < 65536; ++i) {
        const float a = decode<Format<GGML_TYPE_F16>>(bits.data(), i);
        const float b = decode<Format<GGML_TYPE_BF16>>(bits.data(), i);
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(std::memcmp(&a, &f16[at], 4), 0) << i;
        EXPECT_EQ(std::memcmp(&b, &bf16[at], 4), 0) << i;
    }
}

// ---- activations -------------------------------------------------------------------------------

/// 32 numbers of all sizes; some blocks have zeros, ties, or what is not finite.
std::array<float, 32> activations(int round) {
    std::mt19937 random(static_cast<unsigned>(round));
    std::normal_distribution<float> normal(0, 1);
    std::array<float, 32> x;
    const float size = std::exp2(static_cast<float>(round % 80) - 40);
    for (float& value : x) value = normal(random) * size;
    if (round % 97 == 0) x.fill(0);
    if (round % 89 == 0) {  // a scale of one: codes are halves away from whole numbers
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 15.5f;
        x[0] = 127;
    }
    if (round % 101 == 0) x[7] = INFINITY;
    return x;
}

TEST(Activations, HaveTheScaleAndCodesOfTheCpu) {
    for (int round = 0; round < 8000; ++round) {
        const auto x = activations(round);
        block_q8_1 expected;
        cpu::encode_q8_1_row(x.data(), &expected, 32);
        std::uint32_t largest = 0;
        for (const float value : x) largest = std::max(largest, magnitude_bits(value));
        const ByteScale scale(largest);
        const float d = f16_to_f32(expected.d), stored = scale.stored(DotOperand::q8_1);
        if (std::isnan(d)) {
            EXPECT_TRUE(std::isnan(stored)) << round;
            continue;
        }
        // The CPU's are infinite where f16 ends.
        ASSERT_EQ(stored, std::isinf(d) ? scale.d : d) << round;
        int sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            ASSERT_EQ(scale.code(x[i]), expected.qs[i]) << round << ", element " << i;
            sum += expected.qs[i];
        }
        const float s = f16_to_f32(expected.s), kept = stored_sum(scale, sum);
        ASSERT_EQ(kept, std::isinf(s) ? static_cast<float>(sum) * scale.d : s) << round;
    }
}

TEST(Activations, AreRoundedToTheDotTypeOfTheirWeights) {
    for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<Type>(number);
        if (cpu::cpu_traits_of(type).vec_dot == nullptr) continue;
        const Type dot = cpu::cpu_traits_of(type).vec_dot_type;
        const DotOperand expected = dot == GGML_TYPE_F32    ? DotOperand::f32
                                    : dot == GGML_TYPE_F16  ? DotOperand::f16
                                    : dot == GGML_TYPE_BF16 ? DotOperand::bf16
                                    : dot == GGML_TYPE_Q8_0 ? DotOperand::q8_0
                                    : dot == GGML_TYPE_Q8_1 ? DotOperand::q8_1
                                                            : DotOperand::q8_f32;
        EXPECT_EQ(dot_operand_of(type), expected) << name_of(type);
    }
}

TEST(Activations, KeepTheirSizeWhereHalvesEnd) {
    EXPECT_EQ(round_to_half(65519.9f), 65504.0f);
    EXPECT_EQ(round_to_half(65520.0f), 65520.0f);
    EXPECT_EQ(round_to_half(-1e30f), -1e30f);
    EXPECT_EQ(round_to_half(1.0f + 0x1p-12f), 1.0f);
}

}  // namespace
}  // namespace heddle::cuda
