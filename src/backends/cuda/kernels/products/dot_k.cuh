#pragma once

#include "backends/cuda/kernels/products/dot_simple.cuh"

/// Dot products of the formats with blocks of 256, for `gemv_ring`.
namespace heddle::cuda {

// ---- sixteen bytes of codes a lane: elements of two neighbouring sub-blocks --------------------

/// Sixteen elements at k and sixteen at k + 32.
struct ActsOfTwo16 {
    static constexpr int kScales = 2;

    uint4 x[2];
    float scale[2];
    int sum[2];

    __device__ static ActsOfTwo16 load(const std::uint8_t* column, std::int64_t depth, int k) {
        ActsOfTwo16 acts;
        const std::uint8_t* bytes = column + Int8Column::byte_at(k);
        const float2 scale =
            *reinterpret_cast<const float2*>(column + Int8Column::scale_at(depth, k));
        const int2 sums = *reinterpret_cast<const int2*>(column + Int8Column::sum_at(depth, k));
        const bool is_upper = (k & 16) != 0;
        acts.x[0] = words4(bytes);
        acts.x[1] = words4(bytes + 32);
        acts.scale[0] = scale.x;
        acts.scale[1] = scale.y;
        acts.sum[0] = is_upper ? high_sum(sums.x) : low_sum(sums.x);
        acts.sum[1] = is_upper ? high_sum(sums.y) : low_sum(sums.y);
        return acts;
    }
};

__device__ __forceinline__ int dot16(uint4 q, uint4 x) {
    return dp4(q.w, x.w, dp4(q.z, x.z, dp4(q.y, x.y, dp4(q.x, x.x, 0))));
}

/// What Q4_K and Q5_K share. Lane j of a block has bytes 16 j .. of the codes: low nibbles are
/// elements of sub-block 2 (j / 2), high ones of the next, of its first or second half.
template <class F, int kStepCount>
struct KWithMinima : BlocksOf256<F, 16, kStepCount> {
    using Acts = ActsOfTwo16;

    __device__ static int first_weight(int step, int lane) {
        const int j = lane & 7;
        return step * 1024 + lane / 8 * 256 + j / 2 * 64 + j % 2 * 16;
    }
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t depth, int k) {
        return Acts::load(column, depth, k);
    }
    /// `header`: d and dmin, twelve bytes of scales and minima.
    __device__ static float combine(const uint4& header, int s0, int s1, const Acts& a, int lane) {
        const int pair = (lane & 7) / 2, shift = 16 * (pair & 1);
        const std::uint32_t u0 = header.y >> shift, u1 = header.z >> shift, u2 = header.w >> shift;
        const std::uint32_t scales = pair < 2 ? u0 & 0x3f3fu : (u2 & 0x0f0fu) | (u0 >> 2 & 0x3030u);
        const std::uint32_t minima =
            pair < 2 ? u1 & 0x3f3fu : (u2 >> 4 & 0x0f0fu) | (u1 >> 2 & 0x3030u);
        const float products =
            a.scale[0] * static_cast<float>(static_cast<int>(scales & 255u) * s0) +
            a.scale[1] * static_cast<float>(static_cast<int>(scales >> 8) * s1);
        const float lows =
            a.scale[0] * static_cast<float>(static_cast<int>(minima & 255u) * a.sum[0]) +
            a.scale[1] * static_cast<float>(static_cast<int>(minima >> 8) * a.sum[1]);
        return low_half(header.x) * products - high_half(header.x) * lows;
    }
};

__device__ __forceinline__ uint4 low_nibbles(uint4 q) {
    return {q.x & kNibbles, q.y & kNibbles, q.z & kNibbles, q.w & kNibbles};
}
__device__ __forceinline__ uint4 high_nibbles(uint4 q) {
    return {q.x >> 4 & kNibbles, q.y >> 4 & kNibbles, q.z >> 4 & kNibbles, q.w >> 4 & kNibbles};
}

