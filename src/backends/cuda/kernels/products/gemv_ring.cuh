#pragma once

#include "backends/cuda/kernels/faults.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "backends/cuda/kernels/ptx.cuh"

/// Matrix-vector products that stream raw weights through a ring in shared memory.
///
/// One block per multiprocessor, each with an equal share of all rows. A producer warp copies
/// pieces of rows with bulk copies; eight consumer warps multiply them with activations, which lie
/// in shared memory for as long as the matrix stays the same. Rows begin at multiples of
/// `Dot::kAlignment`; bulk copies begin at multiples of 16, so a piece lies at its phase.
///
/// A `Dot` says how one warp multiplies one piece of a row:
///     kAlignment                    of rows in memory, 4 to 16
///     kPieceWeights, kPieceBytes    of a row in one stage; bytes a multiple of 16
///     kSteps                        times that each lane multiplies in a piece
///     column_bytes(depth)           of activations in shared memory, a multiple of 16
///     first_weight(step, lane)      in the piece, of what the lane multiplies in that step
///     load_column(arguments, number, to, thread, threads)   a column into shared memory
///     Packed load(piece, step, lane), Acts load_acts(column, depth, k), dot(Packed, Acts, lane)
namespace heddle::cuda {

inline constexpr int kConsumerWarps = 8;
inline constexpr int kGemvThreads = 32 * (kConsumerWarps + 1);
inline constexpr int kMaxStages = 6;

struct GemvArguments {
    Weights weights;
    std::int64_t segments;  ///< matrices of weights, one after the other
    std::int64_t extent2;   ///< segments along dimension 2
    int columns;            ///< of each segment in this launch, at most kColumns
    int column_offset;      ///< of these, in the segment
    int segment_columns;    ///< all columns of a segment
    float* y;               ///< column after column, `weights.rows` each

    Activations acts;

    const std::int32_t* ids;                   ///< null: segments are (i2, i3); else (slot, token)
    std::int64_t ids_stride;                   ///< elements from token to token
    std::int64_t experts, slots, shared_rows;  ///< shared_rows: rows of activations per token
    IndexCheck is_expert;

    int stages;
};

/// The weights of a segment; null: the expert does not exist.
__device__ inline const std::uint8_t* matrix_of(const GemvArguments& a, std::int64_t segment) {
    if (a.ids == nullptr) return a.weights.matrix(segment % a.extent2, segment / a.extent2);
    const std::int64_t slot = segment % a.slots, token = segment / a.slots;
    const std::int32_t expert = a.ids[token * a.ids_stride + slot];
    if (!a.is_expert(expert, a.experts)) return nullptr;
    return a.weights.data + expert * a.weights.stride2;
}

/// A run of rows of one segment that consumers take together.
struct RowTile {
    const std::uint8_t* matrix;  ///< null: the expert does not exist
    std::int64_t segment, first_row;
    int rows;
    bool is_new_segment;
};

/// Walks the rows of this block, tile by tile; producer and consumers walk alike. Divides once:
/// divisions of 64 bits cost more than the products of a short row.
template <int kRowsPerTile>
class TileWalk {
public:
    __device__ explicit TileWalk(const GemvArguments& a) : a_(a) {
        const std::int64_t all = a.segments * a.weights.rows;
        const std::int64_t first = all * blockIdx.x / gridDim.x;
        left_ = all * (blockIdx.x + 1) / gridDim.x - first;
        segment_ = first / a.weights.rows;
        row_ = first - segment_ * a.weights.rows;
    }

    __device__ bool next(RowTile& tile) {
        if (left_ <= 0) return false;
        if (row_ == a_.weights.rows) {
            row_ = 0;
            ++segment_;
            is_new_ = true;
        }
        if (is_new_) matrix_ = matrix_of(a_, segment_);
        const std::int64_t rows = min(a_.weights.rows - row_, left_);
        tile.is_new_segment = is_new_;
        tile.segment = segment_;
        tile.matrix = matrix_;
        tile.first_row = row_;
        tile.rows = static_cast<int>(min(rows, static_cast<std::int64_t>(kRowsPerTile)));
        row_ += tile.rows;
        left_ -= tile.rows;
        is_new_ = false;
        return true;
    }

private:
    const GemvArguments& a_;
    std::int64_t segment_, row_, left_;
    bool is_new_ = true;
    const std::uint8_t* matrix_ = nullptr;
};

/// The first column of activations of a segment.
__device__ inline std::int64_t first_column(const GemvArguments& a, std::int64_t segment) {
    if (a.ids == nullptr) return segment * a.segment_columns + a.column_offset;
    const std::int64_t slot = segment % a.slots, token = segment / a.slots;
    return token * a.shared_rows + slot % a.shared_rows;
}

/// Bytes of one row in a stage: a piece, and room for its phase at either end.
template <class Dot>
inline constexpr int kPiecePitch = Dot::kPieceBytes + (Dot::kAlignment < 16 ? 16 : 0);

template <class Dot, int kRows>
inline constexpr int kStageBytes = kConsumerWarps* kRows* kPiecePitch<Dot>;

/// Where a piece of a row begins, and how long it is.
struct Piece {
    const std::uint8_t* from;
    int bytes;

