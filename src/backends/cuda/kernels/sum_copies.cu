#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backends/cuda/kernels/sum_copies.hpp"

namespace heddle::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float widened(float x) { return x; }
__device__ float widened(__half x) { return __half2float(x); }
__device__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ void narrow(float x, float& y) { y = x; }
__device__ void narrow(float x, __half& y) { y = __float2half_rn(x); }
__device__ void narrow(float x, __nv_bfloat16& y) { y = __float2bfloat16_rn(x); }

template <class T>
__global__ void __launch_bounds__(kThreads) add_up(Addends addends, T* to, std::int64_t count) {
    const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
    for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
        float sum = 0;
        for (int k = 0; k < addends.count; ++k) {
            sum += widened(static_cast<const T*>(addends.from[static_cast<unsigned>(k)])[i]);
        }
        narrow(sum, to[i]);
    }
}

template <class T>
cudaError_t launch(const Addends& addends, void* to, std::int64_t count, cudaStream_t stream) {
    const std::int64_t wanted = (count + kThreads - 1) / kThreads, most = 1024;
    add_up<<<static_cast<unsigned>(wanted < most ? wanted : most), kThreads, 0, stream>>>(
        addends, static_cast<T*>(to), count);
    return cudaGetLastError();
}

}  // namespace

cudaError_t sum_copies(const Addends& addends, void* to, Type type, std::int64_t count,
                       cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    if (type == GGML_TYPE_F32) return launch<float>(addends, to, count, stream);
    if (type == GGML_TYPE_F16) return launch<__half>(addends, to, count, stream);
    if (type == GGML_TYPE_BF16) return launch<__nv_bfloat16>(addends, to, count, stream);
    return cudaErrorInvalidValue;
}

}  // namespace heddle::cuda
