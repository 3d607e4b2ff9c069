#pragma once

#include "backends/cuda/formats/format.cuh"

/// Formats with one scale (and perhaps one minimum) per block and evenly spaced levels.
namespace heddle::cuda {

template <>
struct Format<GGML_TYPE_Q1_0> {
    static constexpr int block_elements = 128, block_bytes = 18;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = load_half(block);
        const unsigned bits = block[2 + i / 8];
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = (bits >> j & 1u) != 0 ? d : -d;
    }
};

template <>
struct Format<GGML_TYPE_Q2_0> {
    static constexpr int block_elements = 64, block_bytes = 18;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = load_half(block);
        const unsigned codes = load16(block + 2 + i / 4);
#pragma unroll
        for (int j = 0; j < 8; ++j)
            y[j] = mul(static_cast<float>(static_cast<int>(codes >> 2 * j & 3u) - 1), d);
    }
};

/// Eight codes of four bits, of elements i .. i + 7; byte j of the block's codes has elements j and
/// j + 16.
struct Nibbles {
    std::uint64_t bytes;

    HEDDLE_HD Nibbles(std::uint32_t low, std::uint32_t high, int shift)
        : bytes(((static_cast<std::uint64_t>(high) << 32 | low) >> shift) & 0x0f0f0f0f0f0f0f0full) {
    }

    HEDDLE_HD static Nibbles at_even(Bytes codes, int i) {
        const Bytes p = codes + (i & 15);
        return {load32(p), load32(p + 4), i < 16 ? 0 : 4};
    }
    HEDDLE_HD static Nibbles at_any(Bytes codes, int i) {
        const Bytes p = codes + (i & 15);
        return {load32_bytes(p), load32_bytes(p + 4), i < 16 ? 0 : 4};
    }
    HEDDLE_HD int operator[](int j) const { return static_cast<int>(byte_of(bytes, j)); }
};

template <>
struct Format<GGML_TYPE_Q4_0> {
    static constexpr int block_elements = 32, block_bytes = 18;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = load_half(block);
        const Nibbles codes = Nibbles::at_even(block + 2, i);
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = mul(static_cast<float>(codes[j] - 8), d);
    }
};

template <>
struct Format<GGML_TYPE_Q4_1> {
    static constexpr int block_elements = 32, block_bytes = 20;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = load_half(block), m = load_half(block + 2);
        const Nibbles codes = Nibbles::at_even(block + 4, i);
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = add(mul(static_cast<float>(codes[j]), d), m);
    }
};

template <>
struct Format<GGML_TYPE_Q5_0> {
    static constexpr int block_elements = 32, block_bytes = 22;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = load_half(block);
        const unsigned high = block[2 + i / 8];
        const Nibbles codes = Nibbles::at_even(block + 6, i);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int code = codes[j] | static_cast<int>(high >> j & 1u) << 4;
            y[j] = mul(static_cast<float>(code - 16), d);
        }
    }
};

template <>
struct Format<GGML_TYPE_Q5_1> {
    static constexpr int block_elements = 32, block_bytes = 24;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = load_half(block), m = load_half(block + 2);
        const unsigned high = block[4 + i / 8];
        const Nibbles codes = Nibbles::at_even(block + 8, i);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int code = codes[j] | static_cast<int>(high >> j & 1u) << 4;
            y[j] = add(mul(static_cast<float>(code), d), m);
        }
    }
};

/// y = d * eight signed bytes at an even address.
HEDDLE_HD void scale_bytes(Bytes codes, float d, float (&y)[8]) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(load32(codes + 4)) << 32 | load32(codes);
#pragma unroll
    for (int j = 0; j < 8; ++j)
        y[j] = mul(static_cast<float>(static_cast<std::int8_t>(byte_of(bytes, j))), d);
}

template <>
struct Format<GGML_TYPE_Q8_0> {
    static constexpr int block_elements = 32, block_bytes = 34;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        scale_bytes(block + 2 + i, load_half(block), y);
    }
};

template <>
struct Format<GGML_TYPE_Q8_1> {
    static constexpr int block_elements = 32, block_bytes = 36;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        scale_bytes(block + 4 + i, load_half(block), y);
    }
};

template <>
struct Format<GGML_TYPE_Q8_K> {
    static constexpr int block_elements = 256, block_bytes = 292;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        scale_bytes(block + 4 + i, bits_to_float(load32(block)), y);
    }
};

}  // namespace heddle::cuda
