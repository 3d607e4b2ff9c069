#pragma once

#include "backends/cuda/kernels/products/dot_simple.cuh"

/// Dot products of the formats with blocks of 256, for `gemv_ring`.
namespace heddle::cuda {

// ---- 32 bytes of codes a lane: elements of two neighbouring sub-blocks -------------------------

__device__ __forceinline__ uint4 low_nibbles(uint4 q) {
    return {q.x & kNibbles, q.y & kNibbles, q.z & kNibbles, q.w & kNibbles};
}
__device__ __forceinline__ uint4 high_nibbles(uint4 q) {
    return {q.x >> 4 & kNibbles, q.y >> 4 & kNibbles, q.z >> 4 & kNibbles, q.w >> 4 & kNibbles};
}
__device__ __forceinline__ int dot16(uint4 q, const std::uint32_t* x, int sum) {
    return dp4(q.w, x[3], dp4(q.z, x[2], dp4(q.y, x[1], dp4(q.x, x[0], sum))));
}

/// What Q4_K and Q5_K share. Lane j of the four of a block has bytes 32 j .. of the codes: low
/// nibbles are elements of sub-block 2 j, high ones of the next.
template <class F>
struct KWithMinima : BlocksOf256<F, 16, 2, 8> {
    using Acts = ActsOf32<2>;

    __device__ static int first_weight(int step, int lane) { return step * 2048 + lane * 64; }
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t depth, int k) {
        Acts acts = Acts::load(column, depth, k);
        acts.sums[0] = acts.sum(0), acts.sums[1] = acts.sum(1);
        return acts;
    }
    /// `header`: d and dmin, twelve bytes of scales and minima.
    __device__ static float combine(const uint4& header, int s0, int s1, const Acts& a, int lane) {
        const int pair = lane & 3, shift = 16 * (pair & 1);
        const std::uint32_t u0 = header.y >> shift, u1 = header.z >> shift, u2 = header.w >> shift;
        const std::uint32_t scales = pair < 2 ? u0 & 0x3f3fu : (u2 & 0x0f0fu) | (u0 >> 2 & 0x3030u);
        const std::uint32_t minima =
            pair < 2 ? u1 & 0x3f3fu : (u2 >> 4 & 0x0f0fu) | (u1 >> 2 & 0x3030u);
        const float products =
            a.scale[0] * static_cast<float>(static_cast<int>(scales & 255u) * s0) +
            a.scale[1] * static_cast<float>(static_cast<int>(scales >> 8) * s1);
        const float lows =
            a.scale[0] * static_cast<float>(static_cast<int>(minima & 255u) * a.sums[0]) +
            a.scale[1] * static_cast<float>(static_cast<int>(minima >> 8) * a.sums[1]);
        return low_half(header.x) * products - high_half(header.x) * lows;
    }
};

template <>
struct Dot<GGML_TYPE_Q4_K> : KWithMinima<Format<GGML_TYPE_Q4_K>> {
    struct Packed {
        uint4 header, codes[2];
    };
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const std::uint8_t* block = piece + (step * 8 + lane / 4) * 144;
        const std::uint8_t* codes = block + 16 + (lane & 3) * 32;
        return {words4(block), {words4(codes), words4(codes + 16)}};
    }
    __device__ static float dot(const Packed& p, const Acts& a, int lane) {
        int low = 0, high = 0;  // sixteen times the high nibbles, which saves shifts
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            low = dot16(low_nibbles(p.codes[h]), a.x[0] + 4 * h, low);
            high = dot16_of_high(p.codes[h], a.x[1] + 4 * h, high);
        }
        return combine(p.header, low, high >> 4, a, lane);
    }
    __device__ static int dot16_of_high(uint4 q, const std::uint32_t* x, int sum) {
        sum = dp4_unsigned(q.x & ~kNibbles, x[0], sum);
        sum = dp4_unsigned(q.y & ~kNibbles, x[1], sum);
        sum = dp4_unsigned(q.z & ~kNibbles, x[2], sum);
        return dp4_unsigned(q.w & ~kNibbles, x[3], sum);
    }
};

template <>
struct Dot<GGML_TYPE_Q5_K> : KWithMinima<Format<GGML_TYPE_Q5_K>> {
    struct Packed {
        uint4 header, high[2], codes[2];
    };
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const std::uint8_t* block = piece + (step * 8 + lane / 4) * 176;
        const std::uint8_t* codes = block + 48 + (lane & 3) * 32;
        return {words4(block),
                {words4(block + 16), words4(block + 32)},
                {words4(codes), words4(codes + 16)}};
    }
    __device__ static uint4 with_bit(uint4 q, uint4 high, int bit) {
        const auto one = [bit](std::uint32_t code, std::uint32_t bits) {
            return code | (bits >> bit & 0x01010101u) << 4;
        };
        return {one(q.x, high.x), one(q.y, high.y), one(q.z, high.z), one(q.w, high.w)};
    }
    __device__ static float dot(const Packed& p, const Acts& a, int lane) {
        const int bit = (lane & 3) * 2;
        int s0 = 0, s1 = 0;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            s0 = dot16(with_bit(low_nibbles(p.codes[h]), p.high[h], bit), a.x[0] + 4 * h, s0);
            s1 = dot16(with_bit(high_nibbles(p.codes[h]), p.high[h], bit + 1), a.x[1] + 4 * h, s1);
        }
        return combine(p.header, s0, s1, a, lane);
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
        const int j = lane & 7;
        const std::uint32_t scale = (p.low >> 4 * j & 15u) | (p.d >> (16 + 2 * j) & 3u) << 4;
        const int sum =
            (static_cast<int>(scale) - 32) * dot_levels(p.codes, nonlinear_halves(), a.x[0]);
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

