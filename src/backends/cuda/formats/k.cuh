#pragma once

#include "backends/cuda/formats/format.cuh"

/// The K formats: super-blocks of 256 elements whose sub-blocks have small integer scales.
namespace heddle::cuda {

HEDDLE_HD std::uint64_t load64(Bytes p) {
    return static_cast<std::uint64_t>(load32(p + 4)) << 32 | load32(p);
}

template <>
struct Format<GGML_TYPE_Q2_K> {
    static constexpr int block_elements = 256, block_bytes = 84;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const unsigned scales = block[i / 16];
        const float step = mul(load_half(block + 80), static_cast<float>(scales & 15u));
        const float low = mul(load_half(block + 82), static_cast<float>(scales >> 4));
        const std::uint64_t bytes = load64(block + 16 + i / 128 * 32 + i % 32);
        const int shift = i % 128 / 32 * 2;
#pragma unroll
        for (int j = 0; j < 8; ++j)
            y[j] = sub(mul(step, static_cast<float>(byte_of(bytes, j) >> shift & 3u)), low);
    }
};

template <>
struct Format<GGML_TYPE_Q3_K> {
    static constexpr int block_elements = 256, block_bytes = 110;

    /// Scale j, 0 .. 63, of the sixteen in twelve bytes.
    HEDDLE_HD static int scale(Bytes scales, int j) {
        const unsigned low = j < 8 ? scales[j] & 15u : scales[j - 8] >> 4;
        const unsigned high = scales[8 + j % 4] >> 2 * (j / 4) & 3u;
        return static_cast<int>(low | high << 4);
    }

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const int group = i / 32;  // also the bit of the mask
        const float step =
            mul(load_half(block + 108), static_cast<float>(scale(block + 96, i / 16) - 32));
        const std::uint64_t bytes = load64(block + 32 + i / 128 * 32 + i % 32);
        const std::uint64_t high = load64(block + i % 32);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int low = static_cast<int>(byte_of(bytes, j) >> 2 * (group & 3) & 3u);
            const int code = low - ((byte_of(high, j) >> group & 1u) != 0 ? 0 : 4);
            y[j] = mul(step, static_cast<float>(code));
        }
    }
};

/// Scale and minimum j of the eight pairs that Q4_K and Q5_K keep in twelve bytes.
struct ScaleAndMinimum {
    unsigned scale, minimum;

    HEDDLE_HD ScaleAndMinimum(Bytes packed, int j) {
        if (j < 4) {
            scale = packed[j] & 63u;
            minimum = packed[j + 4] & 63u;
        } else {
            const unsigned both = packed[j + 4];
            scale = (both & 15u) | (packed[j - 4] >> 6) << 4;
            minimum = both >> 4 | (packed[j] >> 6) << 4;
        }
    }
};

template <>
struct Format<GGML_TYPE_Q4_K> {
    static constexpr int block_elements = 256, block_bytes = 144;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const ScaleAndMinimum part(block + 4, i / 32);
        const float step = mul(load_half(block), static_cast<float>(part.scale));
        const float low = mul(load_half(block + 2), static_cast<float>(part.minimum));
        const std::uint64_t bytes = load64(block + 16 + i / 64 * 32 + i % 32);
        const int shift = i % 64 < 32 ? 0 : 4;
#pragma unroll
        for (int j = 0; j < 8; ++j)
            y[j] = sub(mul(step, static_cast<float>(byte_of(bytes, j) >> shift & 15u)), low);
    }
};

template <>
struct Format<GGML_TYPE_Q5_K> {
    static constexpr int block_elements = 256, block_bytes = 176;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const ScaleAndMinimum part(block + 4, i / 32);
        const float step = mul(load_half(block), static_cast<float>(part.scale));
        const float low = mul(load_half(block + 2), static_cast<float>(part.minimum));
        const std::uint64_t bytes = load64(block + 48 + i / 64 * 32 + i % 32);
        const std::uint64_t high = load64(block + 16 + i % 32);
        const int shift = i % 64 < 32 ? 0 : 4;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const unsigned code =
                (byte_of(bytes, j) >> shift & 15u) | (byte_of(high, j) >> i / 32 & 1u) << 4;
            y[j] = sub(mul(step, static_cast<float>(code)), low);
        }
    }
};

template <>
struct Format<GGML_TYPE_Q6_K> {
    static constexpr int block_elements = 256, block_bytes = 210;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const int half = i / 128, group = i % 128 / 32, l = i % 32;
        const float step = mul(load_half(block + 208),
                               static_cast<float>(static_cast<std::int8_t>(block[192 + i / 16])));
        const std::uint64_t bytes = load64(block + 64 * half + l + 32 * (group & 1));
        const std::uint64_t high = load64(block + 128 + 32 * half + l);
        const int shift = group < 2 ? 0 : 4;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const unsigned code =
                (byte_of(bytes, j) >> shift & 15u) | (byte_of(high, j) >> 2 * group & 3u) << 4;
            y[j] = mul(step, static_cast<float>(static_cast<int>(code) - 32));
        }
    }
};

}  // namespace heddle::cuda
