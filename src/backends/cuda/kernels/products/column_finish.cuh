#pragma once

#include "backends/cuda/kernels/products/column_arguments.cuh"
#include "backends/cuda/kernels/products/int8_column.cuh"
#include "backends/cuda/kernels/ptx.cuh"

/// What becomes of the sums of `gemv_column`: a residual joins them, they pass a gate, or are
/// turned and stored in a cache.
namespace heddle::cuda {

/// What finishing a block's pairs needs from global memory, taken while weights are on their way.
struct ColumnExtras {
    static constexpr int kPairs = 128;

    float2 of_pair[kPairs];              ///< addends, or cosine and sine
    float2 weights[kPairs];              ///< of the norm that follows
    std::int64_t offset[kMostMatrices];  ///< of the row that the result is stored in; -1: none
};

__device__ __forceinline__ int size_of_float(ggml_type type) {
    return type == GGML_TYPE_F32 ? 4 : 2;
}

/// What no kernel before this one makes: angles, and places in the cache.
__device__ inline void take_inputs(const ColumnArguments& a, const BlockPairs& block,
                                   ColumnExtras& extras) {
    if (a.is_gated) return;
    const int thread = threadIdx.x;
    if (thread >= 32 * kColumnWarps - kMostMatrices) {  // another warp than the angles'
        const int matrix = 32 * kColumnWarps - 1 - thread;
        const ColumnEnd& to = a.matrices[matrix].end;
        if (matrix < a.count && to.indices.is_there()) {
            const std::int64_t row = to.indices.integer(0);
            extras.offset[matrix] =
                a.is_index_inside(row, to.stored_rows) ? row * to.row_stride : -1;
        }
    }
    if (thread >= min(block.count, ColumnExtras::kPairs)) return;
    const int number = block.at(thread);
    if (a.left_weight != nullptr)
        extras.weights[thread] = __ldcg(reinterpret_cast<const float2*>(a.left_weight) + number);
    const RowPair pair(a, number);
    const ColumnEnd& to = a.matrices[pair.matrix].end;
    if (pair.turned >= 0)
        extras.of_pair[thread] = to.rotation.turn(pair.turned, 0, to.positions, to.factors);
}

/// The addends of the thread's pair, if there are any.
__device__ inline float2 take_addends(const ColumnArguments& a, const BlockPairs& block) {
    const ColumnMatrix& m = a.matrices[0];
    const int thread = threadIdx.x;
    if (m.end.addend == nullptr || thread >= min(block.count, ColumnExtras::kPairs)) return {0, 0};
    const int row = 2 * block.at(thread);
    return {__ldcg(m.end.addend + row), row + 1 < m.rows ? __ldcg(m.end.addend + row + 1) : 0.0f};
}

__device__ inline void leave_addends(const ColumnArguments& a, const BlockPairs& block, float2 both,
                                     ColumnExtras& extras) {
    if (a.matrices[0].end.addend != nullptr &&
        static_cast<int>(threadIdx.x) < min(block.count, ColumnExtras::kPairs))
        extras.of_pair[threadIdx.x] = both;
}

/// Stores the sums of pair `index`, which is pair `place` of the block.
__device__ inline void finish_pair(const ColumnArguments& a, int index, int place, float sum0,
                                   float sum1, const ColumnExtras& extras) {
    if (a.is_gated) {
        const float value = glu_of(a.gate, sum0, sum1);
        store_float(a.matrices[0].end.y + index * size_of_float(a.matrices[0].end.type), value,
                    a.matrices[0].end.type);
        return;
    }
    const RowPair pair(a, index);
    const ColumnMatrix& m = a.matrices[pair.matrix];
    const ColumnEnd& to = m.end;
    if (to.addend != nullptr) {
        const bool is_there = place < ColumnExtras::kPairs;
        sum0 += is_there ? extras.of_pair[place].x : __ldcg(to.addend + pair.row);
        if (pair.second < m.rows)
            sum1 += is_there ? extras.of_pair[place].y : __ldcg(to.addend + pair.second);
    }
    if (pair.turned >= 0) {
        const float2 turn = extras.of_pair[place];
        const float first = sum0;
        sum0 = first * turn.x - sum1 * turn.y;
        sum1 = first * turn.y + sum1 * turn.x;
    }
    std::byte* y = to.y;
    if (to.indices.is_there()) {
        if (extras.offset[pair.matrix] < 0) return;
        y += extras.offset[pair.matrix];
    }
    const int size = size_of_float(to.type);
    store_float(y + pair.row * size, sum0, to.type);
    if (pair.second < m.rows) store_float(y + pair.second * size, sum1, to.type);
}

/// Adds up the slices of both rows of a pair, in order.
__device__ __forceinline__ float2 sum_of_slices(const float* sums, int pair, int slices,
                                                int pitch) {
    float2 sum{0, 0};
    for (int s = 0; s < slices; ++s) {
        const float2 both = *reinterpret_cast<const float2*>(sums + s * pitch + 2 * pair);
        sum.x += both.x, sum.y += both.y;
    }
    return sum;
}

/// Finishes one of 32 results that are passed on, one a lane. `pair` is the lane's, `place` its
/// place in the block.
__device__ inline void finish_passed(const ColumnArguments& a, int pair, int place, float2 sum,
                                     const ColumnExtras& extras) {
    const ColumnEnd& to = a.matrices[0].end;
    const bool is_second = !a.is_gated && threadIdx.x % 2 != 0;
    const bool is_there = place < ColumnExtras::kPairs;
    const int row = a.is_gated ? pair : 2 * pair + (is_second ? 1 : 0);
    float value = a.is_gated ? glu_of(a.gate, sum.x, sum.y) : is_second ? sum.y : sum.x;
    if (to.addend != nullptr) {
        const float2 both = extras.of_pair[is_there ? place : 0];
        value += !is_there ? __ldcg(to.addend + row) : is_second ? both.y : both.x;
    }
    store_float(to.y + row * size_of_float(to.type), value, to.type);
    float coded = value;
    if (a.left_weight != nullptr) {
        const float2 both = extras.weights[is_there ? place : 0];
        coded *= !is_there ? __ldcg(a.left_weight + row) : is_second ? both.y : both.x;
        float squares = value * value;
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            squares += __shfl_xor_sync(0xffffffffu, squares, step);
        if (row % kPassedUnit == 0) a.left.squares[row / kPassedUnit] = squares;
    }
    pass_one(coded, a.matrices[0].rows, row, a.left.codes);
}

/// Finishes the block's pairs from `first` to `stop`, 32 results to a warp: those of a gate are
/// from as many pairs, others from half as many.
__device__ inline void finish_units(const ColumnArguments& a, const BlockPairs& block, int slices,
                                    int first, int stop, const float* sums, int pitch,
                                    const ColumnExtras& extras) {
    const int lane = threadIdx.x % 32, of_lane = a.is_gated ? lane : lane / 2;
    for (int p = static_cast<int>(threadIdx.x) / 32 * a.unit + of_lane; p < stop - first;
         p += kColumnWarps * a.unit) {
        finish_passed(a, block.first + first + p, first + p, sum_of_slices(sums, p, slices, pitch),
                      extras);
    }
}

/// Adds up the slices of each row, and finishes the block's pairs from `first` to `stop`. The last
/// warps begin: the first ones may have units to finish.
__device__ inline void finish_rows(const ColumnArguments& a, const BlockPairs& block, int slices,
                                   int first, int stop, const float* sums, int pitch,
                                   const ColumnExtras& extras) {
    for (int p = kColumnThreads - 1 - static_cast<int>(threadIdx.x); p < stop - first;
         p += kColumnThreads) {
        const float2 sum = sum_of_slices(sums, p, slices, pitch);
        finish_pair(a, block.at(first + p), first + p, sum.x, sum.y, extras);
    }
}

}  // namespace heddle::cuda
