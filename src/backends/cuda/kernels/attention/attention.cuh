#pragma once

#include "backends/cuda/formats/bytes.cuh"
#include "backends/cuda/kernels/attention/attention.hpp"

/// The rows and keys of a block of FLASH_ATTN_EXT. Logits are in units of log2.
namespace heddle::cuda {

/// ALiBi's factor of the mask for a head.
__device__ inline float slope_of(const AttentionArguments& a, std::int64_t head) {
    if (a.slope_base == 0) return 1;
    return head < a.slope_heads
               ? powf(a.slope_base, static_cast<float>(head + 1))
               : powf(a.slope_base2, static_cast<float>(2 * (head - a.slope_heads) + 1));
}

/// One row of a group.
struct AttentionRow {
    std::int64_t query, head;

    __device__ AttentionRow(const AttentionArguments& a, std::int64_t group, std::int64_t row)
        : query(row / a.group_heads), head(group * a.group_heads + row % a.group_heads) {}

    /// Its number among all rows of all sequences, as the result counts them.
    __device__ std::int64_t number(const AttentionArguments& a, std::int64_t sequence) const {
        return (sequence * a.queries + query) * a.heads + head;
    }
    __device__ const std::uint8_t* mask(const AttentionArguments& a, std::int64_t sequence) const {
        return a.mask.data + query * a.mask.stride1 + head % a.mask2 * a.mask.stride2 +
               sequence % a.mask3 * a.mask.stride3;
    }
};

/// What a block works on: `kRows` rows of a group, one split of the keys.
struct AttentionTile {
    std::int64_t sequence, group, first_row, first_key, last_key;
    int split;

    __device__ AttentionTile(const AttentionArguments& a, int rows) {
        const std::int64_t tiles = (a.rows() + rows - 1) / rows;
        std::int64_t number = blockIdx.x;
        split = static_cast<int>(number % a.splits);
        number /= a.splits;
        // Last rows first: with a causal mask they have the most to do.
        first_row = (tiles - 1 - number % tiles) * rows;
        number /= tiles;
        group = number % a.groups;
        sequence = number / a.groups;
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
