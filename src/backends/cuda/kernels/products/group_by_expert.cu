#include "backends/cuda/kernels/faults.cuh"
#include "backends/cuda/kernels/products/group_by_expert.cuh"

namespace heddle::cuda {
namespace {

constexpr int kThreads = 256;

struct Ids {
    const std::int32_t* data;
    std::int64_t slots, stride, pairs, experts;
    IndexCheck is_expert;

    /// The group of a pair.
    __device__ std::int64_t group(std::int64_t pair) const {
        const std::int32_t id = data[pair / slots * stride + pair % slots];
        return is_expert(id, experts) ? id : experts;
    }
};

__device__ int sum_of_block(int value) {
    __shared__ int of_warp[kThreads / 32];
    value = __reduce_add_sync(0xffffffffu, value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    int sum = 0;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) sum += of_warp[w];
    return sum;
}

/// One block per group.
__global__ void __launch_bounds__(kThreads) count(Ids ids, std::int32_t* counts) {
    int mine = 0;
    for (std::int64_t p = threadIdx.x; p < ids.pairs; p += kThreads)
        mine += ids.group(p) == blockIdx.x ? 1 : 0;
    mine = sum_of_block(mine);
    if (threadIdx.x == 0) counts[blockIdx.x] = mine;
}

/// One block per group: finds where the group begins and lists its pairs in order.
__global__ void __launch_bounds__(kThreads)
    place(Ids ids, const std::int32_t* counts, std::int32_t* starts, std::int32_t* order) {
    __shared__ int before_warp[kThreads / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int before = 0;
    for (unsigned g = threadIdx.x; g < blockIdx.x; g += kThreads) before += counts[g];
    int at = sum_of_block(before);
    if (threadIdx.x == 0) {
        starts[blockIdx.x] = at;
        if (blockIdx.x == gridDim.x - 1) starts[gridDim.x] = at + counts[blockIdx.x];
    }
    for (std::int64_t first = 0; first < ids.pairs; first += kThreads) {
        const std::int64_t p = first + threadIdx.x;
        const bool is_mine = p < ids.pairs && ids.group(p) == blockIdx.x;
        const unsigned votes = __ballot_sync(0xffffffffu, is_mine);
        __syncthreads();
        if (lane == 0) before_warp[warp] = __popc(votes);
        __syncthreads();
        int earlier = 0, all = 0;
#pragma unroll
        for (int w = 0; w < kThreads / 32; ++w) {
            earlier += w < warp ? before_warp[w] : 0;
            all += before_warp[w];
        }
        if (is_mine)
            order[at + earlier + __popc(votes & ((1u << lane) - 1u))] =
                static_cast<std::int32_t>(p);
        at += all;
    }
}

}  // namespace

void group_by_expert(const Tensor& node, const ExpertGroups& groups, const Launch& launch) {
    const Tensor& ids = *node.src[2];
    const Ids view{static_cast<const std::int32_t*>(ids.data),
                   ids.ne[0],
                   static_cast<std::int64_t>(ids.nb[1] / sizeof(std::int32_t)),
                   groups.pairs,
                   groups.experts,
                   index_check(node, launch)};
    const auto blocks = static_cast<unsigned>(groups.experts + 1);
    count<<<blocks, kThreads, 0, launch.stream>>>(view, groups.counts);
    place<<<blocks, kThreads, 0, launch.stream>>>(view, groups.counts, groups.starts, groups.order);
}

}  // namespace heddle::cuda
