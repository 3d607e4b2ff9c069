#pragma once

#include "backends/cuda/formats/bytes.cuh"
#include "backends/cuda/kernels/attention/attention.hpp"

/// The rows and keys of a block of FLASH_ATTN_EXT. Logits are in units of log2.
namespace heddle::cuda {

__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// ALiBi's factor of the mask for a head.
__device__ inline float slope_of(const AttentionArguments& a, std::int64_t head) {
    if (a.slope_step == 0) return 1;
    const std::int64_t halves =  // of a step
        head < a.slope_heads ? 2 * (head + 1) : 2 * (head - a.slope_heads) + 1;
    return exp2f(a.slope_step * 0.5f * static_cast<float>(halves));
}

/// n / by and n % by of numbers that 32 bits hold: dividing 64 bits takes ten times as long.
struct Division {
    unsigned quotient, remainder;

    __device__ Division(std::int64_t n, std::int64_t by)
        : quotient(static_cast<unsigned>(n) / static_cast<unsigned>(by)),
          remainder(static_cast<unsigned>(n) - quotient * static_cast<unsigned>(by)) {}
};

/// One row of a group.
struct AttentionRow {
    std::int64_t query, head;

    __device__ AttentionRow(const AttentionArguments& a, std::int64_t group, std::int64_t row) {
        const Division place(row, a.group_heads);
        query = place.quotient;
        head = group * a.group_heads + place.remainder;
    }

    /// Its number among all rows of all sequences, as the result counts them.
    __device__ std::int64_t number(const AttentionArguments& a, std::int64_t sequence) const {
        return (sequence * a.queries + query) * a.heads + head;
    }
    __device__ const std::uint8_t* mask(const AttentionArguments& a, std::int64_t sequence) const {
        return a.mask.data + query * a.mask.stride1 +
               Division(head, a.mask2).remainder * a.mask.stride2 +
               Division(sequence, a.mask3).remainder * a.mask.stride3;
    }
};

/// What a block works on: `kRows` rows of a group, one split of the keys.
struct AttentionTile {
    std::int64_t sequence, group, first_row, first_key, last_key;
    int split;

    __device__ AttentionTile(const AttentionArguments& a, int rows)
        : AttentionTile(a, rows, blockIdx.x) {}

    /// By its number among all tiles.
    __device__ AttentionTile(const AttentionArguments& a, int rows, std::int64_t number) {
        const std::int64_t tiles = Division(a.rows() + rows - 1, rows).quotient;
        const Division by_split(number, a.splits);
        split = static_cast<int>(by_split.remainder);
        const Division by_tile(by_split.quotient, tiles);
        // Last rows first: with a causal mask they have the most to do.
        first_row = (tiles - 1 - by_tile.remainder) * rows;
        const Division by_group(by_tile.quotient, a.groups);
        group = by_group.remainder;
        sequence = by_group.quotient;
        first_key = split * a.share;
        last_key = min(first_key + a.share, a.keys);
    }
};

/// What the sums of a finished row are multiplied with: one over its total, which the sink joins.
__device__ inline float finish_row(float largest, float total, const float* sinks,
                                   std::int64_t head) {
    constexpr float kLog2E = 1.4426950408889634f;
    if (!(total > 0) && !isnan(total)) return 0;  // nothing was visible
    if (sinks == nullptr) return 1.0f / total;
    const float sink = sinks[head] * kLog2E, top = fmaxf(largest, sink);
    const float shrink = exp2f(largest - top);
    return shrink / (total * shrink + exp2f(sink - top));
}

}  // namespace heddle::cuda
