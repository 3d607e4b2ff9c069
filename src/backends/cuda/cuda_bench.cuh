#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "backends/cuda/kernel.hpp"

/// What the benchmarks of kernels share: memory, time of captured launches, reading alone.
namespace heddle::cuda {
inline constexpr std::size_t kBeyondCache = 400u << 20;
inline void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::printf("%s: %s\n", what, cudaGetErrorString(error));
    std::exit(2);
}

static __global__ void fill_random(std::uint32_t* to, std::size_t words, std::uint32_t mask,
                                   std::uint32_t bits) {
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words;
         i += std::size_t{gridDim.x} * blockDim.x) {
        auto x = static_cast<std::uint32_t>(i) * 2654435761u + 12345u;
        x ^= x >> 16, x *= 0x85ebca6bu, x ^= x >> 13, x *= 0xc2b2ae35u, x ^= x >> 16;
        to[i] = (x & mask) | bits;
    }
}

/// Device memory with random contents. `halves`: numbers between -2 and 2 as f16.
struct Memory {
    std::byte* data = nullptr;

    explicit Memory(std::size_t size, bool halves = false) {
        check(cudaMalloc(reinterpret_cast<void**>(&data), size + 64), "cudaMalloc");
        fill_random<<<1024, 256>>>(reinterpret_cast<std::uint32_t*>(data), size / 4,
                                   halves ? 0xbfffbfffu : 0xbbffbbffu, 0);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { cudaFree(data); }
};

struct Bench {
    DeviceFacts device;
    cudaStream_t stream = nullptr;
    double ceiling = 0;  ///< bytes per second, reading alone

    Bench() {
        cudaDeviceProp properties{};
        check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
        device.multiprocessors = properties.multiProcessorCount;
        device.architecture = properties.major * 100 + properties.minor * 10;
        device.shared_per_block = properties.sharedMemPerBlockOptin;
        check(cudaStreamCreate(&stream), "cudaStreamCreate");
        std::printf("%s, %d multiprocessors, %.0f MB L2\n", properties.name, device.multiprocessors,
                    properties.l2CacheSize / 1e6);
    }

    /// Seconds of one call of `work(i)`, i = 0 .. launches - 1 captured in a graph.
    double seconds(int launches, const std::function<void(int)>& work) const {
        work(0);  // loads what is loaded at the first use
        check(cudaStreamSynchronize(stream), "first run");
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t replay = nullptr;
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
        for (int i = 0; i < launches; ++i) work(i);
        check(cudaStreamEndCapture(stream, &graph), "capture");
        check(cudaGraphInstantiate(&replay, graph, 0), "instantiate");
        cudaEvent_t begin = nullptr, end = nullptr;
        cudaEventCreate(&begin);
        cudaEventCreate(&end);
        std::vector<float> times;
        for (int i = 0; i < 23; ++i) {
            cudaEventRecord(begin, stream);
            cudaGraphLaunch(replay, stream);
            cudaEventRecord(end, stream);
            check(cudaEventSynchronize(end), "replay");
            float milliseconds = 0;
            cudaEventElapsedTime(&milliseconds, begin, end);
            if (i >= 3) times.push_back(milliseconds);
        }
        cudaGraphExecDestroy(replay);
        cudaGraphDestroy(graph);
        cudaEventDestroy(begin);
        cudaEventDestroy(end);
        std::nth_element(times.begin(), times.begin() + 10, times.end());
        return times[10] / 1e3 / launches;
    }
};

inline Tensor tensor(Type type, std::array<std::int64_t, 4> ne, void* data) {
    Tensor t{};
    t.type = type;
    t.data = data;
    t.nb[0] = size_of(type);
    for (int d = 0; d < 4; ++d) t.ne[d] = ne[static_cast<std::size_t>(d)];
    t.nb[1] = row_size(type, ne[0]);
    for (int d = 2; d < 4; ++d)
        t.nb[d] = t.nb[d - 1] * static_cast<std::size_t>(ne[std::size_t(d - 1)]);
    return t;
}

// ---- reading -----------------------------------------------------------------------------------

static __global__ void __launch_bounds__(1024)
    read_all(const uint4* from, std::size_t count, uint4* to) {
    uint4 sum{0, 0, 0, 0};
    const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
         i += 8 * step) {
        uint4 w[8];
#pragma unroll
        for (int j = 0; j < 8; ++j)
            w[j] = i + j * step < count ? __ldcs(from + i + j * step) : uint4{0, 0, 0, 0};
#pragma unroll
        for (int j = 0; j < 8; ++j)
            sum.x ^= w[j].x, sum.y ^= w[j].y, sum.z ^= w[j].z, sum.w ^= w[j].w;
    }
    if (sum.x == 0x12345 && sum.y == 77 && sum.z == 1) *to = sum;
}

inline void measure_reading(Bench& bench) {
    const std::size_t size = std::size_t{4} << 30;
    const Memory memory(size);
    const double t = bench.seconds(4, [&](int) {
        read_all<<<static_cast<unsigned>(bench.device.multiprocessors), 1024, 0, bench.stream>>>(
            reinterpret_cast<const uint4*>(memory.data), size / 16,
            reinterpret_cast<uint4*>(memory.data));
    });
    bench.ceiling = double(size) / t;
    std::printf("read only, 4 GiB: %.2f TB/s\n", bench.ceiling / 1e12);
}

}  // namespace heddle::cuda
