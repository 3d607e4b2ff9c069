// SUM, SUM_ROWS, MEAN, CUMSUM, ARGMAX and COUNT_EQUAL. Sums are added up in a fixed order.

#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/reduce.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

using namespace gpu::reduce;

// ---- whole tensors -----------------------------------------------------------------------------

/// Blocks that each leave one number in the scratch memory, for one block to add up.
constexpr int kParts = 512;

std::size_t parts_scratch(const Tensor&, const DeviceFacts&) { return kParts * sizeof(double); }

/// y[part] = the sum of `term(i)` over every kParts-th chunk of `count` elements.
template <class T, class Term>
__global__ void sum_parts(std::int64_t count, T* parts, Term term) {
    T part = 0;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        part += term(i);
    }
    part = combine_block(part, Plus{});
    if (threadIdx.x == 0) parts[blockIdx.x] = part;
}

template <class T, class Store>
__global__ void sum_of_parts(const T* parts, Store store) {
    const T total = combine_block(parts[threadIdx.x], Plus{});
    if (threadIdx.x == 0) store(total);
}

/// Calls `store(sum)` on the device with the sum of `term(i)` for all i below `count`.
template <class T, class Term, class Store>
void sum_all(const Launch& launch, std::int64_t count, Term term, Store store) {
    T* const parts = reinterpret_cast<T*>(launch.scratch);
    sum_parts<<<kParts, 256, 0, launch.stream>>>(count, parts, term);
    sum_of_parts<<<1, kParts, 0, launch.stream>>>(parts, store);
}

void launch_sum(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), y = operand(&node);
    sum_all<double>(
        launch, element_count(*node.src[0]),
        [=] __device__(std::int64_t i) -> double {
            const Place p = unravel(i, x.extent);
            return x(p.i0, p.i1, p.i2, p.i3);
        },
        [=] __device__(double total) { y.put(static_cast<float>(total), 0); });
}

void launch_count_equal(const Tensor& node, const Launch& launch) {
    const Operand a = operand(node.src[0]), b = operand(node.src[1]);
    auto* const y = static_cast<long long*>(node.data);
    sum_all<long long>(
        launch, element_count(*node.src[0]),
        [=] __device__(std::int64_t i) -> long long {
            const Place p = unravel(i, a.extent);
            return a.integer(p.i0, p.i1, p.i2, p.i3) == b.integer(p.i0, p.i1, p.i2, p.i3);
        },
        [=] __device__(long long total) { *y = total; });
}

// ---- rows --------------------------------------------------------------------------------------

void sum_rows(const Tensor& node, const Launch& launch, float divisor) {
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_row(launch, row_count(node), node.src[0]->ne[0], [=] __device__(std::int64_t r) {
        const Place row = row_place(r, x.extent);
        float part = 0;
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            part += x(i, row.i1, row.i2, row.i3);
        }
        const float total = block_sum(part);
        if (threadIdx.x == 0) y.put(total / divisor, 0, row.i1, row.i2, row.i3);
    });
}
void launch_sum_rows(const Tensor& node, const Launch& launch) { sum_rows(node, launch, 1); }
void launch_mean(const Tensor& node, const Launch& launch) {
    sum_rows(node, launch, static_cast<float>(node.src[0]->ne[0]));
}

/// The sum of `value` over the threads of the block up to this one.
__device__ float scan_block(float value) {
    __shared__ float sums[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = 1; step < 32; step *= 2) {
        const float before = __shfl_up_sync(0xffffffffu, value, step);
        if (lane >= step) value += before;
    }
    __syncthreads();  // sums of the scan before may still be read
    if (lane == 31) sums[warp] = value;
    __syncthreads();
    float before = 0;
    for (int w = 0; w < warp; ++w) before += sums[w];
    return before + value;
}

/// A block goes along its row in pieces; what came before is carried on.
void launch_cumsum(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_row(launch, row_count(node), node.ne[0], [=] __device__(std::int64_t r) {
        __shared__ float last;
        const Place row = row_place(r, x.extent);
        float carried = 0;
        for (std::int64_t begin = 0; begin < x.extent[0]; begin += blockDim.x) {
            const std::int64_t i = begin + threadIdx.x;
            const bool is_inside = i < x.extent[0];
            const float value = is_inside ? x(i, row.i1, row.i2, row.i3) : 0.0f;
            const float sum = carried + scan_block(value);
            if (is_inside) y.put(sum, i, row.i1, row.i2, row.i3);
            if (threadIdx.x == blockDim.x - 1) last = sum;
            __syncthreads();
            carried = last;
            __syncthreads();
        }
    });
}

struct Candidate {
    float value;
    std::int32_t index;
};

/// Of equal values the first wins.
__device__ Candidate better(Candidate a, Candidate b) {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

void launch_argmax(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]);
    const Operand y = operand(&node);
    for_each_row(launch, node.src[0]->ne[1], node.src[0]->ne[0], [=] __device__(std::int64_t r) {
        __shared__ Candidate best_of[32];
        Candidate best{-INFINITY, 0x7fffffff};
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            best = better(best, {x(i, r), static_cast<std::int32_t>(i)});
        }
        for (int step = 16; step > 0; step /= 2) {
            best = better(best, {__shfl_xor_sync(0xffffffffu, best.value, step),
                                 __shfl_xor_sync(0xffffffffu, best.index, step)});
        }
        if (threadIdx.x % 32 == 0) best_of[threadIdx.x / 32] = best;
        __syncthreads();
        if (threadIdx.x != 0) return;
        for (int w = 1; w < (blockDim.x + 31) / 32; ++w) best = better(best, best_of[w]);
        // A row of NaN has no largest element.
        const std::int32_t index = best.index == 0x7fffffff ? 0 : best.index;
        *reinterpret_cast<std::int32_t*>(y.at(r)) = index;
    });
}

constexpr Kernel kKernels[] = {
    {"sum", GGML_OP_SUM, sum_objection, parts_scratch, launch_sum},
    {"count_equal", GGML_OP_COUNT_EQUAL, count_objection, parts_scratch, launch_count_equal},
    {"sum_rows", GGML_OP_SUM_ROWS, sum_rows_objection, nullptr, launch_sum_rows},
    {"mean", GGML_OP_MEAN, sum_rows_objection, nullptr, launch_mean},
    {"cumsum", GGML_OP_CUMSUM, cumsum_objection, nullptr, launch_cumsum},
    {"argmax", GGML_OP_ARGMAX, argmax_objection, nullptr, launch_argmax},
};

}  // namespace

std::span<const Kernel> reduce_kernels() { return kKernels; }

}  // namespace heddle::cuda