    template <class Dot>
    __device__ static Piece of(const GemvArguments& a, const RowTile& tile, int row, int number) {
        const std::int64_t first = static_cast<std::int64_t>(number) * Dot::kPieceBytes;
        const std::int64_t rest = Dot::row_bytes(a.weights.depth) - first;
        return {tile.matrix + (tile.first_row + row) * a.weights.row_stride + first,
                static_cast<int>(min(rest, static_cast<std::int64_t>(Dot::kPieceBytes)))};
    }
    __device__ unsigned phase() const {
        return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) & 15u);
    }
};

template <class Dot, int kRows>
__device__ void produce(const GemvArguments& a, std::uint8_t* stages, std::uint64_t* full,
                        std::uint64_t* empty) {
    const int lane = threadIdx.x & 31;
    const std::uint64_t policy = evict_first_policy();
    const int pieces =
        static_cast<int>((a.weights.depth + Dot::kPieceWeights - 1) / Dot::kPieceWeights);
    TileWalk<kConsumerWarps * kRows> walk(a);
    RowTile tile;
    int stage = 0;
    unsigned parity = 1;  // the first wait for an empty stage is over at once
    while (walk.next(tile)) {
        if (tile.matrix == nullptr) continue;
        for (int number = 0; number < pieces; ++number) {
            barrier_wait(&empty[stage], parity);
            unsigned bytes = 0;
            const std::uint8_t* from = nullptr;
            if (lane < tile.rows) {
                const Piece piece = Piece::of<Dot>(a, tile, lane, number);
                from = piece.from - piece.phase();
                bytes = (piece.phase() + static_cast<unsigned>(piece.bytes) + 15u) & ~15u;
            }
            const unsigned all = __reduce_add_sync(0xffffffffu, bytes);
            if (lane == 0) barrier_arrive_expecting(&full[stage], all);
            __syncwarp();
            if (lane < tile.rows) {
                std::uint8_t* to =
                    stages + stage * kStageBytes<Dot, kRows> + lane * kPiecePitch<Dot>;
                bulk_copy(to, from, bytes, &full[stage], policy);
            }
            if (++stage == a.stages) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

/// A barrier of the consumers alone.
__device__ __forceinline__ void consumers_sync() {
    asm volatile("bar.sync 1, %0;" ::"n"(32 * kConsumerWarps) : "memory");
}

template <class Dot, int kColumns>
__device__ void load_columns(const GemvArguments& a, std::int64_t segment, std::uint8_t* columns) {
    const std::int64_t first = first_column(a, segment);
    const int bytes = Dot::column_bytes(a.weights.depth);
    for (int n = 0; n < a.columns; ++n)
        Dot::load_column(a, first + n, columns + n * bytes, threadIdx.x, 32 * kConsumerWarps);
    // A column that is not there must still be numbers, if any: its sums are thrown away.
}

template <int kRows, int kColumns>
__device__ void store_sums(const GemvArguments& a, const RowTile& tile, int first,
                           float (&sums)[kRows][kColumns]) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
            float sum = sums[r][n];
#pragma unroll
            for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
            if (lane == r * kColumns + n && first + r < tile.rows && n < a.columns) {
                const std::int64_t column =
                    a.ids != nullptr ? tile.segment
                                     : tile.segment * a.segment_columns + a.column_offset + n;
                a.y[column * a.weights.rows + tile.first_row + first + r] = sum;
            }
        }
    }
}

template <class Dot, int kRows, int kColumns>
__device__ void consume(const GemvArguments& a, const std::uint8_t* stages, std::uint8_t* columns,
                        std::uint64_t* full, std::uint64_t* empty) {
    static_assert(kRows * kColumns <= 32);
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int pieces =
        static_cast<int>((a.weights.depth + Dot::kPieceWeights - 1) / Dot::kPieceWeights);
    const int column_bytes = Dot::column_bytes(a.weights.depth);
    const int first = warp * kRows;  // of the warp's rows in a tile
    TileWalk<kConsumerWarps * kRows> walk(a);
    RowTile tile;
    int stage = 0;
    unsigned parity = 0;
    while (walk.next(tile)) {
        if (tile.is_new_segment) {
            consumers_sync();
            load_columns<Dot, kColumns>(a, tile.segment, columns);
            consumers_sync();
        }
        float sums[kRows][kColumns] = {};
        if (tile.matrix != nullptr) {
            int offsets[kRows];  // of the warp's rows in a stage
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                offsets[r] = (first + r) * kPiecePitch<Dot>;
                if constexpr (Dot::kAlignment < 16)
                    offsets[r] += static_cast<int>(Piece::of<Dot>(a, tile, first + r, 0).phase());
            }
            for (int number = 0; number < pieces; ++number) {
                const std::uint8_t* in_stage = stages + stage * kStageBytes<Dot, kRows>;
                barrier_wait(&full[stage], parity);
                const int k0 = number * Dot::kPieceWeights;
                if (first < tile.rows) {
#pragma unroll
                    for (int step = 0; step < Dot::kSteps; ++step) {
                        const int k = k0 + Dot::first_weight(step, lane);
                        if (k >= a.weights.depth) continue;
                        typename Dot::Packed packed[kRows];
#pragma unroll
                        for (int r = 0; r < kRows; ++r)
                            packed[r] = Dot::load(in_stage + offsets[r], step, lane);
#pragma unroll
                        for (int n = 0; n < kColumns; ++n) {
                            const auto acts =
                                Dot::load_acts(columns + n * column_bytes, a.weights.depth, k);
#pragma unroll
                            for (int r = 0; r < kRows; ++r)
                                sums[r][n] += Dot::dot(packed[r], acts, lane);
                        }
                    }
                }
                __syncwarp();
                if (lane == 0) barrier_arrive(&empty[stage]);
                if (++stage == a.stages) {
                    stage = 0;
                    parity ^= 1;
                }
            }
        }
        store_sums<kRows, kColumns>(a, tile, first, sums);
    }
}

