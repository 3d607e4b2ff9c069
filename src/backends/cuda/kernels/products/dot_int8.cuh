#pragma once

#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/products/gemv_ring.cuh"
#include "backends/cuda/kernels/products/int8_column.cuh"

/// Dot products of quantised weights and activations of eight bits, for `gemv_ring`.
namespace heddle::cuda {

// ---- words in shared memory --------------------------------------------------------------------

__device__ __forceinline__ std::uint32_t word(const std::uint8_t* p) {
    return *reinterpret_cast<const std::uint32_t*>(p);
}
__device__ __forceinline__ uint2 words2(const std::uint8_t* p) {
    return *reinterpret_cast<const uint2*>(p);
}
__device__ __forceinline__ uint4 words4(const std::uint8_t* p) {
    return *reinterpret_cast<const uint4*>(p);
}
/// Bits `shift` and up of two words, the first one lower.
__device__ __forceinline__ std::uint32_t join(std::uint32_t low, std::uint32_t high, int shift) {
    return __funnelshift_r(low, high, shift);
}
__device__ __forceinline__ float low_half(std::uint32_t w) {
    return half_bits_to_float(w & 0xffffu);
}
__device__ __forceinline__ float high_half(std::uint32_t w) { return half_bits_to_float(w >> 16); }
__device__ __forceinline__ int low_sum(int both) { return static_cast<short>(both & 0xffff); }
__device__ __forceinline__ int high_sum(int both) { return both >> 16; }
__device__ __forceinline__ int dp4(std::uint32_t a, std::uint32_t b, int sum) {
    return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
}
/// The bytes of `a` are not signed.
__device__ __forceinline__ int dp4_unsigned(std::uint32_t a, std::uint32_t b, int sum) {
    int result;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}
/// Four bytes of two words, which the nibbles of the selector choose; if the highest bit of one is
/// set, the byte's sign instead, eight times.
__device__ __forceinline__ std::uint32_t bytes_or_signs(std::uint32_t low, std::uint32_t high,
                                                        std::uint32_t selector) {
    std::uint32_t result;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
    return result;
}
__device__ __forceinline__ int signed_byte(std::uint32_t w, int i) {
    return static_cast<int>(w << (24 - 8 * i)) >> 24;
}

inline constexpr std::uint32_t kNibbles = 0x0f0f0f0fu;

/// Levels of eight nibbles (two of each byte: elements j and j + 16), from a table of sixteen
/// signed bytes in four words.
struct Looked {
    std::uint32_t low, high;

    __device__ __forceinline__ Looked(std::uint32_t q, const std::uint32_t (&table)[4]) {
        const std::uint32_t first = four(q, table), second = four(q >> 16, table);
        low = __byte_perm(first, second, 0x6420);
        high = __byte_perm(first, second, 0x7531);
    }

private:
    /// The levels of the four lowest nibbles.
    __device__ __forceinline__ static std::uint32_t four(std::uint32_t q,
                                                         const std::uint32_t (&table)[4]) {
        const std::uint32_t index = q & 0x7777u;
        const std::uint32_t lower = __byte_perm(table[0], table[1], index);
        const std::uint32_t upper = __byte_perm(table[2], table[3], index);
        return __byte_perm(lower, upper, 0x3210u | (q >> 1 & 0x4444u));
    }
};

// ---- what the formats share --------------------------------------------------------------------

/// Quantising a column on its way to shared memory: q = round(x / d), d = max |x| / 127 of
/// every 32.
template <DotOperand kOperand>
struct Int8Activations {
    static constexpr bool kHasCodes = true;

    __host__ __device__ static int column_bytes(std::int64_t depth) {
        return static_cast<int>(Int8Column::bytes(depth));
    }
    /// Eight lanes for 32 elements.
    __device__ static void load_column(const GemvArguments& a, std::int64_t number,
                                       std::uint8_t* to, int thread, int threads) {
        const auto* row = reinterpret_cast<const float*>(a.acts.row(number));
        const std::int64_t depth = a.weights.depth;
        const bool is_aligned = (reinterpret_cast<std::uintptr_t>(row) & 15u) == 0;
        const int end = static_cast<int>(Int8Column::blocks(depth)) * Int8Column::kBlock;
        constexpr int kBatch = 4;  // loads under way at once: each takes as long as all the rest
        for (int first = 4 * thread; first < end; first += kBatch * 4 * threads) {
            float4 x[kBatch];
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                x[i] = load4(row, first + i * 4 * threads, depth, is_aligned);
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                const int k = first + i * 4 * threads;
                if (k < end) stage4(x[i], depth, k, to);  // whole warps: 128 divides `end`
            }
        }
    }

