#pragma once

#include "backends/cuda/formats/simple.cuh"

/// Formats of sixteen levels that lie closer together near zero.
namespace heddle::cuda {

/// Level `code` of -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113.
HEDDLE_HD int nonlinear_level(int code) {
    const std::uint64_t levels = code < 8 ? 0xf6eaddcfbfad9881ull : 0x7159453526190d01ull;
    return static_cast<std::int8_t>(byte_of(levels, code & 7));
}

template <>
struct Format<GGML_TYPE_IQ4_NL> {
    static constexpr int block_elements = 32, block_bytes = 18;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = load_half(block);
        const Nibbles codes = Nibbles::at_even(block + 2, i);
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = mul(d, static_cast<float>(nonlinear_level(codes[j])));
    }
};

template <>
struct Format<GGML_TYPE_IQ4_XS> {
    static constexpr int block_elements = 256, block_bytes = 136;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const int part = i / 32;
        const unsigned low = block[4 + part / 2] >> 4 * (part & 1) & 15u;
        const unsigned high = load16(block + 2) >> 2 * part & 3u;
        const float step =
            mul(load_half(block), static_cast<float>(static_cast<int>(low | high << 4) - 32));
        const Nibbles codes = Nibbles::at_even(block + 8 + 16 * part, i % 32);
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = mul(step, static_cast<float>(nonlinear_level(codes[j])));
    }
};

}  // namespace heddle::cuda
