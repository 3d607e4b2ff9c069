#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backends/cuda/kernels/chain.cuh"
#include "backends/gpu/conditions/common.hpp"

/// Tensors as kernels see them, and loops over their elements. Every offset has 64 bits.
namespace heddle::cuda {

/// Reads one number of a plain type.
__device__ inline float load_float(const std::byte* from, ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32:
            return *reinterpret_cast<const float*>(from);
        case GGML_TYPE_F16:
            return __half2float(*reinterpret_cast<const __half*>(from));
        case GGML_TYPE_BF16:
            return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(from));
        default:
            return static_cast<float>(*reinterpret_cast<const std::int32_t*>(from));
    }
}

/// Rounds to a plain type; integers are cut toward zero.
__device__ inline void store_float(std::byte* to, float value, ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32:
            *reinterpret_cast<float*>(to) = value;
            return;
        case GGML_TYPE_F16:
            *reinterpret_cast<__half*>(to) = __float2half_rn(value);
            return;
        case GGML_TYPE_BF16:
            *reinterpret_cast<__nv_bfloat16*>(to) = __float2bfloat16_rn(value);
            return;
        default:
            *reinterpret_cast<std::int32_t*>(to) = static_cast<std::int32_t>(value);
    }
}

/// A tensor of a plain type: F32, F16, BF16, I32 (and I64 through `integer`).
struct Operand {
    std::byte* data = nullptr;
    std::int64_t extent[4] = {};
    std::int64_t stride[4] = {};
    ggml_type type = GGML_TYPE_F32;

    __host__ __device__ bool is_there() const { return data != nullptr; }
    __device__ std::byte* at(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0,
                             std::int64_t i3 = 0) const {
        return data + (i0 * stride[0] + i1 * stride[1] + i2 * stride[2] + i3 * stride[3]);
    }
    __device__ float operator()(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0,
                                std::int64_t i3 = 0) const {
        return load_float(at(i0, i1, i2, i3), type);
    }
    __device__ void put(float value, std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0,
                        std::int64_t i3 = 0) const {
        store_float(at(i0, i1, i2, i3), value, type);
    }
    __device__ std::int64_t integer(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0,
                                    std::int64_t i3 = 0) const {
        const std::byte* from = at(i0, i1, i2, i3);
        return type == GGML_TYPE_I64 ? *reinterpret_cast<const std::int64_t*>(from)
                                     : *reinterpret_cast<const std::int32_t*>(from);
    }
};

inline Operand operand(const Tensor* tensor) {
    Operand result;
    if (tensor == nullptr) return result;
    result.data = static_cast<std::byte*>(tensor->data);
    result.type = tensor->type;
    for (int d = 0; d < kMaxDims; ++d) {
        result.extent[d] = tensor->ne[d];
        result.stride[d] = static_cast<std::int64_t>(tensor->nb[d]);
    }
    return result;
}

/// The place of an element.
struct Place {
    std::int64_t i0, i1, i2, i3;
};

/// Extents to count through.
struct Shape {
    std::int64_t extent[4];
};

inline Shape shape_of(const Tensor& tensor) {
    return {{tensor.ne[0], tensor.ne[1], tensor.ne[2], tensor.ne[3]}};
}

/// Coordinates of element number `index`, dimension 0 running fastest.
__device__ inline Place unravel(std::int64_t index, const std::int64_t (&extent)[4]) {
    if (index <= UINT32_MAX && extent[0] <= UINT32_MAX) {  // divisions of 32 bits are much cheaper
        auto rest = static_cast<std::uint32_t>(index);
        const auto n0 = static_cast<std::uint32_t>(extent[0]);
        const std::uint32_t i0 = rest % n0;
        rest /= n0;
        if (rest < extent[1]) return {i0, rest, 0, 0};
        const auto n1 = static_cast<std::uint32_t>(extent[1]);
        const std::uint32_t i1 = rest % n1;
        rest /= n1;
        if (rest < extent[2]) return {i0, i1, rest, 0};
        const auto n2 = static_cast<std::uint32_t>(extent[2]);
        return {i0, i1, rest % n2, rest / n2};
    }
    Place place;
    place.i0 = index % extent[0];
    index /= extent[0];
    place.i1 = index % extent[1];
    index /= extent[1];
    place.i2 = index % extent[2];
    place.i3 = index / extent[2];
    return place;
}

