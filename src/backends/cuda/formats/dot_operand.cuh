#pragma once

#include <cuda_bf16.h>

#include <cmath>

#include "backends/cuda/formats/bytes.cuh"
#include "ggml.h"

/// What activations are rounded to before they are multiplied: the dot type of the weights, as on
/// the CPU, so that products differ by the order of additions alone. Formats whose dot type is
/// Q8_K have a scale for every 32 activations instead of 256, which is nearer to the truth.
namespace heddle::cuda {

enum class DotOperand { f32, f16, bf16, q8_0, q8_1, q8_f32 };

HEDDLE_HD constexpr DotOperand dot_operand_of(ggml_type weights) {
    switch (weights) {
        case GGML_TYPE_F32:
            return DotOperand::f32;
        case GGML_TYPE_F16:
            return DotOperand::f16;
        case GGML_TYPE_BF16:
            return DotOperand::bf16;
        case GGML_TYPE_Q1_0:
        case GGML_TYPE_Q2_0:
        case GGML_TYPE_Q4_0:
        case GGML_TYPE_Q5_0:
        case GGML_TYPE_Q8_0:
        case GGML_TYPE_IQ4_NL:
        case GGML_TYPE_MXFP4:
        case GGML_TYPE_NVFP4:
            return DotOperand::q8_0;
        case GGML_TYPE_Q4_1:
        case GGML_TYPE_Q5_1:
            return DotOperand::q8_1;
        default:
            return DotOperand::q8_f32;
    }
}

HEDDLE_HD constexpr bool has_half_scale(DotOperand operand) {
    return operand == DotOperand::q8_0 || operand == DotOperand::q8_1;
}

/// Bits of a magnitude. They are in order, infinity behind all numbers and NaN behind infinity.
HEDDLE_HD std::uint32_t magnitude_bits(float x) { return float_to_bits(x) & 0x7fffffffu; }

/// Rounded to f16, but for what f16 has no finite numbers for.
HEDDLE_HD float round_to_half(float x) {
    return magnitude_bits(x) < 0x477ff000u ? half_bits_to_float(float_to_half_bits(x)) : x;
}

/// The scale of 32 activations of eight bits.
struct ByteScale {
    float d;        ///< before it is rounded
    float inverse;  ///< what activations are multiplied with

    /// From the bits of the largest magnitude; NaN if one of the 32 is not finite.
    HEDDLE_HD explicit ByteScale(std::uint32_t largest) {
        const bool is_finite = largest < 0x7f800000u;
        d = bits_to_float(is_finite ? largest : 0x7fc00000u) / 127.0f;
        inverse = is_finite && d != 0 ? 1.0f / d : 0.0f;
    }

    /// As products use it.
    HEDDLE_HD float stored(DotOperand operand) const {
        return has_half_scale(operand) ? round_to_half(d) : d;
    }

    /// The nearest code, ties to even. The inverse of a scale below 2^-128 is infinite.
    HEDDLE_HD int code(float x) const {
        const float v = mul(x, inverse);
#ifdef __CUDA_ARCH__
        return min(127, max(-127, __float2int_rn(v)));
#else
        return v > 127 ? 127 : v < -127 ? -127 : static_cast<int>(std::nearbyint(v));
#endif
    }
};

/// What Q8_1 keeps of the sum of its codes: f16, and made with the scale before it is rounded.
HEDDLE_HD float stored_sum(const ByteScale& scale, int sum) {
    return round_to_half(mul(static_cast<float>(sum), scale.d));
}

HEDDLE_HD float round_to_bfloat(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }

}  // namespace heddle::cuda
