#pragma once

#include "backends/cuda/kernels/chain.cuh"
#include "backends/cuda/kernels/elementwise/glu_functions.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "backends/cuda/kernels/ptx.cuh"

/// Matrix-vector products of one column, together with what surrounds them in a layer: the norm of
/// the activations before, and a residual or a gate after. Up to three matrices at once.
///
/// One block per multiprocessor, each with an equal share of all pairs of rows. Every warp streams
/// its rows through a ring of its own in shared memory: no warp waits for another but to share the
/// activations. The first slices are under way before the kernel before this one has finished.
///
/// `Dot` is as in gemv_ring.cuh; a slice is a few of its steps.
namespace heddle::cuda {

inline constexpr int kColumnWarps = 16, kColumnThreads = 32 * kColumnWarps;
inline constexpr int kMostSlots = 6, kMostMatrices = 3;

struct ColumnMatrix {
    const std::uint8_t* weights;
    std::int64_t row_stride;  ///< bytes
    int rows;
    float* y;
    const float* addend;  ///< joins the result, element by element; null: none
};

struct ColumnArguments {
    ColumnMatrix matrices[kMostMatrices];
    int count;
    int depth;
    const float* x;
    const float* norm_weight;  ///< of RMS_NORM, which x goes through first; null: it does not
    float eps;
    bool is_gated;  ///< the result, of matrix 0, is the gated unit of rows of matrices 0 and 1
    ops::Glu::Params gate;
    int slots;
    bool reads_ahead;
};

template <class Dot>
struct ColumnSlice {
    static constexpr int kStepWeights = Dot::kPieceWeights / Dot::kSteps;
    static constexpr int kStepBytes = Dot::kPieceBytes / Dot::kSteps;
    /// About 1,152 bytes: long enough for the copy engine, short enough for several slots. Slices
    /// begin at multiples of 16 bytes.
    static constexpr int kUnit = kStepBytes % 16 == 0 ? 1 : 2;
    static constexpr int kWanted = (1152 + kStepBytes / 2) / kStepBytes / kUnit * kUnit;
    static constexpr int kSteps = kWanted < kUnit ? kUnit : kWanted;
    static constexpr int kWeights = kSteps * kStepWeights, kBytes = kSteps * kStepBytes;
    static constexpr int kSlotBytes = kBytes + (Dot::kAlignment < 16 ? 16 : 0);  ///< of one row
    static_assert(kBytes % 16 == 0);

    __host__ __device__ static int count(int depth) { return (depth + kWeights - 1) / kWeights; }
};

/// Two rows that a warp multiplies together.
struct RowPair {
    int matrix, row;

    __device__ RowPair(const ColumnArguments& a, int number) : matrix(0), row(number) {
        if (a.is_gated) return;
        while (matrix + 1 < a.count && row >= (a.matrices[matrix].rows + 1) / 2) {
            row -= (a.matrices[matrix].rows + 1) / 2;
            ++matrix;
        }
        row *= 2;
    }
    /// Where row 0 or 1 of the pair begins. A pair at the end may have one row only: it counts
    /// twice, and the second sum is thrown away.
    __device__ const std::uint8_t* begin(const ColumnArguments& a, int which) const {
        const ColumnMatrix& m = a.matrices[a.is_gated ? which : matrix];
        const int number = a.is_gated ? row : min(row + which, m.rows - 1);
        return m.weights + number * m.row_stride;
    }
};

__host__ __device__ inline int row_pairs(const ColumnArguments& a) {
    if (a.is_gated) return a.matrices[0].rows;
    int pairs = 0;
    for (int i = 0; i < a.count; ++i) pairs += (a.matrices[i].rows + 1) / 2;
    return pairs;
}

/// The slices of a warp's rows on their way through its slots: of the first row and the second in
/// turn.
template <class Dot>
class WarpRing {
    using Slice = ColumnSlice<Dot>;

public:
    __device__ WarpRing(const ColumnArguments& a, std::uint8_t* slots, std::uint64_t* full,
                        int first, int end)
        : a_(a), slots_(slots), full_(full), end_(end), pair_(first) {
        lane_ = threadIdx.x & 31;
        policy_ = evict_first_policy();
        if (lane_ < a.slots) barrier_init(&full[lane_], 1);
        if (lane_ == 0) barrier_init_fence();
        __syncwarp();
        begin_pair();
    }