template <>
struct Dot<GGML_TYPE_Q4_K> : KWithMinima<Format<GGML_TYPE_Q4_K>, 4> {
    struct Packed {
        uint4 header, codes;
    };
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const std::uint8_t* block = piece + (step * 4 + lane / 8) * 144;
        return {words4(block), words4(block + 16 + (lane & 7) * 16)};
    }
    __device__ static float dot(const Packed& p, const Acts& a, int lane) {
        return combine(p.header, dot16(low_nibbles(p.codes), a.x[0]),
                       dot16_of_high(p.codes, a.x[1]), a, lane);
    }
    /// The high nibbles, without a shift for each word.
    __device__ static int dot16_of_high(uint4 q, uint4 x) {
        int sum = dp4_unsigned(q.x & ~kNibbles, x.x, 0);
        sum = dp4_unsigned(q.y & ~kNibbles, x.y, sum);
        sum = dp4_unsigned(q.z & ~kNibbles, x.z, sum);
        return dp4_unsigned(q.w & ~kNibbles, x.w, sum) >> 4;  // a multiple of 16
    }
};

template <>
struct Dot<GGML_TYPE_Q5_K> : KWithMinima<Format<GGML_TYPE_Q5_K>, 3> {
    struct Packed {
        uint4 header, high, codes;
    };
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const std::uint8_t* block = piece + (step * 4 + lane / 8) * 176;
        return {words4(block), words4(block + 16 + (lane & 1) * 16),
                words4(block + 48 + (lane & 7) * 16)};
    }
    __device__ static uint4 with_bit(uint4 q, uint4 high, int bit) {
        const auto one = [bit](std::uint32_t code, std::uint32_t bits) {
            return code | (bits >> bit & 0x01010101u) << 4;
        };
        return {one(q.x, high.x), one(q.y, high.y), one(q.z, high.z), one(q.w, high.w)};
    }
    __device__ static float dot(const Packed& p, const Acts& a, int lane) {
        const int bit = (lane & 7) / 2 * 2;
        return combine(p.header, dot16(with_bit(low_nibbles(p.codes), p.high, bit), a.x[0]),
                       dot16(with_bit(high_nibbles(p.codes), p.high, bit + 1), a.x[1]), a, lane);
    }
};

template <>
struct Dot<GGML_TYPE_IQ4_XS> : BlocksOf256<Format<GGML_TYPE_IQ4_XS>, 4, 4> {
    struct Packed {
        std::uint32_t d, low, codes[4];
    };
    using Acts = ActsOf32<1>;

    __device__ static int first_weight(int step, int lane) { return step * 1024 + lane * 32; }
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t depth, int k) {
        return Acts::load_interleaved(column, depth, k);
    }
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const std::uint8_t* block = piece + (step * 4 + lane / 8) * 136;
        Packed packed{word(block), word(block + 4), {}};
#pragma unroll
        for (int t = 0; t < 4; ++t) packed.codes[t] = word(block + 8 + (lane & 7) * 16 + 4 * t);
        return packed;
    }
    __device__ static float dot(const Packed& p, const Acts& a, int lane) {
        constexpr std::uint32_t kTable[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
        const int j = lane & 7;
        const std::uint32_t scale = (p.low >> 4 * j & 15u) | (p.d >> (16 + 2 * j) & 3u) << 4;
        const int sum = (static_cast<int>(scale) - 32) * dot_levels(p.codes, kTable, a.x[0]);
        return low_half(p.d) * a.scale[0] * static_cast<float>(sum);
    }
};

// ---- four bytes of every group of 32 a lane ----------------------------------------------------

/// Elements 4 j .. 4 j + 3 of each of the eight groups of 32 of a block.
struct ActsOfEight4 {
    static constexpr int kScales = 8;

    std::uint32_t x[8];
    float scale[8];

