#pragma once

#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/elementwise/glu_functions.cuh"
#include "backends/cuda/kernels/products/gated_result.hpp"
#include "backends/cuda/kernels/products/tile_words.cuh"

/// The end of a product of many columns whose result is a gated unit: what the next product reads.
namespace heddle::cuda {

/// Columns of 32 units in shared memory: sixteen threads' pieces begin in as many banks.
constexpr int kUnitRows = 32, kUnitPitch = kUnitRows + 4;

/// Rounds columns of 32 units, two threads for each, and stores them. `thread`: of 128.
template <int kColumns>
__device__ __forceinline__ void store_units(const GatedResult& to, std::int64_t row,
                                            std::int64_t first_column, int thread,
                                            const float* units) {
    const int column = thread / 2, at = thread % 2 * 16;
    float x[16], largest = 0;
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float4 four{0, 0, 0, 0};
        if (column < kColumns)
            four = *reinterpret_cast<const float4*>(units + column * kUnitPitch + at + 4 * i);
        x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
    }
#pragma unroll
    for (const float value : x) {
        largest = fmaxf(largest, fabsf(value));
        bits = max(bits, magnitude_bits(value));
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, 1));
    const int exponent = to.operand == DotOperand::bf16 ? 0 : exponent_for(largest);
    float factor = exp2f(static_cast<float>(-exponent));
    if (has_half_scale(to.operand)) {
        const ByteScale scale(bits);
        factor *= scale.stored(to.operand);
#pragma unroll
        for (float& value : x) value = static_cast<float>(scale.code(value));
    }
#pragma unroll
    for (float& value : x) value *= factor;
    if (column >= kColumns) return;
    const std::int64_t target = first_column + column;
    store_sixteen(to.halves + (row / 64 * to.columns + target) * 64, static_cast<int>(target % 8),
                  static_cast<int>(row % 64) + at, to.order, {to.operand == DotOperand::bf16}, x);
    if (at == 0)
        to.exponents[row / kUnitRows * to.columns + target] = static_cast<std::uint8_t>(exponent);
}

}  // namespace heddle::cuda