template <class Dot, int kRows, int kColumns>
__global__ void __launch_bounds__(kGemvThreads, kColumns == 1 ? 2 : 1) gemv_ring(GemvArguments a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // older devices have no bulk copies
    extern __shared__ __align__(128) std::uint8_t shared[];
    __shared__ std::uint64_t full[kMaxStages], empty[kMaxStages];
    std::uint8_t* columns = shared + a.stages * kStageBytes<Dot, kRows>;
    if (threadIdx.x == 0) {
        for (int i = 0; i < a.stages; ++i) {
            barrier_init(&full[i], 1);
            barrier_init(&empty[i], kConsumerWarps);
        }
        barrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x >= 32 * kConsumerWarps)
        produce<Dot, kRows>(a, shared, full, empty);
    else
        consume<Dot, kRows, kColumns>(a, shared, columns, full, empty);
#endif
}

// ---- host --------------------------------------------------------------------------------------

/// Columns per launch and stages that fit the shared memory; 0 columns: not even one fits.
struct GemvPlan {
    int columns = 0, stages = 0;

    template <class Dot, int kRows>
    static GemvPlan of(int wanted, std::int64_t depth, std::size_t shared) {
        constexpr std::size_t kStage = kStageBytes<Dot, kRows>, kReserved = 1024;
        constexpr std::size_t kRing = 110 * 1024;  // two such blocks fit a multiprocessor
        const std::size_t column = static_cast<std::size_t>(Dot::column_bytes(depth));
        const std::size_t room = shared > kReserved ? shared - kReserved : 0;
        GemvPlan plan;
        for (int columns = wanted; columns > 0; columns /= 2) {
            if (columns * column + 2 * kStage > room) continue;
            plan.columns = columns;
            const std::size_t left = (room - columns * column) / kStage, good = kRing / kStage;
            const std::size_t stages = left < good ? left : good;
            plan.stages = static_cast<int>(stages < 2            ? 2
                                           : stages > kMaxStages ? kMaxStages
                                                                 : stages);
            break;
        }
        return plan;
    }
};

template <class Dot, int kRows, int kColumns>
void launch_ring_columns(GemvArguments& a, int stages, const Launch& launch) {
    const auto kernel = gemv_ring<Dot, kRows, kColumns>;
    const int shared =
        stages * kStageBytes<Dot, kRows> + kColumns * Dot::column_bytes(a.weights.depth);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    // Kernels that divide a multiprocessor's memory differently do not run on it together.
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
    a.stages = stages;
    const std::int64_t rows = a.segments * a.weights.rows;
    const std::int64_t blocks = rows < launch.device.multiprocessors
                                    ? rows
                                    : static_cast<std::int64_t>(launch.device.multiprocessors);
    kernel<<<static_cast<unsigned>(blocks), kGemvThreads, static_cast<std::size_t>(shared),
             launch.stream>>>(a);
}

/// All columns of all segments, as many at a time as fit.
template <class Dot>
void launch_ring(GemvArguments a, const Launch& launch) {
    const int wanted = a.segment_columns > 2 ? 4 : a.segment_columns;
    const GemvPlan plan =
        GemvPlan::of<Dot, 2>(wanted, a.weights.depth, launch.device.shared_per_block);
    for (a.column_offset = 0; a.column_offset < a.segment_columns; a.column_offset += a.columns) {
        const int left = a.segment_columns - a.column_offset;
        a.columns = left < plan.columns ? left : plan.columns;
        if (a.columns == 1)
            launch_ring_columns<Dot, 2, 1>(a, plan.stages, launch);
        else if (a.columns == 2)
            launch_ring_columns<Dot, 2, 2>(a, plan.stages, launch);
        else
            launch_ring_columns<Dot, 2, 4>(a, plan.stages, launch);
    }
}

/// Whether a single column fits.
template <class Dot>
bool ring_fits(std::int64_t depth, std::size_t shared) {
    return GemvPlan::of<Dot, 2>(1, depth, shared).columns == 1;
}

}  // namespace heddle::cuda
