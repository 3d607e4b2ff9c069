#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// Roundings of the block formats. They are plain arithmetic, so loops over them vectorise, and no
/// input (infinity and NaN included) is undefined behaviour.
namespace heddle::quant {

/// The nearest integer, ties to even, for |v| <= 4194303. Beyond that some integer.
inline int round_even(float v) {
    // From 1.5 * 2^23 on a float's unit is one, so the adder rounds and the mantissa is the answer.
    const auto bits = std::bit_cast<std::uint32_t>(v + 0x1.8p23f);
    return static_cast<int>(bits & 0x007fffffu) - 0x00400000;
}

/// `v` cut down to an integer in [low, high]; a NaN gives `low`.
inline int truncate_to(float v, int low, int high) {
    const float least = static_cast<float>(low), most = static_cast<float>(high);
    const float bounded = v > least ? v : least;
    return static_cast<int>(bounded < most ? bounded : most);
}

/// The nearest integer, ties away from zero, held within [low, high]; a NaN gives `low`.
inline int round_away_to(float v, int low, int high) {
    // The last float below one half: adding one half itself would lift 0.49999997 to 1.
    return truncate_to(v + std::copysign(0x1.fffffep-2f, v), low, high);
}

inline int clamp_to(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

/// 1 / d, and 0 for the scale of a block of zeros.
inline float inverse(float d) { return d != 0 ? 1 / d : 0; }

}  // namespace heddle::quant
