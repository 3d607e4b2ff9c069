#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/kernels/test_support.hpp"
#include "ggml-common.h"

/// Encoders and decoders in vectors against what formats are defined by: the codecs, or, for the
/// second operands of dot products, which round ties to even, a plain loop.
namespace heddle::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Blocks of all kinds in one row: ordinary ones, and between them such that are all zeros of
/// either sign, have their largest magnitude twice, are tiny, huge, of one sign, infinite or NaN.
std::vector<float> odd_row(std::size_t blocks, std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> row(blocks * size);
    for (float& value : row) value = normal(random);
    for (std::size_t b = 0; b < blocks; ++b) {
        float* x = row.data() + b * size;
        switch ((b + seed) % 12) {
            case 1:
                std::fill_n(x, size, 0.0f);
                break;
            case 2:
                for (std::size_t i = 0; i < size; ++i) x[i] = i % 3 == 0 ? -0.0f : 0.0f;
                break;
            case 3:
                x[5] = -50, x[9] = 50;
                break;
            case 4:
                x[5] = 50, x[9] = -50;
                break;
            case 5:
                for (std::size_t i = 0; i < size; ++i) x[i] *= 1e-20f;
                break;
            case 6:
                for (std::size_t i = 0; i < size; ++i) x[i] *= 1e36f;
                break;
            case 7:
                for (std::size_t i = 0; i < size; ++i) x[i] = std::max(x[i], 0.0f);
                x[3] = -0.0f;
                break;
            case 8:
                for (std::size_t i = 0; i < size; ++i) x[i] = -std::fabs(x[i]) - 1;
                break;
            default:
                break;
        }
    }
    return row;
}

std::vector<float> unfinished_row(std::size_t blocks, unsigned seed) {
    std::vector<float> row = odd_row(blocks, 32, seed);
    const float bad[] = {kNan, kInfinity, -kInfinity, -kNan};
    for (std::size_t b = 0; b < blocks; b += 3) row[32 * b + (7 * b + seed) % 32] = bad[b % 4];
    return row;
}

using Encoder = void (*)(const float*, void*, std::int64_t);

void expect_bits_of_codec(Type type, Encoder encode, const std::vector<float>& row) {
    const auto n = static_cast<std::int64_t>(row.size());
    std::vector<std::byte> expected(row_size(type, n)), actual(expected.size() + 1);
    quant::codec_of(type)->encode(row.data(), expected.data(), n);
    for_each_target([&] {
        std::fill(actual.begin(), actual.end(), std::byte{0x5A});
        encode(row.data(), actual.data(), n);
        const auto differing = std::mismatch(expected.begin(), expected.end(), actual.begin());
        ASSERT_EQ(differing.first, expected.end())
            << name_of(type) << " of " << n << ": byte " << differing.first - expected.begin();
        ASSERT_EQ(actual.back(), std::byte{0x5A}) << "beyond the row";
    });
}

constexpr std::pair<Type, Encoder> kEncoders[] = {{GGML_TYPE_Q4_0, encode_q4_0_row},
                                                  {GGML_TYPE_Q4_1, encode_q4_1_row},
                                                  {GGML_TYPE_Q5_0, encode_q5_0_row},
                                                  {GGML_TYPE_Q5_1, encode_q5_1_row},
                                                  {GGML_TYPE_IQ4_NL, encode_iq4_nl_row}};

TEST(CpuEncode, GivesTheBitsOfTheCodecInRowsOfAnyLength) {
    for (const auto& [type, encode] : kEncoders) {
        for (std::size_t blocks = 1; blocks <= 70; blocks += blocks < 9 ? 1 : 13) {
            for (const unsigned seed : {0u, 1u, 5u}) {
                expect_bits_of_codec(type, encode, odd_row(blocks, 32, seed));
            }
        }
        expect_bits_of_codec(type, encode, odd_row(3000, 32, 7));
    }
}

TEST(CpuEncode, GivesTheBitsOfTheCodecWhereValuesAreNotFinite) {
    for (const auto& [type, encode] : kEncoders) {
        expect_bits_of_codec(type, encode, unfinished_row(40, 0));
        expect_bits_of_codec(type, encode, unfinished_row(41, 3));
    }
}

