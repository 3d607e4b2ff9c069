#pragma once

#include <bit>
#include <cstdint>

namespace heddle {

/// IEEE binary16 and bfloat16 as bit patterns. Rounding is to nearest even, subnormals are kept,
/// and every function gives the same bits on every machine.

/// Exact. A NaN comes back quiet, with its sign and payload.
constexpr float f16_to_f32(std::uint16_t bits) {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1f) {
        const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
        return std::bit_cast<float>(sign | 0x7f800000u | quiet | mantissa << 13);
    }
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    // A subnormal is mantissa * 2^-24, which a float holds exactly.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// Rounds to nearest even; 65520 and above become infinity. Every NaN becomes the quiet NaN 0x7e00
/// with its sign.
constexpr std::uint16_t f32_to_f16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u)
        return sign | 0x7c00u;      // 65520, the first that rounds to infinity
    if (magnitude < 0x38800000u) {  // below 2^-14: a subnormal or zero
        // Adding 0.5 leaves units of 2^-24 in the low bits, rounded to nearest even by the adder.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return sign |
               static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u);
    }
    const std::uint32_t odd = magnitude >> 13 & 1;
    const std::uint32_t rounded = magnitude - (112u << 23) + 0xfffu + odd;
    return sign | static_cast<std::uint16_t>(rounded >> 13);
}

/// Exact.
constexpr float bf16_to_f32(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Rounds to nearest even. A NaN stays one: its quiet bit is set.
constexpr std::uint16_t f32_to_bf16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
    return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace heddle
