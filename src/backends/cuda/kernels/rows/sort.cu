// ARGSORT and TOP_K: bitonic sorting. Rows that fit into the shared memory of a block are sorted
// there; longer ones in pieces, with steps between them in scratch memory. Equal elements stay in
// order, so results are the same in every run.

#include "backends/cuda/kernels/operand.cuh"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/sort.hpp"

namespace heddle::cuda {
namespace {

struct Entry {
    float key;
    std::int32_t index;
};

constexpr std::int32_t kPadding = 0x7fffffff;  ///< an index behind all others: comes last
constexpr std::int64_t kPiece = 2048;          ///< entries that a block sorts in shared memory
constexpr int kMostThreads = 512;

__device__ bool comes_before(const Entry& a, const Entry& b, bool is_descending) {
    if (a.index == kPadding || b.index == kPadding) return a.index < b.index;
    if (a.key != b.key) return is_descending ? a.key > b.key : a.key < b.key;
    return a.index < b.index;
}

__device__ void order_pair(Entry& low, Entry& high, bool is_upward, bool is_descending) {
    if (comes_before(high, low, is_descending) != is_upward) return;
    const Entry kept = low;
    low = high;
    high = kept;
}

/// The smallest power of two that is not below `n`.
std::int64_t padded_length(std::int64_t n) {
    std::int64_t length = 1;
    while (length < n) length *= 2;
    return length;
}

/// Number i of the pairs that are `distance` (a power of two) apart: its first entry.
__device__ std::int64_t first_of_pair(std::int64_t i, std::int64_t distance) {
    return i / distance * 2 * distance + i % distance;
}

/// Steps of distance `distance`, half of it and so on to 1, within a piece in shared memory.
/// `begin` is the number of the piece's first entry in its row.
__device__ void merge_piece(Entry* piece, std::int64_t length, std::int64_t begin,
                            std::int64_t block, std::int64_t distance, bool is_descending) {
    for (; distance > 0; distance /= 2) {
        for (std::int64_t i = threadIdx.x; i < length / 2; i += blockDim.x) {
            const std::int64_t first = first_of_pair(i, distance);
            const bool is_upward = ((begin + first) & block) == 0;
            order_pair(piece[first], piece[first + distance], is_upward, is_descending);
        }
        __syncthreads();
    }
}

struct Sorting {
    Operand x, y;
    std::int64_t rows, length, piece, pieces;
    bool is_descending;
    Entry* entries;  ///< of all rows, padded; null if rows are one piece

    Sorting(const Tensor& node, bool descending, std::byte* scratch)
        : x(operand(node.src[0])),
          y(operand(&node)),
          rows(row_count(*node.src[0])),
          length(padded_length(node.src[0]->ne[0])),
          piece(length < kPiece ? length : kPiece),
          pieces(length / piece),
          is_descending(descending),
          entries(reinterpret_cast<Entry*>(scratch)) {}

