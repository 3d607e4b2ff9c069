#pragma once

#include "backends/cuda/kernels/chain.cuh"
#include "backends/cuda/kernels/products/column_finish.cuh"
#include "backends/cuda/kernels/products/column_stage.cuh"
#include "backends/cuda/kernels/ptx.cuh"

/// Matrix-vector products, together with what surrounds them in a layer: the norm of
/// the activations before; a residual, a gate, or ROPE and the way into a cache after. Up to three
/// matrices at once.
///
/// One block per multiprocessor, each with an equal share of all pairs of rows. A warp multiplies
/// one slice of the column with that slice of every row that is its turn: its activations stay in
/// registers from beginning to end. Weights come through a ring of the warp's own in shared memory:
/// no warp waits for another but to share the activations and to add up the slices of rows. The
/// first weights are under way before the kernel before this one has finished.
///
/// `Dot` is as in gemv_ring.cuh; a slice is a few of its steps. Besides:
///     kHasCodes                          activations are codes with scales
///     stage8(numbers, depth, k, column)  eight of the column into shared memory, by whole warps
///     finish(acts, factor)               multiplies scales with the factor, and rounds them
namespace heddle::cuda {

inline constexpr int kMostSlots = 6;
inline constexpr int kSumFloats = 1024;  ///< sums of slices that wait to be added up

template <class Dot>
struct ColumnSlice {
    static constexpr int kStepWeights = Dot::kPieceWeights / Dot::kSteps;
    static constexpr int kStepBytes = Dot::kPieceBytes / Dot::kSteps;
    /// About 1,152 bytes of codes: long enough for the copy engine, short enough for several slots.
    /// Slices begin at multiples of 16 bytes. Activations of two steps fit the registers, of floats
    /// those of four.
    static constexpr int kUnit = kStepBytes % 16 == 0 ? 1 : 2;
    static constexpr int kWanted = (1152 + kStepBytes / 2) / kStepBytes / kUnit * kUnit;
    static constexpr int kOfCodes = kWanted < kUnit ? kUnit : kWanted < 2 ? kWanted : 2;
    static constexpr int kSteps = Dot::kHasCodes ? kOfCodes : 4;
    static constexpr int kWeights = kSteps * kStepWeights, kBytes = kSteps * kStepBytes;
    static constexpr int kRowBytes = kBytes + (Dot::kAlignment < 16 ? 16 : 0);
    static constexpr int kSlotRows = kRowBytes > 1750 ? 1 : 2;
    static constexpr int kSlotBytes = kSlotRows * kRowBytes;
    static_assert(kBytes % 16 == 0);

    __host__ __device__ static int count(int depth) { return (depth + kWeights - 1) / kWeights; }
};

/// Pairs of rows that one warp multiplies: those from `first` to `end` in steps of `step`.
struct WarpRows {
    int first, end, step, slice;

    __device__ WarpRows(int block_first, int block_end, int slices)
        : end(block_end), step(kColumnWarps / slices) {
        const int warp = threadIdx.x / 32;
        slice = warp % slices;
        first = warp / slices < step ? block_first + warp / slices : block_end;
    }
};

/// A slice of a warp's rows on its way through the slots of the warp, one or two rows at a time.
template <class Dot>
class WarpRing {
    using Slice = ColumnSlice<Dot>;

public:
    __device__ WarpRing(const ColumnArguments& a, std::uint8_t* slots, std::uint64_t* full,
                        const WarpRows& rows)
        : a_(a), slots_(slots), full_(full), end_(rows.end), step_(rows.step), pair_(rows.first) {
        lane_ = threadIdx.x & 31;
        policy_ = evict_first_policy();
        offset_ = rows.slice * Slice::kBytes;
        bytes_ = min(static_cast<int>(Dot::row_bytes(a.depth)) - offset_, Slice::kBytes);
        if (lane_ < a.slots) barrier_init(&full[lane_], Slice::kSlotRows);
        if (lane_ == 0) barrier_init_fence();
        __syncwarp();
        if (pair_ < end_) begin_run();
    }

    /// Sends the slice of the next rows to the slot whose turn it is; false: there are none.
    __device__ bool fill() {
        if (pair_ >= end_) return false;
        if (Slice::kSlotRows == 2 ? lane_ < 2 : lane_ == which_) {
            const auto phase = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(row_) & 15u);
            const unsigned bytes = (phase + static_cast<unsigned>(bytes_) + 15u) & ~15u;
            barrier_arrive_expecting(&full_[slot_], bytes);
            bulk_copy(slots_ + slot_ * Slice::kSlotBytes +
                          (Slice::kSlotRows == 2 ? lane_ * Slice::kRowBytes : 0),
                      row_ - phase, bytes, &full_[slot_], policy_);
            row_ += advance_;
        }
        if (++slot_ == a_.slots) slot_ = 0;
        if (Slice::kSlotRows == 1) {
            which_ ^= 1;
            if (which_ != 0) return true;
        }
        pair_ += step_;
        if (pair_ >= run_end_ && pair_ < end_) begin_run();
        return true;
    }

