/// Conversions between float and the small floating-point formats, inlined into backends.
///
/// They are portable and bit-exact on every machine. Included by `ggml-impl.h`.
#pragma once

#include <stdint.h>
#include <string.h>

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The float whose bit pattern is `w`.
static inline float fp32_from_bits(uint32_t w) {
    float value;
    memcpy(&value, &w, sizeof value);
    return value;
}

/// The bit pattern of `f`.
static inline uint32_t fp32_to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/// Exact value of a half float. A NaN becomes quiet and keeps its sign and payload.
static inline float ggml_compute_fp16_to_fp32(ggml_fp16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t magnitude = h & 0x7FFFu;
    if (magnitude >= 0x7C00u) {
        const uint32_t quiet = magnitude > 0x7C00u ? 0x00400000u : 0u;
        return fp32_from_bits(sign | 0x7F800000u | quiet | ((magnitude & 0x03FFu) << 13));
    }
    if (magnitude < 0x0400u) {  // zero and subnormals count units of 2^-24, exact in float
        const float value = (float)magnitude * fp32_from_bits(0x33800000u);
        return fp32_from_bits(sign | fp32_to_bits(value));
    }
    return fp32_from_bits(sign | ((magnitude << 13) + (112u << 23)));  // exponent bias 15 to 127
}

/// Nearest half float, ties to even. Subnormals are kept, what is too large becomes infinity, every
/// NaN becomes the quiet NaN of its sign.
static inline ggml_fp16_t ggml_compute_fp32_to_fp16(float f) {
    const uint32_t bits = fp32_to_bits(f);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (ggml_fp16_t)(sign | 0x7E00u);
    if (magnitude >= 0x477FF000u) return (ggml_fp16_t)(sign | 0x7C00u);  // 65520 and more
    if (magnitude < 0x38800000u) {
        // Below 2^-14. The last place of 0.5 is worth 2^-24, so this addition rounds to subnormals.
        const float aligned = fp32_from_bits(magnitude) + 0.5f;
        return (ggml_fp16_t)(sign | (fp32_to_bits(aligned) - 0x3F000000u));
    }
    const uint32_t rounding = 0x0FFFu + ((magnitude >> 13) & 1u);
    return (ggml_fp16_t)(sign | ((magnitude - (112u << 23) + rounding) >> 13));
}

/// Exact value of a bfloat16.
static inline float ggml_compute_bf16_to_fp32(ggml_bf16_t h) {
    return fp32_from_bits((uint32_t)h.bits << 16);
}

/// Nearest bfloat16, ties to even. Subnormals are kept; a NaN becomes quiet and keeps its sign and
/// upper payload.
static inline ggml_bf16_t ggml_compute_fp32_to_bf16(float s) {
    const uint32_t bits = fp32_to_bits(s);
    ggml_bf16_t result;
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        result.bits = (uint16_t)((bits >> 16) | 0x0040u);
    } else {
        result.bits = (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
    }
    return result;
}

/// 2^(x - 127): the scale byte of MXFP4. Code 255 is an ordinary value here, not NaN.
static inline float ggml_e8m0_to_fp32(uint8_t x) {
    return fp32_from_bits(x == 0 ? 0x00400000u : (uint32_t)x << 23);
}

/// Half of that, 2^(x - 128): pairs with the table of doubled FP4 values. Finite for every code.
static inline float ggml_e8m0_to_fp32_half(uint8_t x) {
    return fp32_from_bits(x < 2 ? 0x00200000u << x : (uint32_t)(x - 1) << 23);
}

/// Half the value of an unsigned E4M3 code, the scale byte of NVFP4: pairs with the table of
/// doubled FP4 values. Bit 7 is ignored, the NaN code 0x7F gives 0.
static inline float ggml_ue4m3_to_fp32(uint8_t x) {
    const uint32_t exponent = (x >> 3) & 15u;
    const uint32_t mantissa = x & 7u;
    if (x == 0x7F) return 0.0f;
    if (exponent == 0) return (float)mantissa * fp32_from_bits(0x3A800000u);  // units of 2^-10
    return fp32_from_bits(((exponent + 119u) << 23) | (mantissa << 20));
}

/// Unsigned E4M3 code of `x`, rounding half up. Zero, negative values and NaN give 0; 256 and more
/// give the largest code, 448.
static inline uint8_t ggml_fp32_to_ue4m3(float x) {
    if (!(x > 0.0f)) return 0;
    const uint32_t bits = fp32_to_bits(x);
    int exponent = (int)(bits >> 23) - 127 + 7;
    if (exponent <= 0) {
        const int mantissa = (int)(x * 512.0f + 0.5f);
        return (uint8_t)(mantissa > 7 ? 7 : mantissa);
    }
    int mantissa = (int)((bits >> 20) & 7u) + (int)((bits >> 19) & 1u);
    if (mantissa == 8) {
        mantissa = 0;
        ++exponent;
    }
    return exponent >= 15 ? 0x7Eu : (uint8_t)((exponent << 3) | mantissa);
}

#define GGML_COMPUTE_FP16_TO_FP32(x) ggml_compute_fp16_to_fp32(x)  ///< Half to float.
#define GGML_COMPUTE_FP32_TO_FP16(x) ggml_compute_fp32_to_fp16(x)  ///< Float to half.
#define GGML_FP16_TO_FP32(x) GGML_COMPUTE_FP16_TO_FP32(x)          ///< Half to float.
#define GGML_FP32_TO_FP16(x) GGML_COMPUTE_FP32_TO_FP16(x)          ///< Float to half.
#define GGML_BF16_TO_FP32(x) ggml_compute_bf16_to_fp32(x)          ///< Bfloat16 to float.
#define GGML_FP32_TO_BF16(x) ggml_compute_fp32_to_bf16(x)          ///< Float to bfloat16.
#define GGML_E8M0_TO_FP32(x) ggml_e8m0_to_fp32(x)                  ///< Scale byte to float.
#define GGML_E8M0_TO_FP32_HALF(x) ggml_e8m0_to_fp32_half(x)        ///< Half of it.

#ifdef __cplusplus
}
#endif
