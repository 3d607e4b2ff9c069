#pragma once

#include "backends/cuda/kernels/attention/attention.cuh"
#include "backends/cuda/kernels/products/int8_column.cuh"

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

/// Joins the splits of all rows of a group, in order, four elements to a thread. `weights` is
/// shared memory for a number of each row and split. The first values are under way before their
/// weights are known: a latency less. Few instructions: a multiprocessor that comes here for the
/// first time in a while waits for each line of them.
__device__ inline void merge_group(const AttentionArguments& a, const AttentionTile& place,
                                   float* weights) {
    constexpr int kAtOnce = 16;
    const auto stride = static_cast<unsigned>(partial_floats(a.value_size));
    const int rows = static_cast<int>(a.rows()), quads = rows * a.value_size / 4;
    bool is_weighed = false;
    for (int base = 0; base < quads; base += static_cast<int>(blockDim.x)) {
        const int i = min(base + static_cast<int>(threadIdx.x), quads - 1);
        const Division where(i, a.value_size / 4);
        const AttentionRow row(a, place.group, where.quotient);
        const std::int64_t number = row.number(a, place.sequence);
        const float* from = a.partial + number * a.splits * stride + 4 * where.remainder;
        float4 values[kAtOnce];
        const auto load = [&](int first) {
#pragma unroll
            for (int s = 0; s < kAtOnce; ++s) {
                if (first + s < a.splits)
                    values[s] = __ldcg(
                        reinterpret_cast<const float4*>(from + std::size_t{stride} * (first + s)));
            }
        };
        load(0);
        if (!is_weighed) {
            for (int r = threadIdx.x / 32; r < rows; r += blockDim.x / 32) {
                const AttentionRow of(a, place.group, r);
                weigh_splits(a, a.partial + of.number(a, place.sequence) * a.splits * stride,
                             of.head, weights + r * a.splits);
            }
            __syncthreads();
            is_weighed = true;
        }
        const float* const by = weights + where.quotient * a.splits;
        float4 sum{0, 0, 0, 0};
        for (int first = 0; first < a.splits; first += kAtOnce) {
            if (first > 0) load(first);
#pragma unroll
            for (int s = 0; s < kAtOnce; ++s) {
                const float weight = first + s < a.splits ? by[first + s] : 0.0f;
                if (weight == 0) continue;  // its values may be anything
                sum.x += values[s].x * weight, sum.y += values[s].y * weight;
                sum.z += values[s].z * weight, sum.w += values[s].w * weight;
            }
        }
        // Whole warps where there are codes: see `can_pass`.
        if (base + static_cast<int>(threadIdx.x) >= quads) continue;
        if (a.codes != nullptr)
            pass_four(sum, a.heads * a.value_size,
                      static_cast<int>(number) * a.value_size + 4 * where.remainder, a.codes);
        float* const to = a.y + number * a.value_size + 4 * where.remainder;
        to[0] = sum.x, to[1] = sum.y, to[2] = sum.z, to[3] = sum.w;
    }
}

}  // namespace heddle::cuda
