#pragma once

#include "backends/cuda/kernels/attention/ring_stages.cuh"
#include "backends/cuda/kernels/wgmma.cuh"

/// What one warp of `attention_ring` does: tensor cores work on the keys and values that have come.
///
/// Keys are rows of the first product's operand, elements of values those of the second one's; the
/// eight columns are rows of queries. Where there is room, further columns have what queries and
/// weights lose when they are rounded to F16.
namespace heddle::cuda {

/// Transposes eight rows of eight halves, a row of which four lanes have.
__device__ __forceinline__ std::uint32_t transpose8(std::uint32_t pair) {
    std::uint32_t y;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(pair));
    return y;
}

/// What is left of two numbers that are rounded to halves.
__device__ __forceinline__ std::uint32_t lost_halves(float a, float b) {
    const float2 back = __half22float2(__floats2half2_rn(a, b));
    return pack_halves(a - back.x, b - back.y);
}

/// What a stage of keys is, beside keys and values.
struct RingKeys {
    const std::uint8_t* masks;
    int left;  ///< keys from the first on that are the block's
};

/// A warp's state for all rows. Of a product's columns a lane has two: 2 t and 2 t + 1.
template <class L>
class RingWarp {
public:
    /// The lane's part of a query, on its way.
    struct Query {
        float x[L::kSize / 16][4];

        __device__ Query(const AttentionArguments& a, const AttentionTile& place) {
            const AttentionRow row(a, place.group, row_of(a, group()));
            const std::uint8_t* const from = a.q.data + row.query * a.q.stride1 +
                                             row.head * a.q.stride2 + place.sequence * a.q.stride3;
#pragma unroll
            for (int k = 0; k < L::kSize / 16; ++k) {
                if constexpr (L::kIsHalf) {
                    load(reinterpret_cast<const float2*>(from), 16 * k + 2 * quad(), a, x[k]);
                    load(reinterpret_cast<const float2*>(from), 16 * k + 8 + 2 * quad(), a,
                         x[k] + 2);
                } else {
                    load(reinterpret_cast<const float4*>(from), 16 * k + 4 * quad(), a, x[k]);
                }
            }
        }

    private:
        template <class Several>
        __device__ __forceinline__ static void load(const Several* from, int at,
                                                    const AttentionArguments& a, float* to) {
            constexpr int kCount = sizeof(Several) / sizeof(float);
            Several values{};
            if (at < a.key_size) values = __ldcg(from + at / kCount);
#pragma unroll
            for (int i = 0; i < kCount; ++i) to[i] = reinterpret_cast<const float*>(&values)[i];
        }
    };

    __device__ RingWarp(const AttentionArguments& a, const AttentionTile& place, const Query& query)
        : a_(a) {
        take(query);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            const std::int64_t number = row_of(a, 2 * quad() + c);
            const AttentionRow row(a, place.group, number);
            mask_at_[c] = static_cast<int>(a.mask2 > 1 ? number : row.query) * L::kMaskPitch;
            slope_[c] = a.mask.data != nullptr ? slope_of(a, row.head) : 1.0f;
        }
    }

    /// A stage's keys and values.
    __device__ __forceinline__ void add(const std::uint8_t* keys, const std::uint8_t* values,
                                        const RingKeys& of) {
        float scores[L::kBlocks][2][2];
        bool is_seen[L::kBlocks][2];
#pragma unroll
        for (int b = 0; b < L::kBlocks; ++b) score(keys, b, scores[b]);
        if (a_.softcap != 0) cap(scores);
#pragma unroll
        for (int b = 0; b < L::kBlocks; ++b) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int key = 16 * b + 8 * h + group();
                is_seen[b][h] = false;
#pragma unroll
                for (int c = 0; c < 2; ++c) {
                    float bias = 0;
                    if (a_.mask.data != nullptr) bias = half_at(of.masks + mask_at_[c] + 2 * key);
                    const bool is_hidden = bias == -INFINITY || key >= of.left;
                    const float logit = (scores[b][h][c] + bias * slope_[c]) * kLog2E;
                    scores[b][h][c] = is_hidden ? -INFINITY : logit;
                    is_seen[b][h] = is_seen[b][h] || !is_hidden;
                }
            }
        }
        weigh(scores);