    /// Fills all slots, one after the other: what other kernels ask memory for meanwhile must not
    /// wait for all of it.
    __device__ void fill_all() {
        for (int i = 0; i < a_.slots && fill(); ++i) {
            if (i + 1 < a_.slots) barrier_wait(&full_[i], 0);
        }
    }

private:
    /// Pairs from this one on whose rows follow each other at one distance.
    __device__ void begin_run() {
        const RowPair pair(a_, pair_);
        const int which = lane_ & 1;
        const ColumnMatrix& m = a_.matrices[a_.is_gated ? which : pair.matrix];
        row_ = pair.begin(a_, which) + offset_;
        advance_ = (a_.is_gated ? 1 : 2) * step_ * m.row_stride;
        run_end_ = a_.is_gated ? end_ : pair_ - pair.number + m.rows / 2;
        if (m.head_pairs > 0 && m.distance > 1) run_end_ = pair_;
    }

    const ColumnArguments& a_;
    std::uint8_t* slots_;
    std::uint64_t* full_;
    std::uint64_t policy_;
    const std::uint8_t* row_ = nullptr;  ///< of lanes 0 and 1: the first or the second
    std::int64_t advance_ = 0;
    int end_, step_, pair_, run_end_ = 0, slot_ = 0, which_ = 0, lane_, offset_, bytes_;
};