    __device__ static ActsOfEight4 load(const std::uint8_t* column, std::int64_t depth, int k) {
        ActsOfEight4 acts;
        const std::uint8_t* bytes = column + Int8Column::byte_at(k);
        const std::uint8_t* scales = column + Int8Column::scale_at(depth, k & ~255);
#pragma unroll
        for (int g = 0; g < 8; ++g) acts.x[g] = word(bytes + 32 * g);
        const uint4 low = words4(scales), high = words4(scales + 16);
        const std::uint32_t all[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int g = 0; g < 8; ++g) acts.scale[g] = __uint_as_float(all[g]);
        return acts;
    }
};

/// What Q2_K, Q3_K and Q6_K share. Blocks whose size is no multiple of 4 alternate between whole
/// and half words: even steps take even blocks, odd steps odd ones, so that a warp reads alike.
template <class F, int kStepCount>
struct KInterleaved : BlocksOf256<F, 4, kStepCount> {
    static constexpr bool kAlternates = F::block_bytes % 4 != 0;
    static_assert(!kAlternates || kStepCount % 2 == 0);
    using Acts = ActsOfEight4;

    __device__ static int block_of(int step, int lane) {
        if (kAlternates) return step / 2 * 8 + lane / 8 * 2 + step % 2;
        return step * 4 + lane / 8;
    }
    __device__ static int first_weight(int step, int lane) {
        return block_of(step, lane) * 256 + (lane & 7) * 4;
    }
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t depth, int k) {
        return Acts::load(column, depth, k);
    }
    /// The word at byte `at` (a multiple of 4) of a block.
    __device__ static std::uint32_t load_word(const std::uint8_t* block, int at, int step) {
        if (!kAlternates || step % 2 == 0) return word(block + at);
        return join(word(block + at - 2), word(block + at + 2), 16);
    }
    /// Bytes 0 2 4 6 of two words, or 1 3 5 7: the scales of the half of 32 that a lane is in.
    __device__ static std::uint32_t every_second(std::uint32_t a, std::uint32_t b, int lane) {
        return __byte_perm(a, b, (lane & 4) != 0 ? 0x7531 : 0x6420);
    }
};

template <>
struct Dot<GGML_TYPE_Q6_K> : KInterleaved<Format<GGML_TYPE_Q6_K>, 2> {
    struct Packed {
        std::uint32_t low[4], high[2], scales[2], d;
    };
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const std::uint8_t* block = piece + block_of(step, lane) * 210;
        const int j = lane & 7;
        Packed p;
#pragma unroll
        for (int t = 0; t < 4; ++t) p.low[t] = load_word(block, 32 * t + 4 * j, step);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            p.high[n] = load_word(block, 128 + 32 * n + 4 * j, step);
            p.scales[n] = every_second(load_word(block, 192 + 8 * n, step),
                                       load_word(block, 196 + 8 * n, step), lane);
        }
        p.d = *reinterpret_cast<const std::uint16_t*>(block + 208);
        return p;
    }
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        float total = 0;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int g = 0; g < 4; ++g) {
                const std::uint32_t low = p.low[2 * n + g % 2] >> (g < 2 ? 0 : 4) & kNibbles;
                const std::uint32_t high = (p.high[n] >> 2 * g & 0x03030303u) << 4;
                const std::uint32_t x = a.x[4 * n + g];
                const int sum = dp4(low | high, x, dp4(0xe0e0e0e0u, x, 0));  // codes less 32
                total += a.scale[4 * n + g] * static_cast<float>(signed_byte(p.scales[n], g) * sum);
            }
        }
        return half_bits_to_float(p.d) * total;
    }
};

