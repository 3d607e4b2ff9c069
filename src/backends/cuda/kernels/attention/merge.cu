#include "backends/cuda/kernels/attention/attention.cuh"

namespace heddle::cuda {
namespace {

__device__ float warp_max(float v) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, s));
    return v;
}
__device__ float warp_sum(float v) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(0xffffffffu, v, s);
    return v;
}

/// One warp for a row: a lane weighs every 32nd split, then all add up values in the order of
/// splits.
__global__ void merge(AttentionArguments a) {
    const std::int64_t rows = a.sequences * a.queries * a.heads;
    const std::int64_t row =
        (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    const int lane = threadIdx.x % 32;
    const std::int64_t size = partial_floats(a.value_size);
    const float* parts = a.partial + row * a.splits * size;
    float largest = -INFINITY, total = 0;
    for (int s = lane; s < a.splits; s += 32)
        largest = fmaxf(largest, parts[s * size + a.value_size + 1]);
    largest = warp_max(largest);
    const auto weight_of = [&](int s) {
        const float* part = parts + s * size + a.value_size;
        return s < a.splits && part[0] != 0 ? exp2f(part[1] - largest) : 0.0f;
    };
    for (int s = lane; s < a.splits; s += 32) {
        if (const float weight = weight_of(s); weight != 0)
            total += parts[s * size + a.value_size] * weight;
    }
    const float factor = finish_row(largest, warp_sum(total), a.sinks, row % a.heads);
    for (int d = 0; d < a.value_size; d += 32) {  // whole warps: lanes ask each other for weights
        const bool is_there = d + lane < a.value_size;
        float sum = 0;
        for (int first = 0; first < a.splits; first += 32) {
            const float weights = weight_of(first + lane);
            const int count = min(32, a.splits - first);
#pragma unroll 8
            for (int s = 0; s < count; ++s) {
                const float weight = __shfl_sync(0xffffffffu, weights, s);
                if (weight != 0 && is_there) sum += parts[(first + s) * size + d + lane] * weight;
            }
        }
        if (is_there) a.y[row * a.value_size + d + lane] = sum * factor;
    }
}

}  // namespace

void merge_splits(const AttentionArguments& a, const Launch& launch) {
    const std::int64_t rows = a.sequences * a.queries * a.heads;
    merge<<<static_cast<unsigned>((rows + 3) / 4), 128, 0, launch.stream>>>(a);
}

}  // namespace heddle::cuda