/// Sums of two rows over all lanes: the first row's in lanes 0 to 15, the second's in the others.
__device__ __forceinline__ float sum_of_two(float first, float second) {
    const bool is_upper = (threadIdx.x & 16) != 0;
    float sum = is_upper ? second : first;
    sum += __shfl_xor_sync(0xffffffffu, is_upper ? first : second, 16);
#pragma unroll
    for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

/// The lane's activations of its warp's slice.
template <class Dot>
struct LaneActs {
    using Slice = ColumnSlice<Dot>;
    typename Dot::Acts acts[Slice::kSteps];
    int steps = 0;  ///< those that end within the column, for this lane
    float of_sums;  ///< factor of products

    __device__ LaneActs(const ColumnArguments& a, const std::uint8_t* column, int slice,
                        float factor)
        : of_sums(Dot::kHasCodes ? 1 : factor) {
#pragma unroll
        for (int step = 0; step < Slice::kSteps; ++step) {
            const int k = slice * Slice::kWeights + Dot::first_weight(step, threadIdx.x & 31);
            if (k >= a.depth) continue;
            acts[step] = Dot::load_acts(column, a.depth, k);
            Dot::finish(acts[step], factor);
            steps |= 1 << step;
        }
    }

    __device__ float dot(const std::uint8_t* piece) const {
        const int lane = threadIdx.x & 31;
        float sum = 0;
#pragma unroll
        for (int step = 0; step < Slice::kSteps; ++step) {
            if ((steps & 1 << step) == 0) continue;
            sum += Dot::dot(Dot::load(piece, step, lane), acts[step], lane);
        }
        return Dot::kHasCodes ? sum : sum * of_sums;
    }
};

/// The sum of both rows of a pair, from the slots of the ring.
template <class Dot>
class SlotReader {
    using Slice = ColumnSlice<Dot>;

public:
    __device__ SlotReader(const ColumnArguments& a, const std::uint8_t* slots, std::uint64_t* full)
        : a_(a), slots_(slots), full_(full) {}

    __device__ float multiply(int pair, const LaneActs<Dot>& acts, WarpRing<Dot>& ring) {
        unsigned phases[2] = {0, 0};
        if (Dot::kAlignment < 16 && a_.has_phases) {
            // Slices begin at multiples of 16 bytes of their rows, so they lie as those do.
            const RowPair rows(a_, pair);
            phases[0] = reinterpret_cast<std::uintptr_t>(rows.begin(a_, 0)) & 15u;
            phases[1] = reinterpret_cast<std::uintptr_t>(rows.begin(a_, 1)) & 15u;
        }
        float sums[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (r % Slice::kSlotRows == 0) barrier_wait(&full_[slot_], parity_);
            sums[r] = acts.dot(slots_ + slot_ * Slice::kSlotBytes +
                               r % Slice::kSlotRows * Slice::kRowBytes + phases[r]);
            if (r % Slice::kSlotRows == Slice::kSlotRows - 1) release(ring);
        }
        return sum_of_two(sums[0], sums[1]);
    }

private:
    __device__ void release(WarpRing<Dot>& ring) {
        __syncwarp();
        ring.fill();
        if (++slot_ < a_.slots) return;
        slot_ = 0;
        parity_ ^= 1;
    }

    const ColumnArguments& a_;
    const std::uint8_t* slots_;
    std::uint64_t* full_;
    int slot_ = 0;
    unsigned parity_ = 0;
};

/// Multiplies the warp's rows, and finishes those of the block whenever enough of them are there.
template <class Dot>
__device__ __forceinline__ void multiply_rows(const ColumnArguments& a, const WarpRows& rows,
                                              int block_first, WarpRing<Dot>& ring,
                                              const std::uint8_t* slots, std::uint64_t* full,
                                              const LaneActs<Dot>& acts, float* sums,
                                              const ColumnExtras& extras) {
    using Slice = ColumnSlice<Dot>;
    const int slices = Slice::count(a.depth), lane = threadIdx.x & 31;
    const int pitch = kSumFloats / slices & ~1;
    SlotReader<Dot> reader(a, slots, full);
    int pair = rows.first;
    for (int chunk = block_first; chunk < rows.end; chunk += pitch / 2) {
        const int stop = min(chunk + pitch / 2, rows.end);
        for (; pair < stop; pair += rows.step) {
            const float sum = reader.multiply(pair, acts, ring);
            if ((lane & 15) == 0) sums[rows.slice * pitch + 2 * (pair - chunk) + lane / 16] = sum;
        }
        __syncthreads();
        finish_rows(a, slices, chunk, stop, block_first, sums, pitch, extras);
        if (stop < rows.end) __syncthreads();
    }
}

template <class Dot>
__global__ void __launch_bounds__(kColumnThreads, 2)
    gemv_column(const __grid_constant__ ColumnArguments a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // older devices have no bulk copies
    using Slice = ColumnSlice<Dot>;
    extern __shared__ __align__(128) std::uint8_t shared[];
    __shared__ std::uint64_t full[kColumnWarps][kMostSlots];
    __shared__ ColumnExtras extras;
    __shared__ float parts[kColumnWarps];
    const int warp = threadIdx.x / 32;
    std::uint8_t* const slots = shared + warp * a.slots * Slice::kSlotBytes;
    std::uint8_t* const column = shared + kColumnWarps * a.slots * Slice::kSlotBytes;
    auto* const sums = reinterpret_cast<float*>(column + Dot::column_bytes(a.depth));
    const int first = first_pair(a, blockIdx.x), end = first_pair(a, blockIdx.x + 1);
    const WarpRows rows(first, end, Slice::count(a.depth));
    chain_trigger();
    if (!a.reads_ahead) chain_wait();
    touch_arguments(a);
    WarpRing<Dot> ring(a, slots, full[warp], rows);
    ring.fill_all();
    const NormWeights<Dot> weights(a);
    if (!a.has_early_inputs) chain_wait();
    take_inputs(a, first, end, extras);
    chain_wait();
    const float2 addends = take_addends(a, first, end);
    const float factor = stage_column<Dot>(a, weights, column, parts);
    leave_addends(a, first, end, addends, extras);
    const LaneActs<Dot> acts(a, column, rows.slice, factor);
    multiply_rows<Dot>(a, rows, first, ring, slots, full[warp], acts, sums, extras);
#endif
}

// ---- host --------------------------------------------------------------------------------------

/// Bytes of shared memory and slots of each warp. 0 slots: the kernel cannot run.
///
/// Blocks of two kernels fit a multiprocessor together, those of three do not: the second one's
/// weights are on their way while the first one works, and no multiprocessor gets two blocks of one
/// kernel while another one gets none.
struct ColumnPlan {
    static constexpr std::size_t kMost = 110 * 1024, kLeast = kChainShared;
    int slots = 0;
    std::size_t shared = 0;

    template <class Dot>
    static ColumnPlan of(int depth, std::size_t limit) {
        using Slice = ColumnSlice<Dot>;
        ColumnPlan plan;
        if (Slice::count(depth) > kColumnWarps) return plan;
        constexpr std::size_t kSlots = kColumnWarps * Slice::kSlotBytes;
        const std::size_t rest =
            static_cast<std::size_t>(Dot::column_bytes(depth)) + kSumFloats * sizeof(float);
        const std::size_t good = rest < kMost ? (kMost - rest) / kSlots : 0;
        plan.slots = static_cast<int>(good < 2 ? 2 : good > kMostSlots ? kMostSlots : good);
        const std::size_t needed = rest + static_cast<std::size_t>(plan.slots) * kSlots;
        plan.shared = needed < kLeast ? kLeast : needed;
        constexpr std::size_t kStatic = 3072;
        if (plan.shared + kStatic > limit) plan.slots = 0;
        return plan;
    }
};

template <class Dot>
void launch_column(ColumnArguments a, const Launch& launch) {
    const ColumnPlan plan = ColumnPlan::of<Dot>(a.depth, launch.device.shared_per_block);
    a.slots = plan.slots;
    a.has_phases = false;
    for (int i = 0; i < a.count; ++i) {
        a.has_phases |=
            !is_aligned(a.matrices[i].weights, 16) || a.matrices[i].row_stride % 16 != 0;
    }
    const auto kernel = gemv_column<Dot>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(plan.shared));
    const int pairs = row_pairs(a), most = launch.device.multiprocessors;
    const int blocks = pairs < most ? pairs : most;
    a.share = pairs / blocks;
    a.longer = pairs % blocks;
    start(launch, kernel, static_cast<unsigned>(blocks), kColumnThreads, plan.shared, a);
}

}  // namespace heddle::cuda
