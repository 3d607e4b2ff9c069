#pragma once

#include "backends/cuda/kernels/products/dot_int8.cuh"

/// Dot products of the formats with blocks of 32 (and NVFP4), for `gemv_ring`.
namespace heddle::cuda {

template <ggml_type kType>
struct Dot;

/// Sum of four words of nibbles times 32 activations, beginning with `sum`.
__device__ __forceinline__ int dot_nibbles(const std::uint32_t (&q)[4], const std::uint32_t (&x)[8],
                                           int sum) {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        sum = dp4(q[t] & kNibbles, x[t], sum);
        sum = dp4(q[t] >> 4 & kNibbles, x[t + 4], sum);
    }
    return sum;
}

/// Sixteen times the same, which saves shifts. `start` is sixteen times what the sum begins with.
__device__ __forceinline__ int dot_nibbles_16(const std::uint32_t (&q)[4],
                                              const std::uint32_t (&x)[8], int start) {
    int low = 0, high = start;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        low = dp4(q[t] & kNibbles, x[t], low);
        high = dp4_unsigned(q[t] & ~kNibbles, x[t + 4], high);
    }
    return 16 * low + high;
}

/// The same with a fifth bit for each code.
__device__ __forceinline__ int dot_five_bits(const std::uint32_t (&q)[4], std::uint32_t high,
                                             const std::uint32_t (&x)[8], int sum) {
    // Bits 0 .. 3 of the factor land at the bottom of a byte each.
    const auto spread = [](std::uint32_t bits) {
        return ((bits & 15u) * 0x00204081u & 0x01010101u) << 4;
    };
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        sum = dp4((q[t] & kNibbles) | spread(high >> 4 * t), x[t], sum);
        sum = dp4((q[t] >> 4 & kNibbles) | spread(high >> (16 + 4 * t)), x[t + 4], sum);
    }
    return sum;
}

/// A table of sixteen signed bytes in four words, as `dot_levels` takes it. A permutation looks up
/// three bits; the fourth one makes it give the sign of the level instead, 0 or -1. So either half
/// is asked, the upper one with that bit inverted, and both answers are added up: the level one of
/// them gives, and what the sign of the other one adds is taken off the level beforehand.
struct LevelHalves {
    std::uint32_t w[4];

    /// Byte i of the other half, if it is not less than 0: nothing; else the level is one more.
    __host__ __device__ static constexpr std::uint32_t corrected(std::uint32_t levels,
                                                                 std::uint32_t others) {
        std::uint32_t result = 0;
        for (int i = 0; i < 32; i += 8) {
            const std::uint32_t more = (others >> i & 0x80u) != 0 ? 1 : 0;
            result |= ((levels >> i & 255u) + more & 255u) << i;
        }
        return result;
    }
    __host__ __device__ constexpr LevelHalves(std::uint32_t w0, std::uint32_t w1, std::uint32_t w2,
                                              std::uint32_t w3)
        : w{corrected(w0, w2), corrected(w1, w3), corrected(w2, w0), corrected(w3, w1)} {}
};
__host__ __device__ constexpr LevelHalves nonlinear_halves() {
    return {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
}

/// Sum of four words of codes, whose levels are in a table, times 32 activations that are
/// interleaved as the codes are.
__device__ __forceinline__ int dot_levels(const std::uint32_t (&q)[4], LevelHalves table,
                                          const std::uint32_t (&x)[8]) {
    int low = 0, high = 0;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        const std::uint32_t upper = q[t] ^ 0x88888888u;
        low = dp4(bytes_or_signs(table.w[0], table.w[1], q[t]), x[2 * t], low);
        high = dp4(bytes_or_signs(table.w[2], table.w[3], upper), x[2 * t], high);
        low = dp4(bytes_or_signs(table.w[0], table.w[1], q[t] >> 16), x[2 * t + 1], low);
        high = dp4(bytes_or_signs(table.w[2], table.w[3], upper >> 16), x[2 * t + 1], high);
    }
    return low + high;
}