#pragma unroll
        for (int b = 0; b < L::kBlocks; ++b) {
            std::uint32_t weights[L::kTiles][2];
            pack(scores[b], weights);
            const unsigned low = __ballot_sync(0xffffffffu, is_seen[b][0]),
                           high = __ballot_sync(0xffffffffu, is_seen[b][1]);
            if ((low & high) == 0xffffffffu)
                add_values<false>(values, b, weights, 0, 0);
            else
                add_values<true>(values, b, weights, seen_keys(low), seen_keys(high));
        }
    }

    /// What the warp knows of the rows, to shared memory.
    __device__ __forceinline__ void leave(float* to) {
#pragma unroll
        for (int c = 0; c < 2; ++c)
#pragma unroll
            for (int step = 4; step < 32; step *= 2)
                total_[c] += __shfl_xor_sync(0xffffffffu, total_[c], step);
        const bool writes = L::kLow != Low::beside || quad() < 2;
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            float* const row = to + (2 * quad() + c) * L::kEntry;
            if (writes && group() == 0) row[L::kSize] = total_[c], row[L::kSize + 1] = largest_[c];
#pragma unroll
            for (int m = 0; m < kElements; ++m) {
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    float sum = sums_[0][m][2 * h + c];
                    if (L::kLow == Low::apart) sum += sums_[L::kTiles - 1][m][2 * h + c];
                    if (L::kLow == Low::beside) sum += __shfl_xor_sync(0xffffffffu, sum, 2);
                    if (writes) row[element_of(m, h)] = sum;
                }
            }
        }
    }

