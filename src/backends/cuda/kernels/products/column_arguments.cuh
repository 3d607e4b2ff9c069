#pragma once

#include "backends/cuda/kernels/elementwise/glu_functions.cuh"
#include "backends/cuda/kernels/faults.cuh"
#include "backends/cuda/kernels/products/int8_column.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "backends/cuda/kernels/products/passed_column.hpp"
#include "backends/cuda/kernels/rows/rope.cuh"

/// What `gemv_column` is told: matrices whose rows are multiplied with a column, and what becomes
/// of the products.
namespace heddle::cuda {

inline constexpr int kColumnWarps = 14, kColumnThreads = 32 * kColumnWarps;
inline constexpr int kMostMatrices = 3;

/// Units of a gate's results that are coded: as many for each multiprocessor, or all there are.
inline std::int64_t passed_units(std::int64_t results, const DeviceFacts& device) {
    const std::int64_t units = results / kPassedUnit, blocks = device.multiprocessors;
    return units < blocks ? units : units / blocks * blocks;
}

/// Elements of a column that can be taken as codes, in whole blocks. Without a norm it may be
/// that of a gate.
inline std::int64_t passed_depth(std::int64_t depth, bool is_normed, const DeviceFacts& device) {
    const std::int64_t coded = is_normed ? depth : passed_units(depth, device) * kPassedUnit;
    return coded / Int8Column::kBlock * Int8Column::kBlock;
}

/// Where the product of a matrix goes.
struct ColumnEnd {
    std::byte* y;
    const float* addend;  ///< joins the result, element by element; null: none
    ggml_type type;       ///< of what is stored: F32, F16 or BF16
    bool is_turned;       ///< pairs of the result are turned, as `rotation` says
    Rotation rotation;
    Operand positions, factors;
    Operand indices;           ///< where among rows the result is stored; no data: y is its place
    std::int64_t row_stride;   ///< of these rows, bytes
    std::int64_t stored_rows;  ///< how many there are
};

struct ColumnMatrix {
    const std::uint8_t* weights;
    std::int64_t row_stride;  ///< bytes
    int rows, pairs;
    int head_pairs;    ///< of a head whose pairs are turned; 0: pairs are neighbours
    int turned_pairs;  ///< of a head, from its beginning
    int distance;      ///< of the rows of such a pair
    ColumnEnd end;
};

struct ColumnArguments {
    ColumnMatrix matrices[kMostMatrices];
    int count;
    int depth;
    float inverse_depth;
    int share, longer;  ///< units of a block, and how many blocks have one more
    int unit;           ///< pairs that one block has to have all of
    int rest_first;     ///< from this pair on they are in no unit: each block has a share of them,
    int rest_share, rest_longer;  ///< so many, and how many blocks have one more
    const float* x;
    PassedColumn taken;        ///< x times the weights of the norm, if it is there already:
    int taken_depth;           ///< so many elements, a multiple of 256
    PassedColumn left;         ///< where the result goes besides,
    const float* left_weight;  ///< times the weights of the norm that follows; null, as of a gate:
                               ///< none does
    const float* norm_weight;  ///< of RMS_NORM, which x goes through first; null: it does not
    float eps;
    bool is_gated;     ///< the result, of matrix 0, is the gated unit of rows of matrices 0 and 1
    bool reads_ahead;  ///< weights are there before the kernel before has finished
    bool has_early_inputs;  ///< so are positions and indices
    ops::Glu::Params gate;
    IndexCheck is_index_inside;
    int slots;
    bool has_phases;  ///< not all rows begin at multiples of 16 bytes
};

/// Two rows that a warp multiplies together, and that make two results or one.
struct RowPair {
    int matrix, number;  ///< among the pairs of this matrix
    int row, second;     ///< of a gate: the same, in matrices 0 and 1
    int turned;          ///< which pair of a head, if ROPE turns it; else -1

    /// Pair `index` of all matrices one after the other.
    __device__ RowPair(const ColumnArguments& a, int index)
        : matrix(0), number(index), row(index), second(index), turned(-1) {
        if (a.is_gated) return;
        while (matrix + 1 < a.count && number >= a.matrices[matrix].pairs) {
            number -= a.matrices[matrix].pairs;
            ++matrix;
        }
        row = 2 * number;
        second = row + 1;
        const ColumnMatrix& m = a.matrices[matrix];
        if (m.head_pairs == 0) return;
        const int pair =
            static_cast<int>(static_cast<unsigned>(number) % static_cast<unsigned>(m.head_pairs));
        if (pair >= m.turned_pairs) return;
        turned = pair;
        if (m.distance > 1) row -= pair;
        second = row + m.distance;
    }

    /// Where its first or second row begins. A pair at the end may have one row only: it counts
    /// twice, and the second sum is thrown away.
    __device__ const std::uint8_t* begin(const ColumnArguments& a, int which) const {
        const ColumnMatrix& m = a.matrices[a.is_gated ? which : matrix];
        return m.weights + min(which == 0 ? row : second, m.rows - 1) * m.row_stride;
    }
};

/// The pairs of a block, by their number in it: whole units, then its share of what those leave.
struct BlockPairs {
    int first, whole, rest, count;

    __device__ explicit BlockPairs(const ColumnArguments& a) {
        const int block = static_cast<int>(blockIdx.x);
        first = (block * a.share + min(block, a.longer)) * a.unit;
        whole = (a.share + (block < a.longer ? 1 : 0)) * a.unit;
        rest = a.rest_first + block * a.rest_share + min(block, a.rest_longer);
        count = whole + a.rest_share + (block < a.rest_longer ? 1 : 0);
    }
    /// Among all pairs.
    __device__ int at(int i) const { return i < whole ? first + i : rest + i - whole; }
};

__host__ __device__ inline int row_pairs(const ColumnArguments& a) {
    if (a.is_gated) return a.matrices[0].rows;
    int pairs = 0;
    for (int i = 0; i < a.count; ++i) pairs += a.matrices[i].pairs;
    return pairs;
}

}  // namespace heddle::cuda
