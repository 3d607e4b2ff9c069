#pragma once

#include <cuda_runtime.h>

#include "backends/cuda/kernel.hpp"

/// Kernels that start while the one before them still runs (programmatic dependent launch): their
/// launch, and what they read that no kernel writes, cost no time of their own.
///
/// Every kernel started by `start` calls `chain_wait` before it touches anything that another
/// kernel of the stream writes, or that another one still reads and this one writes. Memory is
/// visible to all that wait: the kernel waited for has waited itself.
namespace heddle::cuda {

/// Shared memory that a kernel of one block per multiprocessor takes at least, if it lets the next
/// one start before it waits itself: three blocks do not fit. Blocks of a kernel that starts while
/// two before it run would pile up on the multiprocessors that are done first, and others get none.
inline constexpr std::size_t kChainShared = 80 * 1024;

/// Lets the next kernel start as soon as there is room for it: before `chain_wait` where blocks
/// take `kChainShared`, after it elsewhere.
__device__ __forceinline__ void chain_trigger() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Until all kernels before this one have finished, and their results are visible.
__device__ __forceinline__ void chain_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// For kernels that have nothing to do before they wait.
__device__ __forceinline__ void chain_join() {
    chain_wait();
    chain_trigger();
}

/// A block without work stays until the next kernel's block has come, which would be two otherwise.
__device__ __forceinline__ void keep_place() {
    chain_wait();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    __nanosleep(2500);
#endif
}

/// Launches `kernel`, which calls `chain_wait`.
///
/// Kernels that divide a multiprocessor's memory differently do not run on it together: all of a
/// chain ask for as much shared memory as there is.
template <class... Parameters, class... Arguments>
void start(const Launch& launch, void (*kernel)(Parameters...), dim3 blocks, unsigned threads,
           std::size_t shared, Arguments... arguments) {
    const bool is_chained = launch.is_chained && launch.device.architecture >= 900;
    if (is_chained) {
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared);
    }
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = launch.stream;
    config.attrs = &overlap;
    config.numAttrs = is_chained ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace heddle::cuda