private:
    using Rows = CacheRows<L::kType>;  ///< not for F16
    static constexpr float kLog2E = 1.4426950408889634f;
    static constexpr int kElements = L::kSize / 16;  ///< tiles of sixteen elements

    __device__ static int group() { return threadIdx.x % 32 / 4; }
    __device__ static int quad() { return threadIdx.x % 4; }
    /// The row of a column; rows behind the last one are copies of it.
    __device__ static std::int64_t row_of(const AttentionArguments& a, int column) {
        return min(std::int64_t{column % L::kRows}, a.rows() - 1);
    }
    /// Of lanes' votes about keys of eight: a bit for each key.
    __device__ static unsigned seen_keys(unsigned votes) {
        votes |= votes >> 1, votes |= votes >> 2;
        votes &= 0x11111111u;
        votes |= votes >> 3, votes &= 0x03030303u;
        votes |= votes >> 6, votes &= 0x000f000fu;
        return (votes | votes >> 12) & 0xffu;
    }
    /// Which element of a value is row group() + 8 h of tile m.
    __device__ static int element_of(int m, int h) {
        if (L::kIsHalf) return 16 * m + 8 * h + group();
        const int block = m / 4 * 2 + group() / 4;
        return 32 * block + m % 4 / 2 * 16 + 4 * (group() % 4) + m % 2 + 2 * h;
    }
    /// The query times the scale, as operands, in the order of keys' elements.
    __device__ __forceinline__ void take(const Query& query) {
#pragma unroll
        for (int k = 0; k < L::kSize / 16; ++k) {
            float factor = a_.scale;
            if constexpr (!L::kIsHalf) factor /= Rows::factor(k % 2 == 1);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float first = query.x[k][L::kIsHalf ? 2 * i : i] * factor,
                            second = query.x[k][L::kIsHalf ? 2 * i + 1 : i + 2] * factor;
                const std::uint32_t high = pack_halves(first, second),
                                    low = lost_halves(first, second);
                q_[0][k][i] = L::kLow == Low::beside && group() >= 4 ? low : high;
                if (L::kLow == Low::apart) q_[L::kTiles - 1][k][i] = low;
            }
        }
        if constexpr (!L::kIsHalf) {
#pragma unroll
            for (int b = 0; b < L::kSize / 32; ++b) take_excess(b);
        }
    }

    /// What a block's codes make too much of, and the sum of a query's elements there.
    __device__ __forceinline__ void take_excess(int b) {
        float sums[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float2 first = __half22float2(as_half2(q_[0][2 * b + half][0])),
                         second = __half22float2(as_half2(q_[0][2 * b + half][1]));
            sums[half] = first.x + first.y + second.x + second.y;
        }
        float excess = -(Rows::excess(false) * sums[0] + Rows::excess(true) * sums[1]);
        float total = sums[0] + Rows::factor(true) * sums[1];
#pragma unroll
        for (int step = 1; step < 4; step *= 2) {
            excess += __shfl_xor_sync(0xffffffffu, excess, step);
            total += __shfl_xor_sync(0xffffffffu, total, step);
        }
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            excess_[b][c] = __shfl_sync(0xffffffffu, excess, 8 * quad() + 4 * c);
            total_q_[b][c] = __shfl_sync(0xffffffffu, total, 8 * quad() + 4 * c);
        }
    }

    /// Logits of sixteen keys, without softcap and mask: of keys group() and 8 more, two rows.
    __device__ __forceinline__ void score(const std::uint8_t* keys, int b, float (&scores)[2][2]) {
        if constexpr (L::kIsHalf)
            score_halves(keys, b, scores);
        else
            score_codes(keys, b, scores);
        if (L::kLow == Low::beside) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                scores[i / 2][i % 2] += __shfl_xor_sync(0xffffffffu, scores[i / 2][i % 2], 2);
        }
    }

    __device__ __forceinline__ void score_halves(const std::uint8_t* keys, int b,
                                                 float (&scores)[2][2]) {
        float c[L::kTiles][2][4] = {};  // two chains of products: each waits for the one before
        const int lane = threadIdx.x % 32, key = 16 * b + lane % 16;
#pragma unroll
        for (int k = 0; k < L::kSize / 16; ++k) {
            std::uint32_t operand[4];
            load_matrices(operand, keys + k / 4 * L::kBoxBytes + key * 128 +
                                       16 * swizzled(key, k % 4 * 2 + lane / 16));
#pragma unroll
            for (int t = 0; t < L::kTiles; ++t)
                multiply_halves(c[t][k % 2], operand, q_[t][k][0], q_[t][k][1]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            scores[i / 2][i % 2] = c[0][0][i] + c[0][1][i];
            if (L::kLow == Low::apart)
                scores[i / 2][i % 2] += c[L::kTiles - 1][0][i] + c[L::kTiles - 1][1][i];
        }
    }

    /// Codes are multiplied as they are. What they are too large by was known before.
    __device__ __forceinline__ void score_codes(const std::uint8_t* keys, int b,
                                                float (&scores)[2][2]) {
        const std::uint8_t* const rows[2] = {keys + (16 * b + group()) * L::kPitch,
                                             keys + (16 * b + 8 + group()) * L::kPitch};
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[i / 2][i % 2] = 0;
#pragma unroll
        for (int block = 0; block < L::kSize / 32; ++block) {
            const RawCodes upper = Rows::codes(rows[0], block, quad()),
                           lower = Rows::codes(rows[1], block, quad());
            float c[4] = {excess_[block][0], excess_[block][1], excess_[block][0],
                          excess_[block][1]};
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const std::uint32_t operand[4] = {upper.pairs[2 * i], lower.pairs[2 * i],
                                                  upper.pairs[2 * i + 1], lower.pairs[2 * i + 1]};
                multiply_halves(c, operand, q_[0][2 * block + i][0], q_[0][2 * block + i][1]);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& score = scores[i / 2][i % 2];
                score += Rows::scale(rows[i / 2], block) * c[i];
                if (Rows::kHasMinimum)
                    score += Rows::minimum(rows[i / 2], block) * total_q_[block][i % 2];
            }
        }
    }

    __device__ __forceinline__ void cap(float (&scores)[L::kBlocks][2][2]) const {
#pragma unroll
        for (int i = 0; i < 4 * L::kBlocks; ++i) {
            float& score = scores[i / 4][i / 2 % 2][i % 2];
            score = a_.softcap * tanhf(score / a_.softcap);
        }
    }

    /// Logits become weights; what was summed up before is made smaller if need be.
    __device__ __forceinline__ void weigh(float (&scores)[L::kBlocks][2][2]) {
        float shrink[2];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            float top = -INFINITY;
#pragma unroll
            for (int b = 0; b < L::kBlocks; ++b)
                top = fmaxf(top, fmaxf(scores[b][0][c], scores[b][1][c]));
#pragma unroll
            for (int step = 4; step < 32; step *= 2)
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
            top = fmaxf(top, largest_[c]);
            shrink[c] = top == -INFINITY ? 1.0f : exp2_fast(largest_[c] - top);
            largest_[c] = top;
            total_[c] *= shrink[c];
            const float under = top == -INFINITY ? 0.0f : top;
#pragma unroll
            for (int b = 0; b < L::kBlocks; ++b) {
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    scores[b][h][c] = exp2_fast(scores[b][h][c] - under);
                    total_[c] += scores[b][h][c];
                }
            }
        }
        if (!__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) return;
