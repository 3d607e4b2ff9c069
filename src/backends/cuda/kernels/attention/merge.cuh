#pragma once

#include "backends/cuda/kernels/attention/attention.cuh"

/// Joining the splits of a tile's rows by the block that finishes last.
namespace heddle::cuda {

/// Whether this is the last of `count` blocks that take this ticket. What the others wrote before
/// is visible to it. The ticket is as it was afterwards.
__device__ inline bool is_last_block(unsigned* ticket, unsigned count) {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(ticket, 1u) == count - 1;
        if (is_last) *ticket = 0;
    }
    __syncthreads();
    if (is_last) __threadfence();
    return is_last;
}

/// What the splits of a row are weighed with, by one warp, to shared memory.
__device__ inline void weigh_splits(const AttentionArguments& a, const float* parts,
                                    std::int64_t head, float* weights) {
    const int lane = threadIdx.x % 32;
    const std::int64_t size = partial_floats(a.value_size);
    float largest = -INFINITY, total = 0;
    float first_total = 0, first_logit = -INFINITY;  // of the lane's first split
    for (int s = lane; s < a.splits; s += 32) {
        const float* part = parts + s * size + a.value_size;
        const float of_split = __ldcg(part), logit = __ldcg(part + 1);
        if (s == lane) first_total = of_split, first_logit = logit;
        if (of_split == 0) continue;
        const float top = fmaxf(largest, logit);
        total = total * exp2f(largest - top) + of_split * exp2f(logit - top);
        largest = top;
    }
    float top = largest;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
    total = largest == -INFINITY ? 0.0f : total * exp2f(largest - top);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
    const float factor = finish_row(top, total, a.sinks, head);
    for (int s = lane; s < a.splits; s += 32) {
        const float* part = parts + s * size + a.value_size;
        const float of_split = s == lane ? first_total : __ldcg(part);
        const float logit = s == lane ? first_logit : __ldcg(part + 1);
        weights[s] = of_split != 0 ? exp2f(logit - top) * factor : 0.0f;
    }
}

/// One element of the result, of several that a thread has under way at once.
struct MergedElement {
    static constexpr int kSplits = 16;  ///< that are loaded at once
    const float* from;                  ///< null: there is no such element
    const float* weights;
    float* to;
    float values[kSplits];

    __device__ MergedElement(const AttentionArguments& a, const AttentionTile& place, int i,
                             float* weights_of_rows)
        : from(nullptr) {
        if (i >= a.rows() * a.value_size) return;
        const Division where(i, a.value_size);
        const AttentionRow row(a, place.group, where.quotient);
        const std::int64_t number = row.number(a, place.sequence);
        from = a.partial + number * a.splits * partial_floats(a.value_size) + where.remainder;
        to = a.y + number * a.value_size + where.remainder;
        weights = weights_of_rows + where.quotient * a.splits;
    }
    __device__ void load(const AttentionArguments& a, int first) {
#pragma unroll
        for (int s = 0; s < kSplits; ++s) {
            if (from != nullptr && first + s < a.splits)
                values[s] = __ldcg(from + (first + s) * partial_floats(a.value_size));
        }
    }
    __device__ float add(const AttentionArguments& a, int first, float sum) const {
#pragma unroll
        for (int s = 0; s < kSplits; ++s) {
            if (from == nullptr || first + s >= a.splits) continue;
            const float weight = weights[first + s];
            sum += weight != 0 ? values[s] * weight : 0.0f;
        }
        return sum;
    }
};

/// Joins the splits of all rows of a group, in order. `weights` is shared memory for a number of
/// each row and split. Values are under way before their weights are known: a latency less.
__device__ inline void merge_group(const AttentionArguments& a, const AttentionTile& place,
                                   float* weights) {
    constexpr int kAtOnce = 4;
    const std::int64_t size = partial_floats(a.value_size);
    const int rows = static_cast<int>(a.rows()), count = rows * a.value_size;
    for (int base = threadIdx.x; base - static_cast<int>(threadIdx.x) < count;
         base += kAtOnce * blockDim.x) {
        MergedElement of[kAtOnce] = {
            {a, place, base, weights},
            {a, place, base + static_cast<int>(blockDim.x), weights},
            {a, place, base + 2 * static_cast<int>(blockDim.x), weights},
            {a, place, base + 3 * static_cast<int>(blockDim.x), weights},
        };
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) of[n].load(a, 0);
        if (base == static_cast<int>(threadIdx.x)) {
            for (int r = threadIdx.x / 32; r < rows; r += blockDim.x / 32) {
                const AttentionRow row(a, place.group, r);
                weigh_splits(a, a.partial + row.number(a, place.sequence) * a.splits * size,
                             row.head, weights + r * a.splits);
            }
            __syncthreads();
        }
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
            float sum = of[n].add(a, 0, 0);
            for (int first = MergedElement::kSplits; first < a.splits;
                 first += MergedElement::kSplits) {
                of[n].load(a, first);
                sum = of[n].add(a, first, sum);
            }
            if (of[n].from != nullptr) *of[n].to = sum;
        }
    }
}

}  // namespace heddle::cuda
