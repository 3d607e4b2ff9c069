#pragma once

#include "backends/cuda/formats/codebooks.cuh"
#include "backends/cuda/formats/format.cuh"

/// Formats that choose groups of elements from a codebook.
namespace heddle::cuda {

/// Eight signs of which seven are stored: the number of negative elements is even.
HEDDLE_HD unsigned even_signs(unsigned stored) {
    unsigned parity = stored ^ stored >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return stored | (parity & 1u) << 7;
}

/// y = step * the elements of a row of a codebook, with signs.
HEDDLE_HD void scale_row(std::uint64_t row, unsigned signs, float step, float (&y)[8]) {
#pragma unroll
    for (int j = 0; j < 8; ++j)
        y[j] = with_sign(mul(step, static_cast<float>(byte_of(row, j))), signs, j);
}

/// d * (0.5 + scale) * quarter.
HEDDLE_HD float grid_step(float d, unsigned scale, float factor) {
    return mul(mul(d, add(0.5f, static_cast<float>(scale))), factor);
}

template <>
struct Format<GGML_TYPE_IQ2_XXS> {
    static constexpr int block_elements = 256, block_bytes = 66;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const Bytes record = block + 2 + i / 32 * 8;
        const int group = i % 32 / 8;
        const std::uint32_t word = load32(record + 4);
        scale_row(iq2_xxs_row(record[group]), even_signs(word >> 7 * group & 127u),
                  grid_step(load_half(block), word >> 28, 0.25f), y);
    }
};

template <>
struct Format<GGML_TYPE_IQ2_XS> {
    static constexpr int block_elements = 256, block_bytes = 74;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const unsigned code = load16(block + 2 + i / 8 * 2);
        const unsigned scale = block[66 + i / 32] >> (i % 32 < 16 ? 0 : 4) & 15u;
        scale_row(iq2_xs_row(code & 511u), even_signs(code >> 9),
                  grid_step(load_half(block), scale, 0.25f), y);
    }
};

template <>
struct Format<GGML_TYPE_IQ2_S> {
    static constexpr int block_elements = 256, block_bytes = 82;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const int group = i / 8, part = i / 32;
        const unsigned high = block[66 + part] >> 2 * (group % 4) & 3u;
        const unsigned scale = block[74 + part] >> (i % 32 < 16 ? 0 : 4) & 15u;
        scale_row(iq2_s_row(block[2 + group] | high << 8), block[34 + group],
                  grid_step(load_half(block), scale, 0.25f), y);
    }
};

template <>
struct Format<GGML_TYPE_IQ3_XXS> {
    static constexpr int block_elements = 256, block_bytes = 98;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const std::uint32_t word = load32(block + 66 + i / 32 * 4);
        const unsigned codes = load16(block + 2 + i / 4);
        const std::uint64_t row =
            iq3_xxs_row(codes & 255u) | static_cast<std::uint64_t>(iq3_xxs_row(codes >> 8)) << 32;
        scale_row(row, even_signs(word >> 7 * (i % 32 / 8) & 127u),
                  grid_step(load_half(block), word >> 28, 0.5f), y);
    }
};

template <>
struct Format<GGML_TYPE_IQ3_S> {
    static constexpr int block_elements = 256, block_bytes = 110;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const int part = i / 32;
        const unsigned codes = load16(block + 2 + i / 4);
        const unsigned high = static_cast<unsigned>(block[66 + part]) >> i / 4 % 8;
        const std::uint64_t row =
            iq3_s_row((codes & 255u) | (high & 1u) << 8) |
            static_cast<std::uint64_t>(iq3_s_row(codes >> 8 | (high >> 1 & 1u) << 8)) << 32;
        const unsigned scale = block[106 + i / 64] >> 4 * (part & 1) & 15u;
        scale_row(row, block[74 + i / 8],
                  mul(load_half(block), static_cast<float>(1u + 2u * scale)), y);
    }
};

/// y = step * (the elements of a row of IQ1's codebook + shift).
HEDDLE_HD void scale_shifted_row(std::uint64_t row, float shift, float step, float (&y)[8]) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const auto level = static_cast<float>(static_cast<std::int8_t>(byte_of(row, j)));
        y[j] = mul(step, add(level, shift));
    }
}

template <>
struct Format<GGML_TYPE_IQ1_S> {
    static constexpr int block_elements = 256, block_bytes = 50;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const unsigned high = load16(block + 34 + i / 32 * 2);
        const unsigned index = block[2 + i / 8] | (high >> 3 * (i % 32 / 8) & 7u) << 8;
        scale_shifted_row(iq1_row(index), (high & 0x8000u) != 0 ? -0.125f : 0.125f,
                          mul(load_half(block), static_cast<float>(2u * (high >> 12 & 7u) + 1u)),
                          y);
    }
};

template <>
struct Format<GGML_TYPE_IQ1_M> {
    static constexpr int block_elements = 256, block_bytes = 56;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        unsigned d = 0;  // a half float in the top nibbles of the scales
#pragma unroll
        for (int t = 0; t < 4; ++t) d |= load16(block + 48 + 2 * t) >> 12 << 4 * t;
        const int part = i / 32;
        const unsigned scale =
            load16(block + 48 + part / 2 * 2) >> (6 * (part & 1) + 3 * (i % 32 / 16)) & 7u;
        const unsigned high = block[32 + i / 16] >> 4 * (i / 8 % 2) & 15u;
        scale_shifted_row(iq1_row(block[i / 8] | (high & 7u) << 8),
                          (high & 8u) != 0 ? -0.125f : 0.125f,
                          mul(half_bits_to_float(d), static_cast<float>(2u * scale + 1u)), y);
    }
};

}  // namespace heddle::cuda