/// Four words of codes of the first block of a pair, which begin in the middle of word `first`, and
/// of the second, which are whole words.
__device__ __forceinline__ void shifted(const std::uint32_t* w, int shift, std::uint32_t (&q)[4]) {
#pragma unroll
    for (int t = 0; t < 4; ++t) q[t] = join(w[t], w[t + 1], shift);
}
__device__ __forceinline__ void whole(const std::uint32_t* w, std::uint32_t (&q)[4]) {
#pragma unroll
    for (int t = 0; t < 4; ++t) q[t] = w[t];
}

template <>
struct Dot<GGML_TYPE_Q4_0> : BlocksOf32<Format<GGML_TYPE_Q4_0>, 2, 9, 2> {
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        std::uint32_t first[4], second[4];
        shifted(p.w, 16, first);
        whole(p.w + 5, second);
        const int s0 = dot_nibbles_16(first, a.x[0], -128 * a.sum(0));
        const int s1 = dot_nibbles_16(second, a.x[1], -128 * a.sum(1));
        return low_half(p.w[0]) * (a.scale[0] / 16) * static_cast<float>(s0) +
               high_half(p.w[4]) * (a.scale[1] / 16) * static_cast<float>(s1);
    }
};

template <>
struct Dot<GGML_TYPE_IQ4_NL> : BlocksOf32<Format<GGML_TYPE_IQ4_NL>, 2, 9, 2> {
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t depth, int k) {
        return Acts::load_interleaved(column, depth, k);
    }
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        std::uint32_t first[4], second[4];
        shifted(p.w, 16, first);
        whole(p.w + 5, second);
        return low_half(p.w[0]) * a.scale[0] *
                   static_cast<float>(dot_levels(first, nonlinear_halves(), a.x[0])) +
               high_half(p.w[4]) * a.scale[1] *
                   static_cast<float>(dot_levels(second, nonlinear_halves(), a.x[1]));
    }
};

template <>
struct Dot<GGML_TYPE_Q4_1> : BlocksOf32<Format<GGML_TYPE_Q4_1>, 1, 5, 3, DotOperand::q8_1> {
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        std::uint32_t codes[4];
        whole(p.w + 1, codes);
        const auto product = static_cast<float>(dot_nibbles(codes, a.x[0], 0));
        return low_half(p.w[0]) * a.scale[0] * product + high_half(p.w[0]) * a.scaled_sum(0);
    }
};

template <>
struct Dot<GGML_TYPE_Q5_0> : BlocksOf32<Format<GGML_TYPE_Q5_0>, 2, 11, 1> {
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        std::uint32_t first[4], second[4];
        shifted(p.w + 1, 16, first);
        whole(p.w + 7, second);
        const int s0 = dot_five_bits(first, join(p.w[0], p.w[1], 16), a.x[0], -16 * a.sum(0));
        const int s1 = dot_five_bits(second, p.w[6], a.x[1], -16 * a.sum(1));
        return low_half(p.w[0]) * a.scale[0] * static_cast<float>(s0) +
               high_half(p.w[5]) * a.scale[1] * static_cast<float>(s1);
    }
};

template <>
struct Dot<GGML_TYPE_Q5_1> : BlocksOf32<Format<GGML_TYPE_Q5_1>, 1, 6, 3, DotOperand::q8_1> {
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        std::uint32_t codes[4];
        whole(p.w + 2, codes);
        const auto product = static_cast<float>(dot_five_bits(codes, p.w[1], a.x[0], 0));
        return low_half(p.w[0]) * a.scale[0] * product + high_half(p.w[0]) * a.scaled_sum(0);
    }
};

template <>
struct Dot<GGML_TYPE_Q8_0> : BlocksOf32<Format<GGML_TYPE_Q8_0>, 2, 17, 1> {
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        int s0 = 0, s1 = 0;
#pragma unroll
        for (int t = 0; t < 8; ++t) {
            s0 = dp4(join(p.w[t], p.w[t + 1], 16), a.x[0][t], s0);
            s1 = dp4(p.w[9 + t], a.x[1][t], s1);
        }
        return low_half(p.w[0]) * a.scale[0] * static_cast<float>(s0) +
               high_half(p.w[8]) * a.scale[1] * static_cast<float>(s1);
    }
};

// ---- four-bit floats ---------------------------------------------------------------------------

