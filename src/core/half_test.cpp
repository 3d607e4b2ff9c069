#include "core/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace heddle {
namespace {

/// The value of a finite half by its definition: sign * mantissa * 2^exponent.
double value_of_f16(unsigned bits) {
    const double sign = bits & 0x8000 ? -1 : 1;
    const int exponent = static_cast<int>(bits >> 10 & 31),
              mantissa = static_cast<int>(bits & 1023);
    return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                         : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, EveryFiniteValueConvertsExactlyAndBack) {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        if ((bits >> 10 & 31) == 31) continue;
        const float value = f16_to_f32(static_cast<std::uint16_t>(bits));
        EXPECT_EQ(value, value_of_f16(bits));
        EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0);
        EXPECT_EQ(f32_to_f16(value), bits);
    }
}

TEST(F16, RoundsToTheNearestAndTiesToEven) {
    for (unsigned bits = 0; bits + 1 < 0x7c00; ++bits) {
        const double low = value_of_f16(bits), high = value_of_f16(bits + 1);
        const auto middle = static_cast<float>((low + high) / 2);  // exact in a float
        EXPECT_EQ(f32_to_f16(middle), bits + (bits & 1)) << bits;
        EXPECT_EQ(f32_to_f16(std::nextafterf(middle, 0.0f)), bits) << bits;
        EXPECT_EQ(f32_to_f16(std::nextafterf(middle, 1e9f)), bits + 1) << bits;
    }
}

TEST(F16, EndsInInfinityAndKeepsNotANumber) {
    EXPECT_EQ(f32_to_f16(65519.99f), 0x7bff);
    EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
    EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
    EXPECT_EQ(f32_to_f16(std::bit_cast<float>(0xff800001u)), 0xfe00);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(f16_to_f32(0x7c01)), 0x7fc02000u);
    EXPECT_TRUE(std::isinf(f16_to_f32(0x7c00)));
}

TEST(Bf16, IsTheUpperHalfRoundedToEven) {
    EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
    EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x00000001u)), 0x0000);
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        if ((bits & 0x7fff) > 0x7f80) continue;
        EXPECT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
    }
}

}  // namespace
}  // namespace heddle
