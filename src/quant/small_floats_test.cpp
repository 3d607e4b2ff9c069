#include "quant/small_floats.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/half.hpp"
#include "quant/rounding.hpp"
#include "quant/test_support.hpp"

namespace heddle::quant {
namespace {

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(Halves, ReadEdgeCasesExactly) {
    for (const auto& row : read_table("f16_to_f32.tsv"))
        EXPECT_EQ(bits_of(f16_to_f32(static_cast<std::uint16_t>(from_hex(row[0])))),
                  from_hex(row[1]))
            << "f16 " << row[0];
}

TEST(Halves, RoundEdgeCasesToNearestEven) {
    for (const auto& row : read_table("f32_to_f16_bf16.tsv")) {
        const float value = std::bit_cast<float>(from_hex(row[0]));
        EXPECT_EQ(f32_to_f16(value), from_hex(row[1])) << "f32 " << row[0] << " to f16";
        EXPECT_EQ(f32_to_bf16(value), from_hex(row[2])) << "f32 " << row[0] << " to bf16";
    }
}

TEST(Halves, SurviveARoundTripInEveryPattern) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        if (std::isfinite(f16_to_f32(half))) {
            ASSERT_EQ(f32_to_f16(f16_to_f32(half)), half);
        }
        if (std::isfinite(bf16_to_f32(half))) {
            ASSERT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
        }
    }
}

TEST(SmallFloats, E8m0DecodesEveryCode) {
    const auto rows = read_table("e8m0.tsv");
    ASSERT_EQ(rows.size(), 256u);
    for (const auto& row : rows) {
        const auto code = static_cast<std::uint8_t>(std::stoi(row[0]));
        EXPECT_EQ(bits_of(e8m0_to_f32(code)), from_hex(row[1])) << "code " << row[0];
        EXPECT_EQ(bits_of(e8m0_to_f32_half(code)), from_hex(row[2])) << "code " << row[0];
    }
}

TEST(SmallFloats, Ue4m3DecodesEveryCode) {
    const auto rows = read_table("ue4m3_decode.tsv");
    ASSERT_EQ(rows.size(), 256u);
    for (const auto& row : rows) {
        const auto code = static_cast<std::uint8_t>(std::stoi(row[0]));
        EXPECT_EQ(bits_of(ue4m3_to_f32_half(code)), from_hex(row[1])) << "code " << row[0];
    }
}

TEST(SmallFloats, Ue4m3RoundsHalvesUpAndSaturates) {
    for (const auto& row : read_table("ue4m3_encode.tsv"))
        EXPECT_EQ(f32_to_ue4m3(std::bit_cast<float>(from_hex(row[0]))), std::stoi(row[1]))
            << row[2];
}

TEST(Rounding, EvenAgreesWithTheStandardLibrary) {
    for (int i = -20000; i <= 20000; ++i) {
        const float value = static_cast<float>(i) * 0.125f;
        ASSERT_EQ(round_even(value), static_cast<int>(std::nearbyint(value))) << value;
    }
    EXPECT_EQ(round_even(4194303.0f), 4194303);
    EXPECT_EQ(round_even(-4194303.0f), -4194303);
}

TEST(Rounding, AwayAgreesWithTheStandardLibrary) {
    for (int i = -20000; i <= 20000; ++i) {
        const float middle = static_cast<float>(i) * 0.125f;
        for (const float value :
             {std::nextafter(middle, -9e9f), middle, std::nextafter(middle, 9e9f)})
            ASSERT_EQ(round_away_to(value, -9000, 9000), static_cast<int>(std::round(value)))
                << value;
    }
}

TEST(Rounding, HoldsWhatIsNoNumberWithinTheLimits) {
    EXPECT_EQ(truncate_to(NAN, 0, 15), 0);
    EXPECT_EQ(truncate_to(INFINITY, 0, 15), 15);
    EXPECT_EQ(truncate_to(-INFINITY, 0, 15), 0);
    EXPECT_EQ(round_away_to(1e30f, -127, 127), 127);
}

}  // namespace
}  // namespace heddle::quant