TEST(CpuDecode, GivesTheBitsOfTheCodec) {
    std::mt19937 random(3);
    for (const quant::Codec& codec : quant::all_codecs()) {
        SCOPED_TRACE(name_of(codec.type));
        const std::int64_t block = block_size(codec.type), n = 11 * block;
        std::vector<std::byte> blocks(row_size(codec.type, n));
        for (int round = 0; round < 20; ++round) {
            // Any bytes are good, but for NaN, whose bits may differ.
            for (std::byte& byte : blocks) byte = static_cast<std::byte>(random());
            std::vector<float> expected(static_cast<std::size_t>(n)), actual(expected.size() + 1);
            codec.decode(blocks.data(), expected.data(), n);
            for_each_target([&] {
                const DecodeRow decode = exact_decode_of(codec.type);
                if (decode == nullptr) return;
                actual.back() = 0.25f;
                decode(blocks.data(), actual.data(), n);
                for (std::size_t i = 0; i < expected.size(); ++i) {
                    if (std::isnan(expected[i])) {
                        ASSERT_TRUE(std::isnan(actual[i])) << i;
                    } else {
                        ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]),
                                  std::bit_cast<std::uint32_t>(expected[i]))
                            << i << ": " << actual[i] << ", not " << expected[i];
                    }
                }
                ASSERT_EQ(actual.back(), 0.25f) << "beyond the row";
            });
        }
    }
}

// ---- second operands of dot products -----------------------------------------------------------

/// q8_0, and q8_1 with the sum of codes.
template <class Block>
Block plain_bytes(const float* x) {
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float d = largest / 127, r = d != 0 ? 1 / d : 0;
    Block block;
    int sum = 0;
    for (int i = 0; i < 32; ++i) {
        const int code = static_cast<int>(std::nearbyint(x[i] * r));
        block.qs[i] = static_cast<std::int8_t>(code);
        sum += code;
    }
    block.d = f32_to_f16(d);
    if constexpr (requires { block.s; }) block.s = f32_to_f16(static_cast<float>(sum) * d);
    return block;
}

template <class Block>
void expect_plain_bytes(Encoder encode, std::size_t count) {
    const std::vector<float> row = odd_row(count, 32, static_cast<unsigned>(count));
    for_each_target([&] {
        std::vector<Block> blocks(count + 1);
        std::memset(static_cast<void*>(blocks.data()), 0x5A, (count + 1) * sizeof(Block));
        encode(row.data(), blocks.data(), static_cast<std::int64_t>(row.size()));
        for (std::size_t b = 0; b < count; ++b) {
            const Block expected = plain_bytes<Block>(row.data() + 32 * b);
            ASSERT_EQ(std::memcmp(&blocks[b], &expected, sizeof(Block)), 0)
                << "block " << b << " of " << count;
        }
        ASSERT_EQ(blocks[count].qs[0], 0x5A) << "beyond the row";
    });
}

TEST(CpuEncode, MakesBytesByTheDefinitionInRowsOfAnyLength) {
    for (const std::size_t count : {1u, 2u, 3u, 4u, 5u, 31u, 32u, 33u, 67u, 500u}) {
        expect_plain_bytes<block_q8_0>(encode_q8_0_row, count);
        expect_plain_bytes<block_q8_1>(encode_q8_1_row, count);
    }
}

TEST(CpuEncode, MakesSuperBlocksByTheDefinitionInRowsOfAnyLength) {
    for (const std::size_t count : {1u, 2u, 7u, 8u, 9u, 30u}) {
        const std::vector<float> row = odd_row(count, QK_K, static_cast<unsigned>(count));
        for_each_target([&] {
            std::vector<block_q8_K> blocks(count);
            encode_q8_K_row(row.data(), blocks.data(), static_cast<std::int64_t>(row.size()));
            for (std::size_t b = 0; b < count; ++b) {
                const float* x = row.data() + QK_K * b;
                const auto [low, high] = std::minmax_element(x, x + QK_K);
                const float extreme = -*low > *high ? *low : *high;
                const float r = extreme != 0 ? -127 / extreme : 0;
                ASSERT_EQ(blocks[b].d, r != 0 ? 1 / r : 0) << "block " << b << " of " << count;
                int sums[QK_K / 16] = {};
                for (int i = 0; i < QK_K; ++i) {
                    const int code = static_cast<int>(std::nearbyint(x[i] * r));
                    ASSERT_EQ(blocks[b].qs[i], code) << "block " << b << ", element " << i;
                    sums[i / 16] += code;
                }
                for (int g = 0; g < QK_K / 16; ++g) ASSERT_EQ(blocks[b].bsums[g], sums[g]);
            }
        });
    }
}

}  // namespace
}  // namespace heddle::cpu