// ---- loops -------------------------------------------------------------------------------------

template <class Body>
__global__ void run_each(std::int64_t count, Body body) {
    chain_join();
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        body(i);
    }
}

inline unsigned blocks_for(std::int64_t count, int threads, const DeviceFacts& device) {
    const std::int64_t all = (count + threads - 1) / threads;
    const std::int64_t most = 64LL * (device.multiprocessors > 0 ? device.multiprocessors : 1);
    return static_cast<unsigned>(all < most ? all : most);
}

/// Calls `body(i)` for every i below `count`, one thread each.
template <class Body>
void for_each(const Launch& launch, std::int64_t count, Body body) {
    if (count <= 0) return;
    constexpr int threads = 256;
    start(launch, run_each<Body>, blocks_for(count, threads, launch.device), threads, 0, count,
          body);
}

template <class Body>
__global__ void run_places(std::int64_t count, Shape shape, Body body) {
    chain_join();
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        body(unravel(i, shape.extent));
    }
}

/// Calls `body(place)` for every element of `tensor`'s shape.
template <class Body>
void for_each_place(const Launch& launch, const Tensor& tensor, Body body) {
    const std::int64_t count = element_count(tensor);
    if (count <= 0) return;
    constexpr int threads = 256;
    start(launch, run_places<Body>, blocks_for(count, threads, launch.device), threads, 0, count,
          shape_of(tensor), body);
}

template <class Body>
__global__ void run_rows(std::int64_t rows, Body body) {
    chain_join();
    for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        body(row);
        __syncthreads();  // the next row uses the same shared memory
    }
}

/// Threads for rows of `length` elements: whole warps, not more than there is work for.
inline int row_threads(std::int64_t length) {
    constexpr int warp = 32, most = 512;
    if (length >= most) return most;
    return static_cast<int>((length + warp - 1) / warp) * warp + (length == 0 ? warp : 0);
}

/// Calls `body(row)` for every row, one block each; all threads of the block take part.
template <class Body>
void for_each_row(const Launch& launch, std::int64_t rows, std::int64_t length, Body body) {
    if (rows <= 0) return;
    constexpr std::int64_t most = 0x7fffffff;
    start(launch, run_rows<Body>, static_cast<unsigned>(rows < most ? rows : most),
          static_cast<unsigned>(row_threads(length)), 0, rows, body);
}

/// Coordinates of row number `row` of a shape.
__device__ inline Place row_place(std::int64_t row, const std::int64_t (&extent)[4]) {
    return {0, row % extent[1], row / extent[1] % extent[2], row / (extent[1] * extent[2])};
}

// ---- sums over a block -------------------------------------------------------------------------

struct Plus {
    template <class T>
    __device__ T operator()(T a, T b) const {
        return a + b;
    }
};
struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Combines one value of each thread of the block in a fixed order; every thread gets the result.
template <class T, class Combine>
__device__ T combine_block(T value, Combine combine) {
    __shared__ T partial[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    for (int step = 16; step > 0; step /= 2) {
        value = combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    }
    __syncthreads();  // a sum before this one may still be read
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    T total = partial[0];
    for (int w = 1; w < warps; ++w) total = combine(total, partial[w]);
    return total;
}

__device__ inline float block_sum(float value) { return combine_block(value, Plus{}); }
__device__ inline float block_max(float value) { return combine_block(value, Larger{}); }

using gpu::either, gpu::is_float, gpu::need_contiguous, gpu::need_f32, gpu::need_floats;

}  // namespace heddle::cuda
