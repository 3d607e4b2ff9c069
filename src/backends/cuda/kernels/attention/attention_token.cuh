#pragma once

#include <cuda_fp16.h>

#include "backends/cuda/kernels/attention/attention.cuh"
#include "backends/cuda/kernels/ptx.cuh"

/// What one warp of `attention_token` does: scores of sixteen keys, and the sum of their values.
///
/// Keys and values come straight from global memory into the operands of the matrix instructions:
/// elements of a head, and keys, may be summed up in any order, so each lane takes them as they
/// lie. The upper eight of an operand's sixteen rows have what queries and weights lose when they
/// are rounded to F16.
namespace heddle::cuda {

inline constexpr int kTokenRows = 8;   ///< of a block
inline constexpr int kTokenKeys = 16;  ///< of a warp at a time
inline constexpr float kLog2OfE = 1.4426950408889634f;

/// Halves nearest to two numbers, and what is left of them.
struct SplitHalves {
    std::uint32_t high, low;

    __device__ SplitHalves(float a, float b) {
        const __half2 both = __floats2half2_rn(a, b);
        const float2 back = __half22float2(both);
        high = *reinterpret_cast<const std::uint32_t*>(&both);
        low = pack_halves(a - back.x, b - back.y);
    }
};

/// Where the keys and values of a block lie, and what its rows see of them.
struct TokenRows {
    const std::uint8_t *keys, *values, *mask;
    float slope;
    int row;  ///< of the lane; rows behind the last one are copies of it

    __device__ TokenRows(const AttentionArguments& a, const AttentionTile& place) {
        const std::int64_t head = place.group * a.group_heads;
        keys = a.k.data + head / a.heads_per_key * a.k.stride2 + place.sequence * a.k.stride3;
        values = a.v.data + head / a.heads_per_value * a.v.stride2 + place.sequence * a.v.stride3;
        row = min(static_cast<int>(threadIdx.x % 32 / 4), static_cast<int>(a.rows()) - 1);
        const AttentionRow of(a, place.group, row);
        mask = a.mask.data != nullptr ? of.mask(a, place.sequence) : nullptr;
        slope = a.mask.data != nullptr ? slope_of(a, of.head) : 1.0f;
    }

    /// The mask of a key, as it is stored.
    __device__ std::uint16_t mask_of(std::int64_t key, std::int64_t end) const {
        constexpr std::uint16_t kHidden = 0xfc00;  // -inf
        if (key >= end) return kHidden;
        return mask != nullptr ? *reinterpret_cast<const std::uint16_t*>(mask + 2 * key)
                               : std::uint16_t{0};
    }
    /// -inf: the row does not see the key.
    __device__ float bias(std::uint16_t stored) const {
        const float value = __half2float(__ushort_as_half(stored));
        return value == -INFINITY ? value : value * slope;
    }
};

/// A lane's part of a head: pieces of eight elements, `kLanes` lanes taking one each, then the
/// next.
template <int kPieces, int kLanes>
__device__ __forceinline__ void load_pieces(const std::uint8_t* row, int lane, int size,
                                            bool is_there, uint4 (&to)[kPieces]) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const int at = 8 * (lane + kLanes * i);
        to[i] = is_there && at < size ? *reinterpret_cast<const uint4*>(row + 2 * at)
                                      : uint4{0, 0, 0, 0};
    }
}

/// A warp's state for all rows.
template <int kSize>
struct TokenWarp {
    static constexpr int kKeyPieces = kSize / 32, kValuePieces = kSize / 64;

    std::uint32_t q[kSize / 16][4];
    uint4 k[2][kKeyPieces];    ///< of keys g and g + 8 of sixteen
    uint4 v[4][kValuePieces];  ///< of keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9
    std::uint16_t masks[4];    ///< of the same
    float sums[8 * kValuePieces][4] = {};
    float largest = -INFINITY, total = 0;

    __device__ static int group() { return threadIdx.x % 32 / 4; }
    __device__ static int place() { return threadIdx.x % 4; }
    /// Number i of the keys whose scores and values are the lane's.
    __device__ static int key(int i) { return 2 * place() + i % 2 + i / 2 * 8; }

    /// The lane's part of its row's query, on its way.
    struct Query {
        float4 x[kKeyPieces][2];

        __device__ Query(const AttentionArguments& a, const AttentionTile& tile, int row) {
            const AttentionRow of(a, tile.group, row);
            const auto* from =
                reinterpret_cast<const float*>(a.q.data + of.query * a.q.stride1 +
                                               of.head * a.q.stride2 + tile.sequence * a.q.stride3);
#pragma unroll
            for (int i = 0; i < kKeyPieces; ++i) {
                const int at = 8 * (place() + 4 * i);
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    x[i][e] = at < a.key_size
                                  ? __ldcg(reinterpret_cast<const float4*>(from + at) + e)
                                  : float4{0, 0, 0, 0};
            }
        }
    };

