#pragma once

#include "backends/cuda/kernels/ring.cuh"

/// Blocks of a cluster, which can write to each other's shared memory (Hopper).
namespace heddle::cuda {

/// The number of this block among those of its cluster.
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/// All threads of the cluster, whichever way they came.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/// Arrives at the barrier that another block of the cluster has at the same place.
__device__ __forceinline__ void barrier_arrive_at(std::uint64_t* barrier, unsigned rank) {
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
}

/// As `tensor_copy`, to the same place of every block whose bit is set, and its barrier.
__device__ __forceinline__ void tensor_copy_to_all(void* to, const void* map, const BoxPlace& at,
                                                   std::uint64_t* barrier, std::uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes."
        "multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(shared_address(to)),
        "l"(map), "r"(at.unit), "r"(at.row), "r"(at.matrix), "r"(at.sequence),
        "r"(shared_address(barrier)), "h"(blocks)
        : "memory");
}

/// As `RingBarriers::release`, of a stage that is filled in `kBlocks` blocks together.
template <unsigned kBlocks, int kStages>
__device__ __forceinline__ void release_in_all(RingBarriers<kStages>& ring, int stage) {
    if constexpr (kBlocks == 1)
        ring.release(stage);
    else if (threadIdx.x % 32 < kBlocks)
        barrier_arrive_at(&ring.empty[stage], threadIdx.x % 32);
}

}  // namespace heddle::cuda
