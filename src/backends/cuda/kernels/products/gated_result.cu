#include "backends/cuda/kernels/chain.cuh"
#include "backends/cuda/kernels/products/gated_result.hpp"
#include "backends/cuda/kernels/wgmma.cuh"

namespace heddle::cuda {
namespace {

constexpr int kThreads = 256, kColumns = 32, kLanes = kColumns / 4, kSlices = kThreads / kLanes;

struct Settling {
    std::uint16_t* halves;
    const std::uint8_t* exponents;
    float* factors;
    std::int64_t columns;
    int groups;  ///< of 32 elements
};

/// Multiplies the 32 halves of a column by a power of two.
__device__ void scale_down(const Settling& s, int group, std::int64_t column, int by) {
    const __half2 factor = __float2half2_rn(exp2f(static_cast<float>(-by)));
    std::uint16_t* const step = s.halves + (group / 2 * s.columns + column) * 64;
    for (int i = 0; i < 4; ++i) {
        auto* const pairs = reinterpret_cast<__half2*>(
            step + 8 * swizzled(static_cast<int>(column % 8), group % 2 * 4 + i));
        for (int j = 0; j < 4; ++j) pairs[j] = __hmul2(pairs[j], factor);
    }
}

/// A block for 32 columns; a thread reads the exponents of four.
__global__ void __launch_bounds__(kThreads) settle(Settling s) {
    chain_trigger();  // the next product's weights may come
    __shared__ std::uint32_t of_slice[kSlices][kLanes];
    __shared__ std::uint8_t largest[kColumns];
    const int lane = threadIdx.x % kLanes, slice = threadIdx.x / kLanes;
    const std::int64_t first = std::int64_t{blockIdx.x} * kColumns;
    std::uint32_t most = 0;
#pragma unroll 8
    for (int group = slice; group < s.groups; group += kSlices)
        most = __vmaxu4(most, *reinterpret_cast<const std::uint32_t*>(
                                  s.exponents + group * s.columns + first + 4 * lane));
    of_slice[slice][lane] = most;
    __syncthreads();
    bool is_scaled = false;
    if (threadIdx.x < kLanes) {
        for (const auto& row : of_slice) most = __vmaxu4(most, row[lane]);
        for (int i = 0; i < 4; ++i) {
            const std::uint32_t exponent = most >> 8 * i & 0xffu;
            largest[4 * lane + i] = static_cast<std::uint8_t>(exponent);
            s.factors[first + 4 * lane + i] = exp2f(static_cast<float>(exponent));
        }
        is_scaled = most != 0;
    }
    if (!__syncthreads_or(is_scaled)) return;
    for (int i = threadIdx.x; i < s.groups * kColumns; i += kThreads) {
        const int group = i / kColumns, column = i % kColumns;
        const int by = largest[column] - s.exponents[group * s.columns + first + column];
        if (by != 0) scale_down(s, group, first + column, by);
    }
}

}  // namespace

void settle_exponents(const GatedActivations& layout, std::byte* at, const Launch& launch) {
    const TiledActivations& tiles = layout.tiles;
    const Settling s{reinterpret_cast<std::uint16_t*>(at),
                     reinterpret_cast<const std::uint8_t*>(at + layout.exponents_at()),
                     reinterpret_cast<float*>(at + tiles.factors_at()), tiles.columns,
                     static_cast<int>(tiles.depth / 32)};
    settle<<<static_cast<unsigned>(tiles.columns / kColumns), kThreads, 0, launch.stream>>>(s);
}

}  // namespace heddle::cuda
