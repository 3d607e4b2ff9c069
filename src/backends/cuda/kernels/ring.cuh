#pragma once

#include "backends/cuda/kernels/ptx.cuh"

/// Stages of shared memory that one thread fills and others read, in order.
namespace heddle::cuda {

/// A place in a ring. The phase changes with each round.
template <int kStages>
struct RingPlace {
    int stage = 0;
    unsigned phase = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == kStages) stage = 0, phase ^= 1u;
    }
};

/// The barriers of a ring: a stage is full or empty.
template <int kStages>
struct RingBarriers {
    std::uint64_t full[kStages], empty[kStages];

    /// How many arrive when they have read a stage, and when they have filled one.
    __device__ void init(unsigned readers, unsigned writers = 1) {
        for (int i = 0; i < kStages; ++i) {
            barrier_init(&full[i], writers);
            barrier_init(&empty[i], readers);
        }
    }
    /// Waits until the stage may be filled; `bytes` of copies will come.
    __device__ __forceinline__ std::uint64_t* fill(const RingPlace<kStages>& at, unsigned bytes) {
        barrier_wait(&empty[at.stage], at.phase ^ 1u);
        barrier_arrive_expecting(&full[at.stage], bytes);
        return &full[at.stage];
    }
    __device__ __forceinline__ void wait(const RingPlace<kStages>& at) {
        barrier_wait(&full[at.stage], at.phase);
    }
    /// One thread for each warp; its other threads have finished with the stage.
    __device__ __forceinline__ void release(int stage) {
        if (threadIdx.x % 32 == 0) barrier_arrive(&empty[stage]);
    }
};

}  // namespace heddle::cuda