    /// Sends the next slice of a row to the slot whose turn it is.
    __device__ void fill() {
        if (pair_ >= end_) return;
        const int rest = static_cast<int>(Dot::row_bytes(a_.depth)) - slice_ * Slice::kBytes;
        if (lane_ == which_) {
            const auto phase = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(row_) & 15u);
            const unsigned bytes =
                (phase + static_cast<unsigned>(min(rest, Slice::kBytes)) + 15u) & ~15u;
            barrier_arrive_expecting(&full_[slot_], bytes);
            bulk_copy(slots_ + slot_ * Slice::kSlotBytes, row_ - phase + slice_ * Slice::kBytes,
                      bytes, &full_[slot_], policy_);
        }
        if (++slot_ == a_.slots) slot_ = 0;
        which_ ^= 1;
        if (which_ == 0 && rest <= Slice::kBytes) {
            pair_ += kColumnWarps;
            begin_pair();
        } else if (which_ == 0) {
            ++slice_;
        }
    }

private:
    __device__ void begin_pair() {
        slice_ = 0;
        if (pair_ < end_) row_ = RowPair(a_, pair_).begin(a_, lane_ & 1);
    }

    const ColumnArguments& a_;
    std::uint8_t* slots_;
    std::uint64_t* full_;
    std::uint64_t policy_;
    const std::uint8_t* row_ = nullptr;  ///< of the lane: the first or the second
    int end_, pair_, slice_ = 0, slot_ = 0, which_ = 0, lane_;
};

/// The activations, normed if need be, as the `Dot` reads them.
template <class Dot>
__device__ void stage_column(const ColumnArguments& a, std::uint8_t* column) {
    const auto* x = reinterpret_cast<const float4*>(a.x);
    const auto* weight = reinterpret_cast<const float4*>(a.norm_weight);
    const int count = a.depth / 4, end = Dot::staged_depth(a.depth) / 4;
    float scale = 1;
    if (weight != nullptr) {
        float squares = 0;
        for (int i = threadIdx.x; i < count; i += kColumnThreads) {
            const float4 v = x[i];
            squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        }
        scale = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(a.depth) + a.eps);
    }
    constexpr int kBatch = 4;  // loads under way at once: each takes as long as all the rest
    for (int first = threadIdx.x; first < end; first += kBatch * kColumnThreads) {
        float4 v[kBatch];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int i = first + b * kColumnThreads;
            v[b] = i < count ? x[i] : float4{0, 0, 0, 0};
            if (weight != nullptr && i < count) {
                const float4 w = weight[i];
                v[b] = {v[b].x * scale * w.x, v[b].y * scale * w.y, v[b].z * scale * w.z,
                        v[b].w * scale * w.w};
            }
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int i = first + b * kColumnThreads;
            if (i < end) Dot::stage4(v[b], a.depth, 4 * i, column);  // whole warps
        }
    }
    __syncthreads();
}

