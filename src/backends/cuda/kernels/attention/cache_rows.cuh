#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "core/tensor.hpp"

/// Cached keys and values as halves, from rows that lie in shared memory.
///
/// A row is as it is in global memory and begins at a multiple of 4 bytes. A lane takes elements
/// 4 j .. 4 j + 3 and 16 + 4 j .. 16 + 4 j + 3 of a block of 32, j = 0 .. 3, in this order: of the
/// first four 0 and 2, 1 and 3, then the same of the others. So they lie in words of the formats.
///
/// Codes become halves by their bits alone: 1024 has its last bit worth 1. Where a code lies four
/// bits further up, it counts sixteen times.
namespace heddle::cuda {

/// The word at an even place of a row.
__device__ __forceinline__ std::uint32_t word_at(const std::uint8_t* row, int at) {
    const auto* words = reinterpret_cast<const std::uint32_t*>(row + at / 4 * 4);
    return __funnelshift_r(words[0], words[1], 8 * (at % 4));
}

__device__ __forceinline__ __half2 as_half2(std::uint32_t word) {
    return *reinterpret_cast<const __half2*>(&word);
}
__device__ __forceinline__ std::uint32_t as_word(__half2 pair) {
    return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ __forceinline__ float half_at(const std::uint8_t* at) {
    return __half2float(*reinterpret_cast<const __half*>(at));
}
/// A field of a block, for both halves.
__device__ __forceinline__ __half2 twice(const std::uint8_t* at) {
    return __half2half2(*reinterpret_cast<const __half*>(at));
}

/// (x & mask) ^ bits in one instruction: the compiler takes two where both are constants.
__device__ __forceinline__ std::uint32_t mask_xor(std::uint32_t x, std::uint32_t mask,
                                                  std::uint32_t bits) {
    std::uint32_t y;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(y) : "r"(x), "r"(mask), "r"(bits));
    return y;
}

inline constexpr std::uint32_t kBoth1024 = 0x64006400u;

/// Eight codes as halves that are too large by something.
struct RawCodes {
    std::uint32_t pairs[4];

    /// Signed bytes: 1024 + 128 too large.
    __device__ __forceinline__ static RawCodes of_bytes(std::uint32_t lower, std::uint32_t upper) {
        constexpr std::uint32_t kMask = 0x00ff00ffu, kBits = kBoth1024 | 0x00800080u;
        return {{mask_xor(lower, kMask, kBits), mask_xor(lower >> 8, kMask, kBits),
                 mask_xor(upper, kMask, kBits), mask_xor(upper >> 8, kMask, kBits)}};
    }
    /// Nibbles: 1024 too large, the upper four after they count sixteen times.
    __device__ __forceinline__ static RawCodes of_nibbles(std::uint32_t word) {
        return {
            {mask_xor(word, 0x000f000fu, kBoth1024), mask_xor(word >> 8, 0x000f000fu, kBoth1024),
             mask_xor(word, 0x00f000f0u, kBoth1024), mask_xor(word >> 8, 0x00f000f0u, kBoth1024)}};
    }
    /// Fifth bits above nibbles: of elements 4 j + i and 16 + 4 j + i, bits i and 16 + i.
    __device__ __forceinline__ void add_fifth(std::uint32_t bits) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const std::uint32_t two = bits >> (i / 2 * 16 + i % 2);
            const int place = i < 2 ? 4 : 8;
            pairs[i] |= (two & 1u) << place | (two & 4u) << (place + 14);
        }
    }
};

/// Keys and values of a format: where its fields lie, and its codes as a lane takes them.
template <ggml_type>
struct CacheRows;

/// Codes with a scale, perhaps a minimum, which lies behind it.
template <int kBytes, int kOffset_, bool kHasMinimum_, bool kIsWide_>
struct CacheFields {
    static constexpr int kBlockBytes = kBytes;
    static constexpr bool kHasMinimum = kHasMinimum_;