template <>
struct Dot<GGML_TYPE_Q3_K> : KInterleaved<Format<GGML_TYPE_Q3_K>, 4> {
    struct Packed {
        std::uint32_t codes[2], mask, scales[2], d;
    };
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const std::uint8_t* block = piece + block_of(step, lane) * 110;
        const int j = lane & 7;
        Packed p;
        p.mask = load_word(block, 4 * j, step);
#pragma unroll
        for (int n = 0; n < 2; ++n) p.codes[n] = load_word(block, 32 + 32 * n + 4 * j, step);
        const std::uint32_t low =
            every_second(load_word(block, 96, step), load_word(block, 100, step), lane);
        const std::uint32_t bits = load_word(block, 104, step);
        const std::uint32_t high = __byte_perm(bits, bits, (lane & 4) != 0 ? 0x3131 : 0x2020);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const std::uint32_t top =
                (high >> 4 * n & 0x00000303u) | (high >> (4 * n + 2) & 0x03030000u);
            p.scales[n] = (low >> 4 * n & kNibbles) | top << 4;
        }
        p.d = *reinterpret_cast<const std::uint16_t*>(block + 108);
        return p;
    }
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        float total = 0;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int g = 0; g < 4; ++g) {
                const std::uint32_t low = p.codes[n] >> 2 * g & 0x03030303u;
                const std::uint32_t high = (p.mask >> (4 * n + g) & 0x01010101u) << 2;
                const std::uint32_t x = a.x[4 * n + g];
                const int sum = dp4(low | high, x, dp4(0xfcfcfcfcu, x, 0));  // codes less 4
                const int scale = static_cast<int>(p.scales[n] >> 8 * g & 255u) - 32;
                total += a.scale[4 * n + g] * static_cast<float>(scale * sum);
            }
        }
        return half_bits_to_float(p.d) * total;
    }
};

template <>
struct Dot<GGML_TYPE_Q2_K> : KInterleaved<Format<GGML_TYPE_Q2_K>, 6> {
    struct Packed {
        std::uint32_t codes[2], scales[2], d;
    };
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const std::uint8_t* block = piece + block_of(step, lane) * 84;
        const int j = lane & 7;
        Packed p;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            p.codes[n] = word(block + 16 + 32 * n + 4 * j);
            p.scales[n] = every_second(word(block + 8 * n), word(block + 8 * n + 4), lane);
        }
        p.d = word(block + 80);
        return p;
    }
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        float products = 0, lows = 0;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int g = 0; g < 4; ++g) {
                const std::uint32_t x = a.x[4 * n + g];
                const int sum = dp4(p.codes[n] >> 2 * g & 0x03030303u, x, 0);
                const int all = dp4(0x01010101u, x, 0);
                const int scale = static_cast<int>(p.scales[n] >> 8 * g & 15u);
                const int minimum = static_cast<int>(p.scales[n] >> (8 * g + 4) & 15u);
                products += a.scale[4 * n + g] * static_cast<float>(scale * sum);
                lows += a.scale[4 * n + g] * static_cast<float>(minimum * all);
            }
        }
        return low_half(p.d) * products - high_half(p.d) * lows;
    }
};

/// The formats that have a `Dot` here, and calls `body(Dot<type>{})`.
template <class Body>
bool dispatch_k_dot(ggml_type type, Body&& body) {
    switch (type) {
        case GGML_TYPE_Q2_K:
            return body(Dot<GGML_TYPE_Q2_K>{}), true;
        case GGML_TYPE_Q3_K:
            return body(Dot<GGML_TYPE_Q3_K>{}), true;
        case GGML_TYPE_Q4_K:
            return body(Dot<GGML_TYPE_Q4_K>{}), true;
        case GGML_TYPE_Q5_K:
            return body(Dot<GGML_TYPE_Q5_K>{}), true;
        case GGML_TYPE_Q6_K:
            return body(Dot<GGML_TYPE_Q6_K>{}), true;
        case GGML_TYPE_IQ4_XS:
            return body(Dot<GGML_TYPE_IQ4_XS>{}), true;
        default:
            return false;
    }
}

/// All formats that have a `Dot`.
template <class Body>
bool dispatch_dot(ggml_type type, Body&& body) {
    return dispatch_simple_dot(type, body) || dispatch_k_dot(type, body);
}

}  // namespace heddle::cuda