/// Sums of two rows over all lanes: the first row's in lanes 0 to 15, the second's in the others.
__device__ __forceinline__ float sum_of_two(float first, float second) {
    const bool is_upper = (threadIdx.x & 16) != 0;
    float sum = is_upper ? second : first;
    sum += __shfl_xor_sync(0xffffffffu, is_upper ? first : second, 16);
#pragma unroll
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

__device__ inline void store_pair(const ColumnArguments& a, const RowPair& pair, float sum) {
    const int lane = threadIdx.x & 31;
    if (a.is_gated) {
        const float linear = __shfl_down_sync(0xffffffffu, sum, 16);
        if (lane == 0) a.matrices[0].y[pair.row] = glu_of(a.gate, sum, linear);
        return;
    }
    if ((lane & 15) != 0) return;
    const ColumnMatrix& m = a.matrices[pair.matrix];
    const int row = pair.row + lane / 16;
    if (row >= m.rows) return;
    m.y[row] = m.addend != nullptr ? sum + m.addend[row] : sum;
}

template <class Dot>
__global__ void __launch_bounds__(kColumnThreads, 2) gemv_column(ColumnArguments a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // older devices have no bulk copies
    using Slice = ColumnSlice<Dot>;
    extern __shared__ __align__(128) std::uint8_t shared[];
    __shared__ std::uint64_t full[kColumnWarps][kMostSlots];
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    std::uint8_t* const slots = shared + warp * a.slots * Slice::kSlotBytes;
    std::uint8_t* const column = shared + kColumnWarps * a.slots * Slice::kSlotBytes;
    const auto pairs = static_cast<std::int64_t>(row_pairs(a));
    const int first = static_cast<int>(pairs * blockIdx.x / gridDim.x) + warp;
    const int end = static_cast<int>(pairs * (blockIdx.x + 1) / gridDim.x);
    if (!a.reads_ahead) chain_wait();
    WarpRing<Dot> ring(a, slots, full[warp], first, end);
    for (int i = 0; i < a.slots; ++i) ring.fill();
    chain_wait();
    chain_trigger();
    stage_column<Dot>(a, column);

    const int slices = Slice::count(a.depth);
    int slot = 0;
    unsigned parity = 0;
    for (int number = first; number < end; number += kColumnWarps) {
        const RowPair pair(a, number);
        const std::uint8_t* rows[2];  // in slot 0
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            rows[r] = slots;
            if constexpr (Dot::kAlignment < 16)
                rows[r] += reinterpret_cast<std::uintptr_t>(pair.begin(a, r)) & 15u;
        }
        float sums[2] = {};
        for (int slice = 0; slice < slices; ++slice) {
            typename Dot::Acts acts[Slice::kSteps];
#pragma unroll
            for (int step = 0; step < Slice::kSteps; ++step) {
                const int k = slice * Slice::kWeights + Dot::first_weight(step, lane);
                if (k < a.depth) acts[step] = Dot::load_acts(column, a.depth, k);
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                barrier_wait(&full[warp][slot], parity);
#pragma unroll
                for (int step = 0; step < Slice::kSteps; ++step) {
                    const int k = slice * Slice::kWeights + Dot::first_weight(step, lane);
                    if (k >= a.depth) continue;
                    const auto packed = Dot::load(rows[r] + slot * Slice::kSlotBytes, step, lane);
                    sums[r] += Dot::dot(packed, acts[step], lane);
                }
                __syncwarp();
                ring.fill();
                if (++slot == a.slots) {
                    slot = 0;
                    parity ^= 1;
                }
            }
        }
        store_pair(a, pair, sum_of_two(sums[0], sums[1]));
    }
#endif
}

// ---- host --------------------------------------------------------------------------------------

/// Slots that each warp gets; 0: not even two fit, and the kernel cannot run.
///
/// Blocks of two kernels fit a multiprocessor together: the second one's weights are on their way
/// while the first one works. Where they did not fit, blocks of the second would pile up on those
/// multiprocessors that are free first.
template <class Dot>
int column_slots(int depth, std::size_t shared) {
    constexpr std::size_t kHalf = 108 * 1024, kReserved = 2048;
    constexpr std::size_t kSlots = kColumnWarps * ColumnSlice<Dot>::kSlotBytes;
    const auto column = static_cast<std::size_t>(Dot::column_bytes(depth));
    if (shared < kReserved + column + 2 * kSlots) return 0;
    const std::size_t good = kHalf > column ? (kHalf - column) / kSlots : 0;
    return static_cast<int>(good < 2 ? 2 : good > kMostSlots ? kMostSlots : good);
}

template <class Dot>
void launch_column(ColumnArguments a, const Launch& launch) {
    a.slots = column_slots<Dot>(a.depth, launch.device.shared_per_block);
    a.reads_ahead = launch.reads_ahead;
    const auto shared = static_cast<std::size_t>(
        a.slots * kColumnWarps * ColumnSlice<Dot>::kSlotBytes + Dot::column_bytes(a.depth));
    const auto kernel = gemv_column<Dot>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared));
    const int pairs = row_pairs(a), most = launch.device.multiprocessors;
    start(launch, kernel, static_cast<unsigned>(pairs < most ? pairs : most), kColumnThreads,
          shared, a);
}

}  // namespace heddle::cuda