    /// Elements of a column in shared memory; those behind its end are zeros.
    HEDDLE_HD static int staged_depth(int depth) {
        return static_cast<int>(Int8Column::blocks(depth)) * Int8Column::kBlock;
    }
    __device__ static void stage4(const float4& x, std::int64_t depth, int k, std::uint8_t* to) {
        std::uint32_t bits = max(max(magnitude_bits(x.x), magnitude_bits(x.y)),
                                 max(magnitude_bits(x.z), magnitude_bits(x.w)));
#pragma unroll
        for (int step = 4; step > 0; step /= 2)
            bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, step));
        const ByteScale scale(bits);
        const int q0 = scale.code(x.x), q1 = scale.code(x.y), q2 = scale.code(x.z),
                  q3 = scale.code(x.w);
        int sum = q0 + q1 + q2 + q3;
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        const int upper = __shfl_xor_sync(0xffffffffu, sum, 4);
        *reinterpret_cast<std::uint32_t*>(to + Int8Column::byte_at(k)) =
            static_cast<std::uint32_t>((q0 & 255) | (q1 & 255) << 8 | (q2 & 255) << 16 | q3 << 24);
        if (k % 32 != 0) return;
        *reinterpret_cast<float*>(to + Int8Column::scale_at(depth, k)) = scale.stored(kOperand);
        *reinterpret_cast<int*>(to + Int8Column::sum_at(depth, k)) =
            kOperand == DotOperand::q8_1 ? __float_as_int(stored_sum(scale, sum + upper))
                                         : (sum & 0xffff) | upper << 16;
    }

    /// Eight elements, four lanes for 32. Scales are neither complete nor rounded yet, and sums are
    /// those of codes: see `finish`. As few instructions as can be: no cache has them yet.
    __device__ static void stage8(const float (&x)[8], std::int64_t depth, int k,
                                  std::uint8_t* to) {
        std::uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) bits = max(bits, magnitude_bits(x[i]));
        bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, 1));
        bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, 2));
        const QuickScale scale(bits);
        const std::uint32_t words[2] = {scale.word(x[0], x[1], x[2], x[3]),
                                        scale.word(x[4], x[5], x[6], x[7])};
        int sum = dp4(words[0], 0x01010101u, dp4(words[1], 0x01010101u, 0));
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        const int upper = __shfl_xor_sync(0xffffffffu, sum, 2);
        *reinterpret_cast<uint2*>(to + Int8Column::byte_at(k)) = {words[0], words[1]};
        if (k % 32 != 0) return;
        *reinterpret_cast<float*>(to + Int8Column::scale_at(depth, k)) = scale.d;
        *reinterpret_cast<int*>(to + Int8Column::sum_at(depth, k)) = (sum & 0xffff) | upper << 16;
    }

    /// What `stage8` left, times `factor`, as products use it.
    template <class Acts>
    __device__ static void finish(Acts& acts, float factor) {
#pragma unroll
        for (int b = 0; b < Acts::kScales; ++b) {
            const float d = mul(acts.scale[b], factor);
            acts.scale[b] = has_half_scale(kOperand) ? round_to_half(d) : d;
            if constexpr (kOperand == DotOperand::q8_1) {
                const auto sum = static_cast<float>(acts.sum(b));
                acts.sums[b] = __float_as_int(round_to_half(mul(sum, d)));
            }
        }
    }

private:
    __device__ static float4 load4(const float* row, int k, std::int64_t depth, bool is_aligned) {
        if (k >= depth) return {0, 0, 0, 0};
        if (is_aligned) return *reinterpret_cast<const float4*>(row + k);
        return {row[k], row[k + 1], row[k + 2], row[k + 3]};
    }
};

/// `kCount` blocks of 32 one after the other.
template <int kCount>
struct ActsOf32 {
    static constexpr int kScales = kCount;