/// Doubled E2M1 values as signed bytes.
__device__ __forceinline__ void load_fp4_table(std::uint32_t (&table)[4]) {
    table[0] = 0x03020100u;
    table[1] = 0x0c080604u;
    table[2] = 0xfdfeff00u;
    table[3] = 0xf4f8fafcu;
}

template <>
struct Dot<GGML_TYPE_MXFP4> : BlocksOf32<Format<GGML_TYPE_MXFP4>, 4, 17, 1> {
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t depth, int k) {
        return Acts::load_interleaved(column, depth, k);
    }
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        constexpr LevelHalves kTable{0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu};
        std::uint32_t q[4];
        float total = 0;
        // Block b begins at byte 17 b: its exponent is byte b of word 4 b, its codes follow.
#pragma unroll
        for (int b = 0; b < 4; ++b) {
            if (b < 3)
                shifted(p.w + 4 * b, 8 * (b + 1), q);
            else
                whole(p.w + 13, q);
            const float d = e8m0_to_float_half(p.w[4 * b] >> 8 * b & 255u);
            total += d * a.scale[b] * static_cast<float>(dot_levels(q, kTable, a.x[b]));
        }
        return total;
    }
};

template <>
struct Dot<GGML_TYPE_NVFP4> : Int8Activations<DotOperand::q8_0> {
    static constexpr int kAlignment = 4, kSteps = 2;
    static constexpr int kPieceWeights = kSteps * 2048, kPieceBytes = kSteps * 1152;
    static constexpr int kDepthUnit = 64;

    struct Packed {
        std::uint32_t w[9];
    };
    using Acts = ActsOf32<2>;

    __host__ __device__ static std::int64_t row_bytes(std::int64_t depth) {
        return depth / 64 * 36;
    }
    __device__ static int first_weight(int step, int lane) { return step * 2048 + lane * 64; }
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        Packed packed;
        const std::uint8_t* from = piece + step * 1152 + lane * 36;
#pragma unroll
        for (int i = 0; i < 9; ++i) packed.w[i] = word(from + 4 * i);
        return packed;
    }
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t depth, int k) {
        return Acts::load(column, depth, k);
    }
    /// Sixteen elements share a scale; bytes have elements j and j + 8.
    __device__ static float dot(const Packed& p, const Acts& a, int) {
        std::uint32_t table[4];
        load_fp4_table(table);
        float total = 0;
#pragma unroll
        for (int g = 0; g < 4; ++g) {
            const std::uint32_t* x = &a.x[g / 2][g % 2 * 4];
            const Looked first(p.w[1 + 2 * g], table), second(p.w[2 + 2 * g], table);
            int sum = dp4(first.low, x[0], 0);
            sum = dp4(second.low, x[1], sum);
            sum = dp4(first.high, x[2], sum);
            sum = dp4(second.high, x[3], sum);
            total += ue4m3_to_float_half(p.w[0] >> 8 * g & 255u) * a.scale[g / 2] *
                     static_cast<float>(sum);
        }
        return total;
    }
};

/// The formats that have a `Dot` here, and calls `body(Dot<type>{})`.
template <class Body>
bool dispatch_simple_dot(ggml_type type, Body&& body) {
    switch (type) {
        case GGML_TYPE_Q4_0:
            return body(Dot<GGML_TYPE_Q4_0>{}), true;
        case GGML_TYPE_Q4_1:
            return body(Dot<GGML_TYPE_Q4_1>{}), true;
        case GGML_TYPE_Q5_0:
            return body(Dot<GGML_TYPE_Q5_0>{}), true;
        case GGML_TYPE_Q5_1:
            return body(Dot<GGML_TYPE_Q5_1>{}), true;
        case GGML_TYPE_Q8_0:
            return body(Dot<GGML_TYPE_Q8_0>{}), true;
        case GGML_TYPE_IQ4_NL:
            return body(Dot<GGML_TYPE_IQ4_NL>{}), true;
        case GGML_TYPE_MXFP4:
            return body(Dot<GGML_TYPE_MXFP4>{}), true;
        case GGML_TYPE_NVFP4:
            return body(Dot<GGML_TYPE_NVFP4>{}), true;
        default:
            return false;
    }
}

}  // namespace heddle::cuda