/// What Q2_K and Q3_K share. Blocks whose size is no multiple of 4 alternate between whole
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

/// Sixteen elements of each of the four groups of 32 of half a block.
struct ActsOfFour16 {
    static constexpr int kScales = 4;

    uint4 x[4];
    float scale[4];
    int sums[4];

    __device__ static ActsOfFour16 load(const std::uint8_t* column, std::int64_t depth, int k) {
        ActsOfFour16 acts;
        const std::uint8_t* bytes = column + Int8Column::byte_at(k);
        const uint4 scales = words4(column + Int8Column::scale_at(depth, k & ~127));
        const uint4 sums = words4(column + Int8Column::sum_at(depth, k & ~127));
        const std::uint32_t all[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
        for (int g = 0; g < 4; ++g) {
            acts.x[g] = words4(bytes + 32 * g);
            const int both = static_cast<int>(all[g]);
            acts.sums[g] = (k & 16) != 0 ? high_sum(both) : low_sum(both);
        }
        acts.scale[0] = __uint_as_float(scales.x), acts.scale[1] = __uint_as_float(scales.y);
        acts.scale[2] = __uint_as_float(scales.z), acts.scale[3] = __uint_as_float(scales.w);
        return acts;
    }
};

/// Four lanes to a block, one for every second sixteen of each half: all of a scale's elements are
/// one lane's. Every second block begins in the middle of a word.
template <>
struct Dot<GGML_TYPE_Q6_K> : BlocksOf256<Format<GGML_TYPE_Q6_K>, 4, 2, 8> {
    using Acts = ActsOfFour16;
    struct Packed {
        uint4 low[2], high;
        std::uint32_t scales, d;
    };
    __device__ static int first_weight(int step, int lane) {
        return step * 2048 + lane / 4 * 256 + (lane & 2) * 64 + (lane & 1) * 16;
    }
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t depth, int k) {
        return Acts::load(column, depth, k);
    }
    __device__ static uint4 sixteen(const std::uint8_t* from, int shift) {
        std::uint32_t w[5];
#pragma unroll
        for (int i = 0; i < 5; ++i) w[i] = word(from + 4 * i);
        return {join(w[0], w[1], shift), join(w[1], w[2], shift), join(w[2], w[3], shift),
                join(w[3], w[4], shift)};
    }
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        const int offset = (step * 8 + lane / 4) * 210, shift = (offset & 2) * 8;
        const std::uint8_t* const block = piece + (offset & ~3);  // or two bytes before it
        const int half = lane >> 1 & 1, part = lane & 1;
        Packed p;
        p.low[0] = sixteen(block + 64 * half + 16 * part, shift);
        p.low[1] = sixteen(block + 64 * half + 16 * part + 32, shift);
        p.high = sixteen(block + 128 + 32 * half + 16 * part, shift);
        const std::uint8_t* const scales = block + 192 + 8 * half;
        const std::uint32_t second = word(scales + 4);
        p.scales = __byte_perm(join(word(scales), second, shift),
                               join(second, word(scales + 8), shift), part != 0 ? 0x7531 : 0x6420);
        p.d = *reinterpret_cast<const std::uint16_t*>(piece + offset + 208);
        return p;
    }
    /// Number `kGroup` of four codes in a word of each.
    template <int kGroup>
    __device__ static std::uint32_t codes(std::uint32_t low, std::uint32_t high) {
        const std::uint32_t bits = kGroup < 2    ? high << (4 - 2 * kGroup)
                                   : kGroup == 2 ? high
                                                 : high >> 2;
        return ((kGroup < 2 ? low : low >> 4) & kNibbles) | (bits & 0x30303030u);
    }
    template <int kGroup>
    __device__ static float group(const Packed& p, const Acts& a) {
        const uint4 &low = p.low[kGroup % 2], &x = a.x[kGroup];
        int sum = -32 * a.sums[kGroup];
        sum = dp4(codes<kGroup>(low.x, p.high.x), x.x, sum);
        sum = dp4(codes<kGroup>(low.y, p.high.y), x.y, sum);
        sum = dp4(codes<kGroup>(low.z, p.high.z), x.z, sum);
        sum = dp4(codes<kGroup>(low.w, p.high.w), x.w, sum);
        return a.scale[kGroup] * static_cast<float>(signed_byte(p.scales, kGroup) * sum);
    }
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        return half_bits_to_float(p.d) *
               ((group<0>(p, a) + group<1>(p, a)) + (group<2>(p, a) + group<3>(p, a)));
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