    __device__ Entry load(std::int64_t row, std::int64_t i) const {
        if (i >= x.extent[0]) return {0, kPadding};
        const Place p = row_place(row, x.extent);
        return {x(i, p.i1, p.i2, p.i3), static_cast<std::int32_t>(i)};
    }
    __device__ void store(std::int64_t row, std::int64_t i, const Entry& entry) const {
        if (i >= y.extent[0]) return;
        const Place p = row_place(row, y.extent);
        *reinterpret_cast<std::int32_t*>(y.at(i, p.i1, p.i2, p.i3)) = entry.index;
    }
    int threads() const {
        const std::int64_t pairs = piece / 2;
        return static_cast<int>(pairs < 32 ? 32 : pairs > kMostThreads ? kMostThreads : pairs);
    }
};

/// Sorts every piece, upwards and downwards by turns; a row of one piece is done then.
__global__ void sort_pieces(Sorting sorting) {
    __shared__ Entry piece[kPiece];
    for (std::int64_t b = blockIdx.x; b < sorting.rows * sorting.pieces; b += gridDim.x) {
        const std::int64_t row = b / sorting.pieces, begin = b % sorting.pieces * sorting.piece;
        for (std::int64_t i = threadIdx.x; i < sorting.piece; i += blockDim.x) {
            piece[i] = sorting.load(row, begin + i);
        }
        __syncthreads();
        for (std::int64_t block = 2; block <= sorting.piece; block *= 2) {
            merge_piece(piece, sorting.piece, begin, block, block / 2, sorting.is_descending);
        }
        for (std::int64_t i = threadIdx.x; i < sorting.piece; i += blockDim.x) {
            if (sorting.pieces == 1) {
                sorting.store(row, i, piece[i]);
            } else {
                sorting.entries[row * sorting.length + begin + i] = piece[i];
            }
        }
        __syncthreads();
    }
}

/// One step between entries that may lie in different pieces.
__global__ void step_between(Sorting sorting, std::int64_t block, std::int64_t distance) {
    const std::int64_t half = sorting.length / 2, step = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
         i < sorting.rows * half; i += step) {
        const std::int64_t first = first_of_pair(i % half, distance);
        Entry* const row = sorting.entries + i / half * sorting.length;
        order_pair(row[first], row[first + distance], (first & block) == 0, sorting.is_descending);
    }
}

/// The rest of the steps of a block, within pieces; after the last block indices are written.
__global__ void merge_pieces(Sorting sorting, std::int64_t block) {
    __shared__ Entry piece[kPiece];
    const bool is_last = block == sorting.length;
    for (std::int64_t b = blockIdx.x; b < sorting.rows * sorting.pieces; b += gridDim.x) {
        const std::int64_t row = b / sorting.pieces, begin = b % sorting.pieces * sorting.piece;
        Entry* const from = sorting.entries + row * sorting.length + begin;
        for (std::int64_t i = threadIdx.x; i < sorting.piece; i += blockDim.x) piece[i] = from[i];
        __syncthreads();
        merge_piece(piece, sorting.piece, begin, block, sorting.piece / 2, sorting.is_descending);
        for (std::int64_t i = threadIdx.x; i < sorting.piece; i += blockDim.x) {
            if (is_last) {
                sorting.store(row, begin + i, piece[i]);
            } else {
                from[i] = piece[i];
            }
        }
        __syncthreads();
    }
}

void sort(const Tensor& node, const Launch& launch, bool is_descending) {
    const Sorting sorting(node, is_descending, launch.scratch);
    constexpr std::int64_t most = 0x7fffffff;
    const std::int64_t all = sorting.rows * sorting.pieces;
    const auto blocks = static_cast<unsigned>(all < most ? all : most);
    const int threads = sorting.threads();
    sort_pieces<<<blocks, threads, 0, launch.stream>>>(sorting);
    for (std::int64_t block = 2 * sorting.piece; block <= sorting.length; block *= 2) {
        for (std::int64_t distance = block / 2; distance >= sorting.piece; distance /= 2) {
            const std::int64_t pairs = sorting.rows * sorting.length / 2;
            step_between<<<blocks_for(pairs, 256, launch.device), 256, 0, launch.stream>>>(
                sorting, block, distance);
        }
        merge_pieces<<<blocks, threads, 0, launch.stream>>>(sorting, block);
    }
}

std::size_t sort_scratch(const Tensor& node, const DeviceFacts&) {
    const std::int64_t length = padded_length(node.src[0]->ne[0]);
    if (length <= kPiece) return 0;
    return static_cast<std::size_t>(length * row_count(*node.src[0])) * sizeof(Entry);
}

std::string_view objection(const Tensor& node) {
    if (node.type != GGML_TYPE_I32) return "the result is not I32";
    if (node.src[0] == nullptr || !is_float(*node.src[0])) return "the operand is not F32";
    if (node.src[0]->ne[0] >= kPadding) return "rows are too long for I32";
    if (row_count(node) != row_count(*node.src[0]) || node.ne[0] > node.src[0]->ne[0]) {
        return "shapes do not fit";
    }
    return {};
}

void launch_argsort(const Tensor& node, const Launch& launch) {
    sort(node, launch, unpack<ops::Argsort::Params>(node).order == GGML_SORT_ORDER_DESC);
}
void launch_top_k(const Tensor& node, const Launch& launch) { sort(node, launch, true); }

constexpr Kernel kKernels[] = {
    {"argsort_bitonic", GGML_OP_ARGSORT, objection, sort_scratch, launch_argsort},
    {"top_k_bitonic", GGML_OP_TOP_K, objection, sort_scratch, launch_top_k},
};

}  // namespace

std::span<const Kernel> sort_kernels() { return kKernels; }

}  // namespace heddle::cuda
