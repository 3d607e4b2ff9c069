#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// How the K formats keep scales of six bits in twelve bytes.
namespace heddle::quant {

/// The sixteen scales of a q3_K block: low nibbles in the first eight bytes, the high pairs of bits
/// in the last four.
inline std::array<std::uint8_t, 16> unpack_q3_scales(const std::uint8_t (&packed)[12]) {
    std::array<std::uint8_t, 16> scales;
    for (std::size_t j = 0; j < 16; ++j) {
        const unsigned low = j < 8 ? packed[j] & 15u : packed[j - 8] >> 4;
        const unsigned high = packed[8 + j % 4] >> 2 * (j / 4) & 3u;
        scales[j] = static_cast<std::uint8_t>(low | high << 4);
    }
    return scales;
}

inline void pack_q3_scales(const std::array<std::uint8_t, 16>& scales, std::uint8_t (&packed)[12]) {
    for (std::uint8_t& byte : packed) byte = 0;
    for (std::size_t j = 0; j < 16; ++j) {
        const unsigned low = scales[j] & 15u, high = scales[j] >> 4 & 3u;
        packed[j % 8] = static_cast<std::uint8_t>(packed[j % 8] | low << (j < 8 ? 0 : 4));
        packed[8 + j % 4] = static_cast<std::uint8_t>(packed[8 + j % 4] | high << 2 * (j / 4));
    }
}

/// Scales and minima of the eight sub-blocks of a q4_K or q5_K block.
struct ScalesAndMinima {
    std::array<std::uint8_t, 8> scale;
    std::array<std::uint8_t, 8> minimum;
};

/// The first four scales and minima are the low six bits of bytes 0-3 and 4-7; the others have
/// their low nibbles in bytes 8-11 and their high pairs of bits on top of the first four.
inline ScalesAndMinima unpack_scales_and_minima(const std::uint8_t (&packed)[12]) {
    ScalesAndMinima all;
    for (std::size_t j = 0; j < 4; ++j) {
        all.scale[j] = packed[j] & 63;
        all.minimum[j] = packed[j + 4] & 63;
        const unsigned both = packed[j + 8];
        all.scale[j + 4] = static_cast<std::uint8_t>((both & 15) | packed[j] >> 6 << 4);
        all.minimum[j + 4] = static_cast<std::uint8_t>(both >> 4 | packed[j + 4] >> 6 << 4);
    }
    return all;
}

inline void pack_scales_and_minima(const ScalesAndMinima& all, std::uint8_t (&packed)[12]) {
    for (std::size_t j = 0; j < 4; ++j) {
        const unsigned scale = all.scale[j + 4], minimum = all.minimum[j + 4];
        packed[j] = static_cast<std::uint8_t>((all.scale[j] & 63) | (scale >> 4 & 3) << 6);
        packed[j + 4] = static_cast<std::uint8_t>((all.minimum[j] & 63) | (minimum >> 4 & 3) << 6);
        packed[j + 8] = static_cast<std::uint8_t>((scale & 15) | (minimum & 15) << 4);
    }
}

}  // namespace heddle::quant