    /// The query, times the scale, as both halves of an operand.
    __device__ void take(const Query& query, float scale) {
#pragma unroll
        for (int i = 0; i < kKeyPieces; ++i) {
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                const float4& four = query.x[i][w / 2];
                const SplitHalves two((w % 2 == 0 ? four.x : four.z) * scale,
                                      (w % 2 == 0 ? four.y : four.w) * scale);
                q[2 * i + w / 2][w % 2 * 2] = two.high;
                q[2 * i + w / 2][w % 2 * 2 + 1] = two.low;
            }
        }
    }

    __device__ void load_keys(const AttentionArguments& a, const TokenRows& rows,
                              std::int64_t first, std::int64_t end) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const std::int64_t key = first + group() + 8 * n;
            load_pieces<kKeyPieces, 4>(rows.keys + key * a.k.stride1, place(), a.key_size,
                                       key < end, k[n]);
        }
    }
    __device__ void load_values(const AttentionArguments& a, const TokenRows& rows,
                                std::int64_t first, std::int64_t end) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const std::int64_t number = first + key(i);
            load_pieces<kValuePieces, 8>(rows.values + number * a.v.stride1, group(), a.value_size,
                                         number < end, v[i]);
        }
    }

    /// Sixteen keys from `first` on, their values and masks: nothing waits for them here.
    __device__ void load(const AttentionArguments& a, const TokenRows& rows, std::int64_t first,
                         std::int64_t end) {
        load_keys(a, rows, first, end);
        load_values(a, rows, first, end);
#pragma unroll
        for (int i = 0; i < 4; ++i) masks[i] = rows.mask_of(first + key(i), end);
    }

    /// Logits of the lane's row and keys, in units of log2.
    __device__ void score(const AttentionArguments& a, const float (&biases)[4],
                          float (&scores)[4]) const {
        float c[2][4] = {};
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int i = 0; i < kKeyPieces; ++i) {
                multiply_halves(c[n], q[2 * i], k[n][i].x, k[n][i].y);
                multiply_halves(c[n], q[2 * i + 1], k[n][i].z, k[n][i].w);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float logit = c[i / 2][i % 2] + c[i / 2][i % 2 + 2];
            if (a.softcap != 0) logit = a.softcap * tanhf(logit / a.softcap);
            scores[i] = biases[i] == -INFINITY ? -INFINITY : (logit + biases[i]) * kLog2OfE;
        }
    }

    /// Scores become weights; what was summed up before is made smaller if need be.
    __device__ void weigh(float (&scores)[4]) {
        float top = fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        top = fmaxf(top, largest);
        const float shrink = top == -INFINITY ? 1.0f : exp2f(largest - top);
        if (__any_sync(0xffffffffu, shrink != 1.0f)) {
            total *= shrink;
#pragma unroll
            for (int n = 0; n < 8 * kValuePieces; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[n][i] *= shrink;
        }
        largest = top;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            scores[i] = scores[i] == -INFINITY ? 0.0f : exp2f(scores[i] - top);
            total += scores[i];
        }
    }

    /// Values of keys that no row sees may be anything, even NaN.
    __device__ void hide_values(const float (&biases)[4]) {
        unsigned seen = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) seen |= (biases[i] != -INFINITY ? 1u : 0u) << i;
        seen = __reduce_or_sync(0xffffffffu, seen << 4 * place());
        if (seen == 0xffffu) return;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if ((seen >> (4 * place() + i) & 1u) != 0) continue;
#pragma unroll
            for (int p = 0; p < kValuePieces; ++p) v[i][p] = {0, 0, 0, 0};
        }
    }

    __device__ void add_values(const float (&weights)[4]) {
        const SplitHalves first(weights[0], weights[1]), second(weights[2], weights[3]);
        const std::uint32_t w[4] = {first.high, first.low, second.high, second.low};
#pragma unroll
        for (int p = 0; p < kValuePieces; ++p) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const auto word = [&](int i) {
                    return reinterpret_cast<const std::uint32_t*>(&v[i][p])[j];
                };
                multiply_halves(sums[8 * p + 2 * j], w, __byte_perm(word(0), word(1), 0x5410),
                                __byte_perm(word(2), word(3), 0x5410));
                multiply_halves(sums[8 * p + 2 * j + 1], w, __byte_perm(word(0), word(1), 0x7632),
                                __byte_perm(word(2), word(3), 0x7632));
            }
        }
    }
};

}  // namespace heddle::cuda
