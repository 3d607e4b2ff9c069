#pragma once

#include "backends/cuda/kernels/products/weight_order.hpp"
#include "backends/cuda/kernels/wgmma.cuh"

/// Where activations lie among the 64 of a step, see tiled_activations.hpp.
namespace heddle::cuda {

/// By how much activations are scaled down, as a power of two: f16 has no numbers for the largest.
__device__ __forceinline__ int exponent_for(float largest) {
    constexpr float kComfortable = 16384;  // below it they keep their scale
    return largest > kComfortable && !isinf(largest) ? ilogbf(largest) - 13 : 0;
}

/// Two activations in one word.
struct PackPair {
    bool to_bf16;
    __device__ __forceinline__ std::uint32_t operator()(float low, float high) const {
        return to_bf16 ? pack_bfloats(low, high) : pack_halves(low, high);
    }
};

/// Sixteen elements from `k` on, a multiple of 16, to the 128 bytes of column `column`.
__device__ __forceinline__ void store_sixteen(std::uint16_t* step, int column, int k,
                                              WeightOrder order, PackPair pack,
                                              const float (&x)[16]) {
    const auto group = [&](int i) { return step + 8 * swizzled(column % 8, i); };
    if (order == WeightOrder::eights) {
        const int half = k / 16 % 2;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            *reinterpret_cast<uint2*>(group(k / 32 * 4 + i) + 4 * half) =
                uint2{pack(x[2 * i], x[2 * i + 1]), pack(x[8 + 2 * i], x[9 + 2 * i])};
        return;
    }
    // Pairs of a k = 16 one after the other, or first those of elements 0 and 2, 4 and 6, ...
    const bool is_plain = order == WeightOrder::plain;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        std::uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            words[j] = is_plain ? pack(x[8 * i + 2 * j], x[8 * i + 2 * j + 1])
                                : pack(x[4 * j + i], x[4 * j + i + 2]);
        *reinterpret_cast<uint4*>(group(k / 8 + i)) = uint4{words[0], words[1], words[2], words[3]};
    }
}

}  // namespace heddle::cuda