    /// Of the lower and upper four codes: how often they count, and what is too much then.
    __device__ static constexpr float factor(bool is_upper) {
        return is_upper && !kIsWide_ ? 16 : 1;
    }
    __device__ static constexpr float excess(bool is_upper) {
        return 1024 + kOffset_ * factor(is_upper);
    }

    __device__ __forceinline__ static float scale(const std::uint8_t* row, int block) {
        return half_at(row + kBytes * block);
    }
    __device__ __forceinline__ static float minimum(const std::uint8_t* row, int block) {
        return kHasMinimum ? half_at(row + kBytes * block + 2) : 0;
    }
};

template <>
struct CacheRows<GGML_TYPE_Q8_0> : CacheFields<34, 128, false, true> {
    __device__ __forceinline__ static RawCodes codes(const std::uint8_t* row, int block, int j) {
        const int at = kBlockBytes * block + 2 + 4 * j;
        return RawCodes::of_bytes(word_at(row, at), word_at(row, at + 16));
    }
};

/// Nibbles behind all else, perhaps with fifth bits before them.
template <int kBytes, int kOffset, bool kHasMinimum, bool kHasFifth>
struct NibbleRows : CacheFields<kBytes, kOffset, kHasMinimum, false> {
    __device__ __forceinline__ static RawCodes codes(const std::uint8_t* row, int block, int j) {
        const int at = kBytes * (block + 1) - 16;
        RawCodes codes = RawCodes::of_nibbles(word_at(row, at + 4 * j));
        if (kHasFifth) codes.add_fifth(word_at(row, at - 4) >> 4 * j);
        return codes;
    }
};
template <>
struct CacheRows<GGML_TYPE_Q4_0> : NibbleRows<18, 8, false, false> {};
template <>
struct CacheRows<GGML_TYPE_Q4_1> : NibbleRows<20, 0, true, false> {};
template <>
struct CacheRows<GGML_TYPE_Q5_0> : NibbleRows<22, 16, false, true> {};
template <>
struct CacheRows<GGML_TYPE_Q5_1> : NibbleRows<24, 0, true, true> {};

template <>
struct CacheRows<GGML_TYPE_IQ4_NL> : CacheFields<18, 128, false, true> {
    /// Levels of the four codes in the lower half of a word, a byte each.
    __device__ __forceinline__ static std::uint32_t levels(std::uint32_t codes) {
        const std::uint32_t of_eight = codes & 0x7777u;
        const std::uint32_t low = __byte_perm(0xbfad9881u, 0xf6eaddcfu, of_eight),
                            high = __byte_perm(0x26190d01u, 0x71594535u, of_eight);
        return __byte_perm(low, high, 0x3210u | (codes >> 1 & 0x4444u));
    }

    __device__ __forceinline__ static RawCodes codes(const std::uint8_t* row, int block, int j) {
        const std::uint32_t word = word_at(row, kBlockBytes * block + 2 + 4 * j);
        // Elements 0, 16, 1, 17 of a lane's and 2, 18, 3, 19.
        const std::uint32_t first = levels(word & 0xffffu), second = levels(word >> 16);
        return RawCodes::of_bytes(__byte_perm(first, second, 0x6420),
                                  __byte_perm(first, second, 0x7531));
    }
};

/// What the codes stand for.
template <class Rows>
__device__ __forceinline__ void decode_codes(const std::uint8_t* row, int block, int j,
                                             std::uint32_t (&to)[4]) {
    const RawCodes codes = Rows::codes(row, block, j);
    const std::uint8_t* const fields = row + Rows::kBlockBytes * block;
    const __half2 d = twice(fields);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float factor = 1 / Rows::factor(i >= 2), excess = Rows::excess(i >= 2);
        const __half2 code = factor == 1
                                 ? __hsub2(as_half2(codes.pairs[i]), __float2half2_rn(excess))
                                 : __hfma2(as_half2(codes.pairs[i]), __float2half2_rn(factor),
                                           __float2half2_rn(-excess * factor));
        if constexpr (Rows::kHasMinimum)
            to[i] = as_word(__hfma2(code, d, twice(fields + 2)));
        else
            to[i] = as_word(__hmul2(code, d));
    }
}

}  // namespace heddle::cuda
