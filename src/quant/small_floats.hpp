#pragma once

#include <array>
#include <bit>
#include <cstdint>

/// The floats of eight and four bits that FP4 blocks are made of.
namespace heddle::quant {

/// Twice the value of each E2M1 code, so that the table is whole numbers; bit 3 is the sign. The
/// scales below are halved to match.
inline constexpr std::array<float, 16> kDoubledE2m1{0, 1,  2,  3,  4,  6,  8,  12,
                                                    0, -1, -2, -3, -4, -6, -8, -12};

/// 2^(code - 127). Code 255 is 2^128 and so infinite; nothing here calls it NaN.
constexpr float e8m0_to_f32(std::uint8_t code) {
    const std::uint32_t bits = code == 0 ? 0x00400000u : std::uint32_t{code} << 23;
    return std::bit_cast<float>(bits);
}

/// Half of `e8m0_to_f32`, finite for every code.
constexpr float e8m0_to_f32_half(std::uint8_t code) {
    const std::uint32_t bits = code < 2 ? 0x00200000u << code : (code - 1u) << 23;
    return std::bit_cast<float>(bits);
}

/// Half of the value of an unsigned E4M3 code. 0x7f, the standard's NaN, is 0; bit 7 is ignored
/// otherwise.
constexpr float ue4m3_to_f32_half(std::uint8_t code) {
    if (code == 0 || code == 0x7f) return 0;
    const int exponent = code >> 3 & 15;
    const float mantissa = static_cast<float>(code & 7);
    if (exponent == 0) return mantissa * 0x1p-10f;
    const float power = std::bit_cast<float>(static_cast<std::uint32_t>(exponent - 8 + 127) << 23);
    return (1 + mantissa / 8) * power;
}

/// The unsigned E4M3 code for `value`: halves round up, everything from 248 on becomes 448 and
/// everything that is not above zero becomes 0.
constexpr std::uint8_t f32_to_ue4m3(float value) {
    constexpr std::uint8_t kLargest = 0x7e;
    if (!(value > 0)) return 0;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    int exponent = static_cast<int>(bits >> 23) - 127 + 7;
    if (exponent >= 15) return kLargest;
    if (exponent <= 0) {  // the code is a subnormal: units of 2^-9
        // NOLINTNEXTLINE(bugprone-incorrect-roundings): the format rounds so, to the last bit
        const int mantissa = static_cast<int>(value * 512 + 0.5f);
        return static_cast<std::uint8_t>(mantissa < 7 ? mantissa : 7);
    }
    int mantissa = static_cast<int>((bits >> 20 & 7) + (bits >> 19 & 1));
    if (mantissa == 8) {
        mantissa = 0;
        if (++exponent >= 15) return kLargest;
    }
    return static_cast<std::uint8_t>(exponent << 3 | mantissa);
}

}  // namespace heddle::quant
