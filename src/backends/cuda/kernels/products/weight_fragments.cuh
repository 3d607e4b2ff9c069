#pragma once

#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/kernels/products/weight_order.hpp"
#include "backends/cuda/kernels/ptx.cuh"

/// Rows of weights as operands of tensor cores, in registers.
///
/// Raw rows lie in shared memory, 256 elements at a time. Four lanes share a row: lane t of them
/// makes, for each of the four k = 16 of a step of 64 elements, two pairs of f16. Which elements
/// those are is up to the format; activations are stored in the same order (`WeightOrder`).
namespace heddle::cuda {

__device__ __forceinline__ std::uint32_t shared_word(const std::uint8_t* p) {
    return *reinterpret_cast<const std::uint32_t*>(p);
}
__device__ __forceinline__ std::uint32_t bits_of(__half2 x) {
    return *reinterpret_cast<const std::uint32_t*>(&x);
}
__device__ __forceinline__ __half2 pair_of(std::uint32_t bits) {
    return *reinterpret_cast<const __half2*>(&bits);
}
/// One f16 of a row twice.
__device__ __forceinline__ __half2 shared_scale(const std::uint8_t* p) {
    return __half2half2(*reinterpret_cast<const __half*>(p));
}

/// f16 1024 and up: its last ten bits count in ones, so that codes are put in by an OR.
constexpr std::uint32_t kThousands = 0x64006400u;

/// Two codes of four bits each of which is the low part of byte 0 and 2; exact.
__device__ __forceinline__ __half2 low_codes(std::uint32_t word, float offset) {
    return __hsub2(pair_of((word & 0x000f000fu) | kThousands), __float2half2_rn(1024.0f + offset));
}
/// As above, of the high parts.
__device__ __forceinline__ __half2 high_codes(std::uint32_t word, float offset) {
    return __hfma2(pair_of((word & 0x00f000f0u) | kThousands), __float2half2_rn(1.0f / 16),
                   __float2half2_rn(-64.0f - offset));
}
/// Two signed bytes, 0 and 2 of a word whose sign bits were turned round.
__device__ __forceinline__ __half2 even_bytes(std::uint32_t turned) {
    return __hsub2(pair_of(__byte_perm(turned, kThousands, 0x7250)), __float2half2_rn(1152.0f));
}
__device__ __forceinline__ __half2 odd_bytes(std::uint32_t turned) {
    return __hsub2(pair_of(__byte_perm(turned, kThousands, 0x7351)), __float2half2_rn(1152.0f));
}

/// How a format's rows become operands; the general one decodes eight elements after the other.
///
///     kBytes    of 256 elements
///     unpack    pairs[k][i]: pair i of k = 16 number k of step `step` of a row
template <class F>
struct WeightFragments {
    static constexpr WeightOrder kOrder = WeightOrder::eights;
    static constexpr int kBytes = 256 / F::block_elements * F::block_bytes;

    __device__ __forceinline__ static void unpack(const std::uint8_t* row, int step, int t,
                                                  std::uint32_t (&pairs)[4][2]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float y[8];
            decode8_of_row<F>(row, 64 * step + 32 * half + 8 * t, y);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                pairs[2 * half + i / 2][i % 2] = pack_halves(y[2 * i], y[2 * i + 1]);
        }
    }
};

/// Two blocks of 18 bytes are nine words.
template <>
struct WeightFragments<Format<GGML_TYPE_Q4_0>> {
    static constexpr WeightOrder kOrder = WeightOrder::fours;
    static constexpr int kBytes = 144;

    __device__ __forceinline__ static void unpack_block(std::uint32_t codes, __half2 d,
                                                        std::uint32_t (&low)[2],
                                                        std::uint32_t (&high)[2]) {
        low[0] = bits_of(__hmul2(low_codes(codes, 8), d));
        low[1] = bits_of(__hmul2(low_codes(codes >> 8, 8), d));
        high[0] = bits_of(__hmul2(high_codes(codes, 8), d));
        high[1] = bits_of(__hmul2(high_codes(codes >> 8, 8), d));
    }

