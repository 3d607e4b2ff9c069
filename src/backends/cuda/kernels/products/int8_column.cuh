#pragma once

#include "backends/cuda/formats/bytes.cuh"
#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/products/passed_column.hpp"

/// A column of activations of eight bits, in shared memory or on its way from launch to launch. It
/// has, for every 32 elements, a float scale and two 16-bit sums of its halves, which serve offsets
/// and minima:
///     bytes    288 for each 256 elements; the 32 spare ones keep lanes on different banks
///     scales   a float for each 32
///     sums     two int16 for each 32, or what Q8_1 keeps of the sum, a float
namespace heddle::cuda {

/// Where the parts of a column lie.
struct Int8Column {
    static constexpr int kBlock = 256, kBlockBytes = 288, kBytes = 352;  ///< of everything

    static_assert(kBlock == PassedColumn::kBlock && kBytes == PassedColumn::kBlockBytes);

    HEDDLE_HD static std::int64_t blocks(std::int64_t depth) {
        return (depth + kBlock - 1) / kBlock;
    }
    HEDDLE_HD static std::int64_t bytes(std::int64_t depth) { return blocks(depth) * kBytes; }
    HEDDLE_HD static std::int64_t byte_at(std::int64_t k) {
        return k / kBlock * kBlockBytes + k % kBlock;
    }
    HEDDLE_HD static std::int64_t scale_at(std::int64_t depth, std::int64_t k) {
        return blocks(depth) * kBlockBytes + k / 32 * 4;
    }
    HEDDLE_HD static std::int64_t sum_at(std::int64_t depth, std::int64_t k) {
        return blocks(depth) * (kBlockBytes + 32) + k / 32 * 4;
    }
};

/// How 32 elements are coded, from the bits of their largest magnitude.
struct QuickScale {
    float d, inverse;

    /// A 127th, rounded once; NaN if the largest magnitude is not finite.
    __device__ explicit QuickScale(std::uint32_t largest) {
        constexpr float kPart = 1.0f / 127.0f;
        const float x = __uint_as_float(largest < 0x7f800000u ? largest : 0x7fc00000u);
        const float near = x * kPart;
        d = fmaf(fmaf(-127.0f, near, x), kPart, near);
        inverse = d > 0x1p-120f ? __frcp_rn(d) : 0.0f;
    }
    /// The code is the lowest byte: that of a number this large is what was added to it, rounded.
    __device__ std::uint32_t code(float x) const {
        constexpr float kRound = 12582912.0f;
        return __float_as_uint(fmaf(x, inverse, kRound));
    }
    /// Four codes.
    __device__ std::uint32_t word(float x0, float x1, float x2, float x3) const {
        return __byte_perm(__byte_perm(code(x0), code(x1), 0x0040),
                           __byte_perm(code(x2), code(x3), 0x0040), 0x5410);
    }
};

/// Both sums of 32 codes, from the first half's plus 65,536 times the second's.
__device__ __forceinline__ int both_sums(int sum) {
    const int low = static_cast<short>(sum & 0xffff);
    return (low & 0xffff) | ((sum - low) >> 16) << 16;
}

/// Codes element k, one a lane, for a launch that follows.
__device__ __forceinline__ void pass_one(float x, std::int64_t depth, int k, std::uint8_t* to) {
    const QuickScale scale(__reduce_max_sync(0xffffffffu, magnitude_bits(x)));
    const auto code = static_cast<signed char>(scale.code(x) & 255u);
    const int sum = __reduce_add_sync(0xffffffffu, (k & 16) != 0 ? code * 65536 : code);
    to[Int8Column::byte_at(k)] = static_cast<std::uint8_t>(code);
    if (k % 32 != 0) return;
    *reinterpret_cast<float*>(to + Int8Column::scale_at(depth, k)) = scale.d;
    *reinterpret_cast<int*>(to + Int8Column::sum_at(depth, k)) = both_sums(sum);
}

/// The same with elements k to k + 3, eight lanes for 32.
__device__ __forceinline__ void pass_four(const float4& x, std::int64_t depth, int k,
                                          std::uint8_t* to) {
    std::uint32_t bits = max(max(magnitude_bits(x.x), magnitude_bits(x.y)),
                             max(magnitude_bits(x.z), magnitude_bits(x.w)));
#pragma unroll
    for (int step = 4; step > 0; step /= 2)
        bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, step));
    const QuickScale scale(bits);
    const std::uint32_t codes = scale.word(x.x, x.y, x.z, x.w);
    int sum = __dp4a(static_cast<int>(codes), 0x01010101, 0);
    if ((k & 16) != 0) sum *= 65536;
#pragma unroll
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    *reinterpret_cast<std::uint32_t*>(to + Int8Column::byte_at(k)) = codes;
    if (k % 32 != 0) return;
    *reinterpret_cast<float*>(to + Int8Column::scale_at(depth, k)) = scale.d;
    *reinterpret_cast<int*>(to + Int8Column::sum_at(depth, k)) = both_sums(sum);
}

}  // namespace heddle::cuda