    std::uint32_t x[kCount][8];
    float scale[kCount];
    int sums[kCount];

    __device__ static ActsOf32 load(const std::uint8_t* column, std::int64_t depth, int k) {
        ActsOf32 acts;
        const std::uint8_t* bytes = column + Int8Column::byte_at(k);
#pragma unroll
        for (int b = 0; b < kCount; ++b) {
            const uint4 low = words4(bytes + 32 * b), high = words4(bytes + 32 * b + 16);
            const std::uint32_t all[8] = {low.x,  low.y,  low.z,  low.w,
                                          high.x, high.y, high.z, high.w};
#pragma unroll
            for (int i = 0; i < 8; ++i) acts.x[b][i] = all[i];
            acts.scale[b] = __uint_as_float(word(column + Int8Column::scale_at(depth, k) + 4 * b));
            acts.sums[b] = static_cast<int>(word(column + Int8Column::sum_at(depth, k) + 4 * b));
        }
        return acts;
    }
    /// As the codes of 32 elements lie: bytes have elements j and j + 16.
    __device__ static ActsOf32 load_interleaved(const std::uint8_t* column, std::int64_t depth,
                                                int k) {
        const ActsOf32 plain = load(column, depth, k);
        ActsOf32 acts = plain;
#pragma unroll
        for (int b = 0; b < kCount; ++b) {
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                acts.x[b][2 * t] = __byte_perm(plain.x[b][t], plain.x[b][t + 4], 0x5140);
                acts.x[b][2 * t + 1] = __byte_perm(plain.x[b][t], plain.x[b][t + 4], 0x7362);
            }
        }
        return acts;
    }
    __device__ int sum(int b) const { return low_sum(sums[b]) + high_sum(sums[b]); }
    /// As Q8_1 has it, times the scale.
    __device__ float scaled_sum(int b) const { return __int_as_float(sums[b]); }
};

/// Formats where each lane takes whole blocks of 32: `kCount` blocks that fill `kWords` words.
template <class F, int kCount, int kWordCount, int kStepCount,
          DotOperand kOperand = DotOperand::q8_0>
struct BlocksOf32 : Int8Activations<kOperand> {
    static constexpr int kAlignment = 4, kSteps = kStepCount;
    static constexpr int kStepWeights = 32 * 32 * kCount, kStepBytes = 32 * 4 * kWordCount;
    static constexpr int kPieceWeights = kSteps * kStepWeights, kPieceBytes = kSteps * kStepBytes;
    static constexpr int kDepthUnit = 32 * kCount;
    static_assert(F::block_bytes * kCount == 4 * kWordCount && F::block_elements == 32);

    struct Packed {
        std::uint32_t w[kWordCount];
    };
    using Acts = ActsOf32<kCount>;

    __host__ __device__ static std::int64_t row_bytes(std::int64_t depth) {
        return depth / 32 * F::block_bytes;
    }
    __device__ static int first_weight(int step, int lane) {
        return step * kStepWeights + lane * 32 * kCount;
    }
    __device__ static Packed load(const std::uint8_t* piece, int step, int lane) {
        Packed packed;
        const std::uint8_t* from = piece + step * kStepBytes + lane * 4 * kWordCount;
#pragma unroll
        for (int i = 0; i < kWordCount; ++i) packed.w[i] = word(from + 4 * i);
        return packed;
    }
    __device__ static Acts load_acts(const std::uint8_t* column, std::int64_t depth, int k) {
        return Acts::load(column, depth, k);
    }
};

/// Formats of 256 elements, of which a warp takes four or eight blocks in a step.
template <class F, int kAlign, int kStepCount, int kBlocks = 4>
struct BlocksOf256 : Int8Activations<DotOperand::q8_f32> {
    static constexpr int kAlignment = kAlign, kSteps = kStepCount;
    static constexpr int kPieceWeights = kSteps * kBlocks * 256;
    static constexpr int kPieceBytes = kSteps * kBlocks * F::block_bytes;
    static constexpr int kDepthUnit = 256;
    static_assert(kPieceBytes % 16 == 0);

    __host__ __device__ static std::int64_t row_bytes(std::int64_t depth) {
        return depth / 256 * F::block_bytes;
    }
};

}  // namespace heddle::cuda
