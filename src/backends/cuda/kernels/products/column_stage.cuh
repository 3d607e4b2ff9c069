#pragma once

#include "backends/cuda/kernels/products/column_arguments.cuh"
#include "backends/cuda/kernels/products/int8_column.cuh"
#include "backends/cuda/kernels/ptx.cuh"

/// The activations on their way from global memory to the registers of `gemv_column`.
///
/// Every block does this for itself, and nothing is multiplied before it is done: what counts is
/// the number of latencies one after the other. Activations of eight bits are coded while the norm
/// is still being summed up, since a factor of all of them changes scales but no codes.
namespace heddle::cuda {

/// Eight numbers at x + k; zeros behind `depth`, which 4 divides. Not from L1, where what an
/// earlier kernel read may still lie.
__device__ __forceinline__ void load_eight(const float* x, int k, int depth, float (&v)[8]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float4 four = k + 4 * half < depth
                                ? __ldcg(reinterpret_cast<const float4*>(x + k + 4 * half))
                                : float4{0, 0, 0, 0};
        v[4 * half] = four.x, v[4 * half + 1] = four.y;
        v[4 * half + 2] = four.z, v[4 * half + 3] = four.w;
    }
}

__device__ __forceinline__ float sum_of_squares(const float (&v)[8]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i] * v[i];
    return sum;
}

/// One over the root of the mean square, after a barrier. `parts` has a sum of each warp.
__device__ __forceinline__ float norm_factor(const ColumnArguments& a, const float* parts) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kColumnWarps; ++w) sum += parts[w];
    return __frsqrt_rn(sum * a.inverse_depth + a.eps);
}

__device__ __forceinline__ void leave_part(float squares, float* parts) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = squares;
}

/// Weights of the norm for the first batches of each thread, as many as registers allow: they are
/// there before the wait.
template <class Dot>
struct NormWeights {
    static constexpr int kBatches = Dot::kHasCodes ? 2 : 1, kStep = 8 * kColumnThreads;
    float first[kBatches][8];

    __device__ explicit NormWeights(const ColumnArguments& a) {
        if (a.norm_weight == nullptr || !a.reads_ahead || a.taken.codes != nullptr) return;
#pragma unroll
        for (int b = 0; b < kBatches; ++b)
            load_eight(a.norm_weight, 8 * static_cast<int>(threadIdx.x) + b * kStep, a.depth,
                       first[b]);
    }
    /// `batch` is that of k, of those which a thread has under way at once.
    __device__ void apply(const ColumnArguments& a, int k, int batch, float (&v)[8]) const {
        const bool is_there = a.reads_ahead && batch < kBatches &&
                              k == 8 * static_cast<int>(threadIdx.x) + batch * kStep;
        float w[8];
        if (is_there) {
#pragma unroll
            for (int i = 0; i < 8; ++i) w[i] = first[batch % kBatches][i];
        } else {
            load_eight(a.norm_weight, k, a.depth, w);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] *= w[i];
    }
};

/// Codes the column, times the weights of the norm, into shared memory. Returns the thread's sum of
/// squares.
template <class Dot, bool kNormed>
__device__ __forceinline__ float store_codes(const ColumnArguments& a,
                                             const NormWeights<Dot>& weights,
                                             std::uint8_t* column) {
    constexpr int kBatch = kNormed ? NormWeights<Dot>::kBatches : 4;  // loads at once
    constexpr int kStep = 8 * kColumnThreads;
    const int end = Dot::staged_depth(a.depth);
    float squares = 0;
    for (int first = 8 * threadIdx.x; first < end; first += kBatch * kStep) {
        float v[kBatch][8];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) load_eight(a.x, first + b * kStep, a.depth, v[b]);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int k = first + b * kStep;
            if (k >= end) break;  // whole warps: 256 divides `end`
            if constexpr (kNormed) {
                squares += sum_of_squares(v[b]);
                weights.apply(a, k, b, v[b]);
            }
            Dot::stage8(v[b], a.depth, k, column);
        }
    }
    return squares;
}

/// Leaves the column in shared memory, as `Dot` reads it, for all threads. Returns the factor that
/// scales are still to be multiplied with.
template <class Dot>
__device__ float stage_codes(const ColumnArguments& a, const NormWeights<Dot>& weights,
                             std::uint8_t* column, float* parts) {
    const bool is_normed = a.norm_weight != nullptr;
    if (is_normed) {
        leave_part(store_codes<Dot, true>(a, weights, column), parts);
    } else {
        store_codes<Dot, false>(a, weights, column);
    }
    __syncthreads();
    return is_normed ? norm_factor(a, parts) : 1.0f;
}