    __device__ __forceinline__ static void unpack(const std::uint8_t* row, int step, int t,
                                                  std::uint32_t (&pairs)[4][2]) {
        const std::uint8_t* two = row + 36 * step;
        const std::uint32_t first =
            __byte_perm(shared_word(two + 4 * t), shared_word(two + 4 * t + 4), 0x5432);
        const std::uint32_t second = shared_word(two + 20 + 4 * t);
        unpack_block(first, shared_scale(two), pairs[0], pairs[1]);
        unpack_block(second, shared_scale(two + 18), pairs[2], pairs[3]);
    }
};

/// Two blocks of 34 bytes are 17 words.
template <>
struct WeightFragments<Format<GGML_TYPE_Q8_0>> {
    static constexpr WeightOrder kOrder = WeightOrder::fours;
    static constexpr int kBytes = 272;

    __device__ __forceinline__ static void unpack16(std::uint32_t codes, __half2 d,
                                                    std::uint32_t (&pairs)[2]) {
        const std::uint32_t turned = codes ^ 0x80808080u;
        pairs[0] = bits_of(__hmul2(even_bytes(turned), d));
        pairs[1] = bits_of(__hmul2(odd_bytes(turned), d));
    }

    __device__ __forceinline__ static void unpack(const std::uint8_t* row, int step, int t,
                                                  std::uint32_t (&pairs)[4][2]) {
        const std::uint8_t *two = row + 68 * step, *mine = two + 4 * t;
        const __half2 d0 = shared_scale(two), d1 = shared_scale(two + 34);
        unpack16(__byte_perm(shared_word(mine), shared_word(mine + 4), 0x5432), d0, pairs[0]);
        unpack16(__byte_perm(shared_word(mine + 16), shared_word(mine + 20), 0x5432), d0, pairs[1]);
        unpack16(shared_word(mine + 36), d1, pairs[2]);
        unpack16(shared_word(mine + 52), d1, pairs[3]);
    }
};

/// Sub-blocks 2 `step` and the next of Q4_K and Q5_K: what codes are multiplied with, and what is
/// added then.
struct ScaledPair {
    __half2 scale[2], low[2];

    __device__ __forceinline__ ScaledPair(const std::uint8_t* block, int step) {
        const std::uint32_t factors = shared_word(block);
        const std::uint32_t a = shared_word(block + 4), b = shared_word(block + 8),
                            c = shared_word(block + 12);
        // Two bytes each, of which six bits count.
        const int at = step % 2 * 16;
        std::uint32_t scales, lows;
        if (step < 2) {
            scales = a >> at & 0x3f3fu;
            lows = b >> at & 0x3f3fu;
        } else {
            scales = (c >> at & 0x0f0fu) | (a >> (at + 2) & 0x3030u);
            lows = (c >> (at + 4) & 0x0f0fu) | (b >> (at + 2) & 0x3030u);
        }
        const __half2 d = __low2half2(pair_of(factors)), m = __high2half2(pair_of(factors));
        const __half2 thousand = __float2half2_rn(1024.0f);
        const __half2 both =
            __hmul2(__hsub2(pair_of(__byte_perm(scales, kThousands, 0x7150)), thousand), d);
        const __half2 under =
            __hneg2(__hmul2(__hsub2(pair_of(__byte_perm(lows, kThousands, 0x7150)), thousand), m));
        scale[0] = __low2half2(both), scale[1] = __high2half2(both);
        low[0] = __low2half2(under), low[1] = __high2half2(under);
    }
};

/// 64 elements are 32 bytes of codes: low parts, then high parts.
template <>
struct WeightFragments<Format<GGML_TYPE_Q4_K>> {
    static constexpr WeightOrder kOrder = WeightOrder::fours;
    static constexpr int kBytes = 144;

