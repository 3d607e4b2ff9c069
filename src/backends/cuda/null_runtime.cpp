// A CUDA runtime without a device: one GPU that has done everything at once. Programs that are
// linked with it before the real one measure what the backend's own code takes on the host, on
// machines that need no driver. Kernels and copies do nothing; memory is addresses only.

#include "backends/cuda/null_runtime.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace heddle::cuda {
namespace {

NullCounts counted;

/// Handles only have to be different from null.
template <class Handle>
cudaError_t give(Handle* handle) {
    static char something;
    *handle = reinterpret_cast<Handle>(&something);
    return cudaSuccess;
}

CUresult encode_nothing() { return CUDA_SUCCESS; }

}  // namespace

NullCounts null_counts() { return counted; }

}  // namespace heddle::cuda

using heddle::cuda::counted;
using heddle::cuda::give;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
    return *value = 1, cudaSuccess;
}

/// As an H200.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    *properties = {};
    std::strcpy(properties->name, "no device");
    properties->major = 9;
    properties->multiProcessorCount = 132;
    properties->sharedMemPerBlockOptin = 227 * 1024;
    properties->totalGlobalMem = std::size_t{139} << 30;
    return cudaSuccess;
}

// ---- memory ------------------------------------------------------------------------------------

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    return *free = *total = std::size_t{139} << 30, cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t size) {
    *memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *memory != MAP_FAILED ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaMallocManaged(void** memory, std::size_t size, unsigned) {
    return cudaMalloc(memory, size);
}
cudaError_t cudaFree(void*) { return cudaSuccess; }  // until the program ends
cudaError_t cudaHostAlloc(void** memory, std::size_t size, unsigned) {
    *memory = std::calloc(size, 1);
    return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaHostRegister(void*, std::size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }

cudaError_t cudaMemset(void*, int, std::size_t) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemcpy(void*, const void*, std::size_t, cudaMemcpyKind) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void*, std::size_t, const void*, std::size_t, std::size_t,
                              std::size_t, cudaMemcpyKind, cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void*, int, const void*, int, std::size_t, cudaStream_t) {
    return cudaSuccess;
}

// ---- streams, events, captured work ------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return give(stream); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return give(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
    return ++counted.captures, cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) { return give(graph); }
cudaError_t cudaEventCreate(cudaEvent_t* event) { return give(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return give(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
    return *milliseconds = 0, cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t, unsigned long long) {
    return give(executable);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
    return ++counted.replays, cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }

// ---- kernels -----------------------------------------------------------------------------------

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
    return ++counted.attributes, cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) {
    return ++counted.launches, cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
    return ++counted.launches, cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
    *function = reinterpret_cast<void*>(heddle::cuda::encode_nothing);
    return *result = cudaDriverEntryPointSuccess, cudaSuccess;
}

// What nvcc's code calls when a program starts and where it launches.
void** __cudaRegisterFatBinary(void*) {
    static void* handle;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
char __cudaInitModule(void**) { return 0; }
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void*) { return give(kernel); }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
    return ++counted.launches, cudaSuccess;
}
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, cudaStream_t) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*) { return cudaSuccess; }

}  // extern "C"