/// Rounds the column times `factor` and the weights of the norm, and stores it. False if not all
/// of it is finite then, although it was before. `held` are the first elements of the thread.
template <class Dot>
__device__ bool store_floats(const ColumnArguments& a, const NormWeights<Dot>& weights,
                             const float (&held)[8], float factor, std::uint8_t* column) {
    constexpr int kBatch = 2, kStep = 8 * kColumnThreads;
    const int begin = 8 * threadIdx.x;
    bool is_finite = true;
    for (int first = begin; first < a.depth; first += kBatch * kStep) {
        float v[kBatch][8];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            if (first + b * kStep != begin) load_eight(a.x, first + b * kStep, a.depth, v[b]);
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int k = first + b * kStep;
            if (k >= a.depth) break;
#pragma unroll
            for (int i = 0; i < 8; ++i) v[b][i] = (k == begin ? held[i] : v[b][i]) * factor;
            if (a.norm_weight != nullptr) weights.apply(a, k, b, v[b]);
            is_finite &= !Dot::is_too_large(v[b]);
            Dot::stage8(v[b], a.depth, k, column);
        }
    }
    return !__syncthreads_or(!is_finite);
}

/// The same for floats, which are rounded after the norm. Returns what products are to be
/// multiplied with: large activations are made smaller first.
template <class Dot>
__device__ float stage_floats(const ColumnArguments& a, const NormWeights<Dot>& weights,
                              std::uint8_t* column, float* parts) {
    constexpr int kStep = 8 * kColumnThreads;
    const int begin = 8 * threadIdx.x;
    float held[8], factor = 1;
    load_eight(a.x, begin, a.depth, held);
    if (a.norm_weight != nullptr) {
        float squares = sum_of_squares(held), v[8];
        for (int k = begin + kStep; k < a.depth; k += kStep) {
            load_eight(a.x, k, a.depth, v);
            squares += sum_of_squares(v);
        }
        leave_part(squares, parts);
        __syncthreads();
        factor = norm_factor(a, parts);
    }
    if (store_floats<Dot>(a, weights, held, factor, column)) return 1.0f;
    constexpr float kLess = 0x1p-16f;
    store_floats<Dot>(a, weights, held, factor * kLess, column);
    return 1 / kLess;
}

/// The same of a column that the kernel before has left: one thread copies it. What is in none of
/// its units is coded here.
template <class Dot>
__device__ __forceinline__ float take_column(const ColumnArguments& a, std::uint8_t* column,
                                             std::uint64_t* is_there) {
    const int taken = a.taken_depth, depth = a.depth;
    if (threadIdx.x == 0) {
        const auto codes = static_cast<unsigned>(Int8Column::byte_at(taken));
        const auto scales = static_cast<unsigned>(taken / 8);  // bytes; as many of sums
        fence_for_async_global();
        barrier_arrive_expecting(is_there, codes + 2 * scales);
        bulk_copy(column, a.taken.codes, codes, is_there);
        for (const std::int64_t at : {Int8Column::scale_at(depth, 0), Int8Column::sum_at(depth, 0)})
            bulk_copy(column + at, a.taken.codes + at, scales, is_there);
    }
    float factor = 1;
    if (a.norm_weight != nullptr) {
        float sum = 0;
        for (int i = threadIdx.x % 32 * 4; i < depth / kPassedUnit; i += 128) {
            const float4 four = __ldcg(reinterpret_cast<const float4*>(a.taken.squares + i));
            sum += (four.x + four.y) + (four.z + four.w);
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        factor = __frsqrt_rn(sum * a.inverse_depth + a.eps);
    }
    if (taken < depth) {
        for (int k = taken + 8 * static_cast<int>(threadIdx.x); k < depth;
             k += 8 * kColumnThreads) {  // whole warps: 256 divides both
            float v[8];
            load_eight(a.x, k, depth, v);
            Dot::stage8(v, depth, k, column);
        }
        __syncthreads();
    }
    barrier_wait(is_there, 0);
    return factor;
}

/// `is_there` is a barrier of one arrival, which all threads know.
template <class Dot>
__device__ __forceinline__ float stage_column(const ColumnArguments& a,
                                              const NormWeights<Dot>& weights, std::uint8_t* column,
                                              float* parts, std::uint64_t* is_there) {
    if constexpr (Dot::kHasCodes) {
        if (a.taken.codes != nullptr) return take_column<Dot>(a, column, is_there);
        return stage_codes<Dot>(a, weights, column, parts);
    } else {
        return stage_floats<Dot>(a, weights, column, parts);
    }
}

}  // namespace heddle::cuda
