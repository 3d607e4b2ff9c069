#include "backends/cuda/kernels/attention/attention.cuh"
#include "backends/cuda/kernels/chain.cuh"

namespace heddle::cuda {
namespace {

constexpr int kThreads = 128;

/// `v` of all threads, joined by `join`, in all threads. `shared` has room for a value of each
/// warp.
template <class Join>
__device__ float join_all(float v, float* shared, const Join& join) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, s));
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = shared[0];
#pragma unroll
    for (int w = 1; w < kThreads / 32; ++w) v = join(v, shared[w]);
    return v;
}

/// A block for a row: threads weigh a split each, then add up an element of the values each, in the
/// order of splits. Loads do not depend on each other: their latency is all the time there is.
__global__ void __launch_bounds__(kThreads) merge(AttentionArguments a) {
    extern __shared__ float weights[];  // of each split
    __shared__ float joined[kThreads / 32];
    chain_join();
    const std::int64_t row = blockIdx.x, size = partial_floats(a.value_size);
    const float* parts = a.partial + row * a.splits * size;
    float largest = -INFINITY, total = 0;
    for (int s = threadIdx.x; s < a.splits; s += kThreads)
        largest = fmaxf(largest, parts[s * size + a.value_size + 1]);
    largest = join_all(largest, joined, [](float x, float y) { return fmaxf(x, y); });
    for (int s = threadIdx.x; s < a.splits; s += kThreads) {
        const float* part = parts + s * size + a.value_size;
        weights[s] = part[0] != 0 ? exp2f(part[1] - largest) : 0.0f;
        total += weights[s] != 0 ? part[0] * weights[s] : 0.0f;
    }
    total = join_all(total, joined, [](float x, float y) { return x + y; });
    const float factor = finish_row(largest, total, a.sinks, row % a.heads);
    for (int d = threadIdx.x; d < a.value_size; d += kThreads) {
        float sum = 0;
#pragma unroll 8
        for (int s = 0; s < a.splits; ++s) {
            const float value = parts[s * size + d], weight = weights[s];
            sum += weight != 0 ? value * weight : 0.0f;
        }
        a.y[row * a.value_size + d] = sum * factor;
    }
}

}  // namespace

void merge_splits(const AttentionArguments& a, const Launch& launch) {
    const std::int64_t rows = a.sequences * a.queries * a.heads;
    // Whole runs of the unrolled loop: the compiler reads four weights at a time.
    const std::size_t shared = static_cast<std::size_t>((a.splits + 7) / 8 * 8) * sizeof(float);
    start(launch, merge, static_cast<unsigned>(rows), kThreads, shared, a);
}

}  // namespace heddle::cuda
