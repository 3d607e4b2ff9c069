#include "backends/cuda/kernels/attention/attention.cuh"

namespace heddle::cuda {
namespace {

/// One warp for a row.
__global__ void merge(AttentionArguments a) {
    const std::int64_t rows = a.sequences * a.queries * a.heads;
    const std::int64_t row =
        (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    const std::int64_t size = partial_floats(a.value_size);
    const float* parts = a.partial + row * a.splits * size;
    float largest = -INFINITY, total = 0;
    for (int s = 0; s < a.splits; ++s) largest = fmaxf(largest, parts[s * size + a.value_size + 1]);
    for (int s = 0; s < a.splits; ++s) {
        const float* part = parts + s * size + a.value_size;
        if (part[0] != 0) total += part[0] * exp2f(part[1] - largest);
    }
    const float factor = finish_row(largest, total, a.sinks, row % a.heads);
    for (int d = threadIdx.x % 32; d < a.value_size; d += 32) {
        float sum = 0;
        for (int s = 0; s < a.splits; ++s) {
            const float* part = parts + s * size;
            if (part[a.value_size] != 0) sum += part[d] * exp2f(part[a.value_size + 1] - largest);
        }
        a.y[row * a.value_size + d] = sum * factor;
    }
}

}  // namespace

void merge_splits(const AttentionArguments& a, const Launch& launch) {
    const std::int64_t rows = a.sequences * a.queries * a.heads;
    merge<<<static_cast<unsigned>((rows + 3) / 4), 128, 0, launch.stream>>>(a);
}

}  // namespace heddle::cuda
