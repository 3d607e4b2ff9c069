#pragma once

#include "backends/cuda/kernels/products/column_arguments.cuh"

/// What becomes of the sums of `gemv_column`: a residual joins them, they pass a gate, or are
/// turned and stored in a cache.
namespace heddle::cuda {

/// What finishing a block's pairs needs from global memory, taken while weights are on their way.
struct ColumnExtras {
    static constexpr int kPairs = 128;

    float2 of_pair[kPairs];              ///< addends, or cosine and sine
    std::int64_t offset[kMostMatrices];  ///< of the row that the result is stored in; -1: none
};

__device__ __forceinline__ int size_of_float(ggml_type type) {
    return type == GGML_TYPE_F32 ? 4 : 2;
}

/// What no kernel before this one makes: angles, and places in the cache.
__device__ inline void take_inputs(const ColumnArguments& a, int first, int end,
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
    if (thread >= min(end - first, ColumnExtras::kPairs)) return;
    const RowPair pair(a, first + thread);
    const ColumnEnd& to = a.matrices[pair.matrix].end;
    if (pair.turned >= 0)
        extras.of_pair[thread] = to.rotation.turn(pair.turned, 0, to.positions, to.factors);
}

/// The addends of pair `first + thread`, if there are any.
__device__ inline float2 take_addends(const ColumnArguments& a, int first, int end) {
    const ColumnMatrix& m = a.matrices[0];
    const int row = 2 * (first + static_cast<int>(threadIdx.x));
    if (m.end.addend == nullptr || row >= 2 * min(end, first + ColumnExtras::kPairs)) return {0, 0};
    return {__ldcg(m.end.addend + row), row + 1 < m.rows ? __ldcg(m.end.addend + row + 1) : 0.0f};
}

__device__ inline void leave_addends(const ColumnArguments& a, int first, int end, float2 both,
                                     ColumnExtras& extras) {
    if (a.matrices[0].end.addend != nullptr &&
        static_cast<int>(threadIdx.x) < min(end - first, ColumnExtras::kPairs))
        extras.of_pair[threadIdx.x] = both;
}

/// Stores the sums of pair `index`, which is pair `place` of the block.
__device__ inline void finish_pair(const ColumnArguments& a, int index, int place, float sum0,
                                   float sum1, const ColumnExtras& extras) {
    if (a.is_gated) {
        store_float(a.matrices[0].end.y + index * size_of_float(a.matrices[0].end.type),
                    glu_of(a.gate, sum0, sum1), a.matrices[0].end.type);
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

/// Adds up the slices of each row, in order, and finishes the pairs from `first` to `stop`.
__device__ inline void finish_rows(const ColumnArguments& a, int slices, int first, int stop,
                                   int block_first, const float* sums, int pitch,
                                   const ColumnExtras& extras) {
    for (int p = threadIdx.x; p < stop - first; p += kColumnThreads) {
        float sum0 = 0, sum1 = 0;
        for (int s = 0; s < slices; ++s) {
            const float2 both = *reinterpret_cast<const float2*>(sums + s * pitch + 2 * p);
            sum0 += both.x, sum1 += both.y;
        }
        finish_pair(a, first + p, first + p - block_first, sum0, sum1, extras);
    }
}

}  // namespace heddle::cuda
