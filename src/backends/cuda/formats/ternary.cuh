#pragma once

#include "backends/cuda/formats/format.cuh"

/// Formats of three levels: -d, 0, d.
namespace heddle::cuda {

template <>
struct Format<GGML_TYPE_TQ1_0> {
    static constexpr int block_elements = 256, block_bytes = 54;

    /// Trit `digit` of a byte, which is a fraction of 256 with five digits in base three.
    HEDDLE_HD static int trit(unsigned byte, int digit) {
        constexpr unsigned kPowers = 1u | 3u << 4 | 9u << 8;  // of three; 27 and 81 follow below
        const unsigned power = digit < 3 ? kPowers >> 4 * digit & 15u : digit == 3 ? 27u : 81u;
        return static_cast<int>((byte * power & 255u) * 3u >> 8);
    }

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = load_half(block + 52);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int e = i + j;
            int t;
            if (i < 160)
                t = trit(block[e % 32], e / 32);
            else if (i < 240)
                t = trit(block[32 + (e - 160) % 16], (e - 160) / 16);
            else
                t = trit(block[48 + (e - 240) % 4], (e - 240) / 4);
            y[j] = mul(static_cast<float>(t - 1), d);
        }
    }
};

template <>
struct Format<GGML_TYPE_TQ2_0> {
    static constexpr int block_elements = 256, block_bytes = 66;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = load_half(block + 64);
        const Bytes p = block + i / 128 * 32 + i % 32;
        const int shift = i % 128 / 32 * 2;
        const std::uint64_t bytes = static_cast<std::uint64_t>(load32(p + 4)) << 32 | load32(p);
#pragma unroll
        for (int j = 0; j < 8; ++j)
            y[j] =
                mul(static_cast<float>(static_cast<int>(byte_of(bytes, j) >> shift & 3u) - 1), d);
    }
};

}  // namespace heddle::cuda
