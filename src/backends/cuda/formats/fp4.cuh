#pragma once

#include "backends/cuda/formats/simple.cuh"

/// Formats whose codes are floats of four bits: sign, two bits of exponent, one of mantissa. The
/// levels are doubled, so that they are whole numbers; the scales are halved.
namespace heddle::cuda {

/// Twice the value of an E2M1 code: 0 1 2 3 4 6 8 12 and the same below zero.
HEDDLE_HD float doubled_e2m1(int code) {
    const unsigned magnitude = 0xc8643210u >> 4 * (code & 7) & 15u;
    return static_cast<float>((code & 8) != 0 ? -static_cast<int>(magnitude)
                                              : static_cast<int>(magnitude));
}

/// 2^(code - 128).
HEDDLE_HD float e8m0_to_float_half(unsigned code) {
    return bits_to_float(code < 2 ? 0x00200000u << code : (code - 1u) << 23);
}

/// Half of the value of an unsigned E4M3 code; 0x7f, the standard's NaN, is 0.
HEDDLE_HD float ue4m3_to_float_half(unsigned code) {
    if (code == 0 || code == 0x7f) return 0;
    const unsigned exponent = code >> 3 & 15u;
    const float mantissa = static_cast<float>(code & 7u);
    if (exponent == 0) return mul(mantissa, 0x1p-10f);
    return mul(add(1, mul(mantissa, 0.125f)), bits_to_float((exponent + 119u) << 23));
}

template <>
struct Format<GGML_TYPE_MXFP4> {
    static constexpr int block_elements = 32, block_bytes = 17;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = e8m0_to_float_half(block[0]);
        const Nibbles codes = Nibbles::at_any(block + 1, i);
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = mul(doubled_e2m1(codes[j]), d);
    }
};

template <>
struct Format<GGML_TYPE_NVFP4> {
    static constexpr int block_elements = 64, block_bytes = 36;

    HEDDLE_HD static void decode8(Bytes block, int i, float (&y)[8]) {
        const float d = ue4m3_to_float_half(block[i / 16]);
        const Bytes p = block + 4 + i / 16 * 8;
        const Nibbles codes(load32(p), load32(p + 4), i % 16 < 8 ? 0 : 4);
#pragma unroll
        for (int j = 0; j < 8; ++j) y[j] = mul(doubled_e2m1(codes[j]), d);
    }
};

}  // namespace heddle::cuda