#pragma unroll
        for (int t = 0; t < L::kTiles; ++t)
#pragma unroll
            for (int m = 0; m < kElements; ++m)
#pragma unroll
                for (int i = 0; i < 4; ++i) sums_[t][m][i] *= shrink[i % 2];
    }

    /// Weights of sixteen keys as operands.
    __device__ __forceinline__ void pack(const float (&scores)[2][2],
                                         std::uint32_t (&weights)[L::kTiles][2]) const {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            std::uint32_t high = pack_halves(scores[h][0], scores[h][1]);
            const std::uint32_t low = lost_halves(scores[h][0], scores[h][1]);
            if (L::kLow == Low::beside && quad() >= 2) high = low;
            weights[0][h] = transpose8(high);
            if (L::kLow == Low::apart) weights[L::kTiles - 1][h] = transpose8(low);
        }
    }

    /// Values of sixteen keys, times their weights. Those that no row sees may be anything, even
    /// NaN.
    template <bool kHides>
    __device__ __forceinline__ void add_values(const std::uint8_t* values, int b,
                                               const std::uint32_t (&weights)[L::kTiles][2],
                                               unsigned seen_low, unsigned seen_high) {
        const auto keep = [](unsigned seen) {
            return (seen >> 2 * quad() & 1u) * 0xffffu |
                   (seen >> (2 * quad() + 1) & 1u) * 0xffff0000u;
        };
        const std::uint32_t keeps[2] = {keep(seen_low), keep(seen_high)};
        const auto multiply = [&](int m, std::uint32_t(&operand)[4]) {
            if (kHides) {
#pragma unroll
                for (int i = 0; i < 4; ++i) operand[i] &= keeps[i / 2];
            }
#pragma unroll
            for (int t = 0; t < L::kTiles; ++t)
                multiply_halves(sums_[t][m], operand, weights[t][0], weights[t][1]);
        };
        if constexpr (L::kIsHalf) {
            const int lane = threadIdx.x % 32, key = 16 * b + lane / 16 * 8 + lane % 8;
#pragma unroll
            for (int m = 0; m < kElements; ++m) {
                std::uint32_t operand[4];
                load_matrices_transposed(operand, values + m / 4 * L::kBoxBytes + key * 128 +
                                                      16 * swizzled(key, m % 4 * 2 + lane / 8 % 2));
                multiply(m, operand);
            }
        } else {
            const std::uint8_t* const row = values + (16 * b + 2 * quad()) * L::kPitch;
#pragma unroll
            for (int m = 0; m < kElements; m += 4) {
                std::uint32_t of_key[4][4];
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    decode_codes<Rows>(row + (i % 2 + i / 2 * 8) * L::kPitch, m / 2 + group() / 4,
                                       group() % 4, of_key[i]);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    std::uint32_t operand[4];
#pragma unroll
                    for (int o = 0; o < 4; ++o)
                        operand[o] = __byte_perm(of_key[o / 2 * 2][i], of_key[o / 2 * 2 + 1][i],
                                                 o % 2 == 0 ? 0x5410 : 0x7632);
                    multiply(m + i, operand);
                }
            }
        }
    }

    const AttentionArguments& a_;
    int mask_at_[2];
    float slope_[2];
    std::uint32_t q_[L::kTiles][L::kSize / 16][2];
    float sums_[L::kTiles][kElements][4] = {};
    float largest_[2] = {-INFINITY, -INFINITY}, total_[2] = {};
    float excess_[L::kSize / 32][2], total_q_[L::kSize / 32][2];  ///< of each block of elements
};

}  // namespace heddle::cuda