    __device__ __forceinline__ static void unpack(const std::uint8_t* row, int step, int t,
                                                  std::uint32_t (&pairs)[4][2]) {
        const ScaledPair by(row, step);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const std::uint32_t codes = shared_word(row + 16 + 32 * step + 16 * i + 4 * t);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const std::uint32_t word = codes >> 8 * j;
                pairs[i][j] = bits_of(__hfma2(low_codes(word, 0), by.scale[0], by.low[0]));
                pairs[2 + i][j] = bits_of(__hfma2(high_codes(word, 0), by.scale[1], by.low[1]));
            }
        }
    }
};

/// As Q4_K, with a fifth bit of every element: bit i / 32 of byte i % 32 of 32.
template <>
struct WeightFragments<Format<GGML_TYPE_Q5_K>> {
    static constexpr WeightOrder kOrder = WeightOrder::fours;
    static constexpr int kBytes = 176;

    __device__ __forceinline__ static void unpack(const std::uint8_t* row, int step, int t,
                                                  std::uint32_t (&pairs)[4][2]) {
        const ScaledPair by(row, step);
        const __half2 thousand = __float2half2_rn(1024.0f);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const std::uint32_t codes = shared_word(row + 48 + 32 * step + 16 * i + 4 * t);
            const std::uint32_t bits = shared_word(row + 16 + 16 * i + 4 * t) >> 2 * step;
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const std::uint32_t word = codes >> 8 * j, fifth = bits >> 8 * j;
                const std::uint32_t low =
                    (word & 0x000f000fu) | (fifth << 4 & 0x00100010u) | kThousands;
                const std::uint32_t high =
                    (word >> 4 & 0x000f000fu) | (fifth << 3 & 0x00100010u) | kThousands;
                pairs[i][j] =
                    bits_of(__hfma2(__hsub2(pair_of(low), thousand), by.scale[0], by.low[0]));
                pairs[2 + i][j] =
                    bits_of(__hfma2(__hsub2(pair_of(high), thousand), by.scale[1], by.low[1]));
            }
        }
    }
};

/// A step is half of the 128 elements that share bytes: groups of 32 with the low parts of the
/// codes, or with the high ones, and two bits more of each. Blocks begin at even addresses.
template <>
struct WeightFragments<Format<GGML_TYPE_Q6_K>> {
    static constexpr WeightOrder kOrder = WeightOrder::fours;
    static constexpr int kBytes = 210;

    __device__ __forceinline__ static void unpack(const std::uint8_t* row, int step, int t,
                                                  std::uint32_t (&pairs)[4][2]) {
        const int half = step / 2, part = step % 2;
        const __half2 d = shared_scale(row + 208);
        const std::uint32_t scales = load32(row + 192 + 4 * step) ^ 0x80808080u;
        const __half2 even = __hmul2(even_bytes(scales), d), odd = __hmul2(odd_bytes(scales), d);
        const __half2 by[4] = {__low2half2(even), __low2half2(odd), __high2half2(even),
                               __high2half2(odd)};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const std::uint32_t codes =
                load32(row + 64 * half + 32 * (k / 2) + 16 * (k % 2) + 4 * t) >> 4 * part;
            const std::uint32_t high = load32(row + 128 + 32 * half + 16 * (k % 2) + 4 * t);
            const int shift = 4 * part + 2 * (k / 2);
            const std::uint32_t top = shift < 4 ? high << (4 - shift) : high >> (shift - 4);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const std::uint32_t code =
                    (codes >> 8 * j & 0x000f000fu) | (top >> 8 * j & 0x00300030u) | kThousands;
                pairs[k][j] =
                    bits_of(__hmul2(__hsub2(pair_of(code), __float2half2_rn(1056.0f)), by[k]));
            }
        }
    }
};

}  // namespace heddle::cuda
