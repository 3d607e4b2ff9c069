#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/products/half_activations.hpp"
#include "backends/cuda/kernels/products/operands.cuh"
#include "backends/cuda/kernels/products/tile_words.cuh"

namespace heddle::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float largest_of_block(float value) {
    __shared__ float of_warp[kThreads / 32];
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    float largest = of_warp[0];
#pragma unroll
    for (int w = 1; w < kThreads / 32; ++w) largest = fmaxf(largest, of_warp[w]);
    return largest;
}

/// A warp has the 32 activations that share a scale.
__device__ float round_to_bytes(float x, DotOperand operand) {
    std::uint32_t bits = magnitude_bits(x);
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, step));
    const ByteScale scale(bits);
    return scale.stored(operand) * static_cast<float>(scale.code(x));
}

/// One block per column.
__global__ void __launch_bounds__(kThreads)
    convert(Activations b, std::int64_t depth, std::int64_t padded, DotOperand operand,
            std::uint16_t* halves, float* factors) {
    const bool to_bf16 = operand == DotOperand::bf16;
    for (std::int64_t column = blockIdx.x; column < b.columns(); column += gridDim.x) {
        const std::uint8_t* row = b.row(column);
        std::uint16_t* to = halves + column * padded;
        float scale = 1, factor = 1;
        if (!to_bf16) {
            float largest = 0;
            for (std::int64_t k = threadIdx.x; k < depth; k += kThreads)
                largest = fmaxf(largest, fabsf(b.load(row, k)));
            const int exponent = exponent_for(largest_of_block(largest));
            scale = exp2f(static_cast<float>(-exponent));
            factor = exp2f(static_cast<float>(exponent));
        }
        for (std::int64_t k = threadIdx.x; k < padded; k += kThreads) {
            float x = k < depth ? b.load(row, k) : 0.0f;
            if (has_half_scale(operand)) x = round_to_bytes(x, operand);  // whole warps: see padded
            x *= scale;
            to[k] = to_bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(x))
                            : __half_as_ushort(__float2half_rn(x));
        }
        if (threadIdx.x == 0) factors[column] = factor;
    }
}

/// A column of a product, its factor and what is added to it.
__device__ __forceinline__ void add_column(const float* y, const float* addend, float factor,
                                           std::int64_t rows, float* sum) {
    if (rows % 4 != 0) {
        for (std::int64_t i = threadIdx.x; i < rows; i += kThreads)
            sum[i] = y[i] * factor + addend[i];
        return;
    }
#pragma unroll 4
    for (std::int64_t i = threadIdx.x; i < rows / 4; i += kThreads) {
        const float4 a = reinterpret_cast<const float4*>(y)[i];
        const float4 b = reinterpret_cast<const float4*>(addend)[i];
        reinterpret_cast<float4*>(sum)[i] =
            float4{a.x * factor + b.x, a.y * factor + b.y, a.z * factor + b.z, a.w * factor + b.w};
    }
}

/// One block per column; most have nothing to do but to add.
__global__ void __launch_bounds__(kThreads)
    finish(const float* factors, std::int64_t columns, ScaledResults results) {
    for (std::int64_t column = blockIdx.x; column < columns; column += gridDim.x) {
        const float factor = factors[column];
        for (int k = 0; k < results.count; ++k) {
            const auto [y, rows, addend, sum] = results.of[k];
            if (addend != nullptr) {
                const std::int64_t at = column * rows;
                add_column(y + at, addend + at, factor, rows, sum + at);
                continue;
            }
            if (factor == 1) continue;
            for (std::int64_t i = threadIdx.x; i < rows; i += kThreads)
                y[column * rows + i] *= factor;
        }
    }
}

}  // namespace

void finish_results(const HalfActivations& layout, const std::byte* converted,
                    const ScaledResults& results, const Launch& launch) {
    const std::int64_t most = 4096, blocks = layout.columns < most ? layout.columns : most;
    finish<<<static_cast<unsigned>(blocks), kThreads, 0, launch.stream>>>(
        reinterpret_cast<const float*>(converted + layout.factors_at()), layout.columns, results);
}

void convert_activations(const Tensor& b, ggml_type weights, std::byte* to, const Launch& launch) {
    const HalfActivations layout(b);
    if (layout.columns == 0) return;
    const std::int64_t most = 1 << 20;
    convert<<<static_cast<unsigned>(layout.columns < most ? layout.columns : most), kThreads, 0,
              launch.stream>>>(activations_of(b), b.ne[0], layout.depth, dot_operand_of(weights),
                               reinterpret_cast<std::uint16_t*>(to),
                               reinterpret_cast<float*>(to + layout.factors_at()));
}

}  // namespace heddle::cuda
