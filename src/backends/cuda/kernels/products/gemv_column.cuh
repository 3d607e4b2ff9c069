#pragma once

#include "backends/cuda/kernels/chain.cuh"
#include "backends/cuda/kernels/products/column_finish.cuh"
#include "backends/cuda/kernels/products/column_plan.cuh"
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

/// Pairs of a block's rows that one warp multiplies: those from `first` on in steps of `step`.
struct WarpRows {
    int first, step, slice;

    __device__ WarpRows(int count, int slices) : step(kColumnWarps / slices) {
        const int warp = threadIdx.x / 32;
        slice = warp % slices;
        first = warp / slices < step ? warp / slices : count;
    }
};

/// Rows that follow each other at one distance: of so many pairs, but for the first at least one.
struct RowRun {
    const std::uint8_t* row;
    std::int64_t advance;
    int pairs;
};

/// The first or second rows of pairs from this one on, in steps. Not inline: it is seldom needed,
/// and takes registers.
static __device__ __noinline__ RowRun run_from(const ColumnArguments& a, int index, int step,
                                               int which) {
    const RowPair pair(a, index);
    const ColumnMatrix& m = a.matrices[a.is_gated ? which : pair.matrix];
    const bool is_single = m.head_pairs > 0 && m.distance > 1;
    return {pair.begin(a, which), (a.is_gated ? 1 : 2) * step * m.row_stride,
            a.is_gated  ? m.rows
            : is_single ? 0
                        : m.rows / 2 - pair.number};
}

/// How far a row of a pair begins behind a multiple of 16 bytes.
static __device__ __noinline__ unsigned phase_of(const ColumnArguments& a, int index, int which) {
    const RowPair pair(a, index);
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(pair.begin(a, which))) & 15u;
}

/// A slice of a warp's rows on its way through the slots of the warp, one or two rows at a time.
template <class Dot>
class WarpRing {
    using Slice = ColumnSlice<Dot>;

public:
    __device__ WarpRing(const ColumnArguments& a, std::uint8_t* slots, std::uint64_t* full,
                        const BlockPairs& block, const WarpRows& rows)
        : a_(a), block_(block), slots_(slots), full_(full), step_(rows.step), pair_(rows.first) {
        lane_ = threadIdx.x & 31;
        policy_ = evict_first_policy();
        offset_ = rows.slice * Slice::kBytes;
        bytes_ = min(static_cast<int>(Dot::row_bytes(a.depth)) - offset_, Slice::kBytes);
        if (lane_ < a.slots) barrier_init(&full[lane_], Slice::kSlotRows);
        if (lane_ == 0) barrier_init_fence();
        __syncwarp();
        if (pair_ < block_.count) begin_run();
    }

    /// Sends the slice of the next rows to the slot whose turn it is; false: there are none.
    __device__ bool fill() {
        if (pair_ >= block_.count) return false;
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
        if (pair_ >= run_end_ && pair_ < block_.count) begin_run();
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
    __device__ __forceinline__ void begin_run() {
        const RowRun run(run_from(a_, block_.at(pair_), step_, lane_ & 1));
        row_ = run.row + offset_;
        advance_ = run.advance;
        run_end_ = pair_ + run.pairs;
        if (pair_ < block_.whole) run_end_ = min(run_end_, block_.whole);
    }

    const ColumnArguments& a_;
    const BlockPairs& block_;
    std::uint8_t* slots_;
    std::uint64_t* full_;
    std::uint64_t policy_;
    const std::uint8_t* row_ = nullptr;  ///< of lanes 0 and 1: the first or the second
    std::int64_t advance_ = 0;
    int step_, pair_, run_end_ = 0, slot_ = 0, which_ = 0, lane_, offset_, bytes_;
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

/// The same number, which the compiler does not work out again wherever it is used.
__device__ __forceinline__ int kept(int v) {
    return __shfl_sync(0xffffffffu, v, static_cast<int>(threadIdx.x % 32));
}

template <class Dot>
concept TakesPairs = Dot::kTakesPairs;

/// The lane's activations of its warp's slice.
template <class Dot>
struct LaneActs {
    using Slice = ColumnSlice<Dot>;
    typename Dot::Acts acts[Slice::kSteps] = {};
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
    __device__ bool has(int step) const { return (steps & 1 << step) != 0; }

    __device__ float dot(const std::uint8_t* piece, int lane) const {
        float sum = 0;
#pragma unroll
        for (int step = 0; step < Slice::kSteps; ++step) {
            // What lies behind the end of a column may be anything.
            const float product = Dot::dot(Dot::load(piece, step, lane), acts[step], lane);
            sum += has(step) ? product : 0.0f;
        }
        return Dot::kHasCodes ? sum : sum * of_sums;
    }
    __device__ float dot_of_two(const std::uint8_t* first, const std::uint8_t* second,
                                int lane) const {
        if constexpr (TakesPairs<Dot>) {
            typename Dot::Sums sums{};
#pragma unroll
            for (int step = 0; step < Slice::kSteps; ++step) {
                typename Dot::Packed one{}, two{};
                if (has(step))
                    one = Dot::load(first, step, lane), two = Dot::load(second, step, lane);
                Dot::add_pair(one, two, acts[step], sums);
            }
            return sum_of_two(Dot::part(sums, 0, lane), Dot::part(sums, 1, lane)) * of_sums;
        } else {
            const float sum = dot(first, lane);
            return sum_of_two(sum, dot(second, lane));
        }
    }
};

/// The sum of both rows of a pair, from the slots of the ring.
template <class Dot>
class SlotReader {
    using Slice = ColumnSlice<Dot>;

public:
    __device__ SlotReader(const ColumnArguments& a, const BlockPairs& block,
                          const std::uint8_t* slots, std::uint64_t* full)
        : a_(a),
          block_(block),
          slots_(slots),
          full_(full),
          lane_(kept(static_cast<int>(threadIdx.x % 32))) {}

    __device__ float multiply(int pair, const LaneActs<Dot>& acts, WarpRing<Dot>& ring) {
        unsigned phases[2] = {0, 0};
        if (Dot::kAlignment < 16 && a_.has_phases) {
            // Slices begin at multiples of 16 bytes of their rows, so they lie as those do.
            phases[0] = phase_of(a_, block_.at(pair), 0);
            phases[1] = phase_of(a_, block_.at(pair), 1);
        }
        if constexpr (Slice::kSlotRows == 2) {
            barrier_wait(full_ + slot_, parity_);
            const std::uint8_t* const at = slots_ + slot_ * Slice::kSlotBytes;
            const float sum =
                acts.dot_of_two(at + phases[0], at + Slice::kRowBytes + phases[1], lane_);
            release(ring);
            return sum;
        } else if constexpr (TakesPairs<Dot>) {
            const bool is_last = slot_ + 1 == a_.slots;
            const int next = is_last ? 0 : slot_ + 1;
            barrier_wait(full_ + slot_, parity_);
            barrier_wait(full_ + next, parity_ ^ (is_last ? 1u : 0u));
            const float sum = acts.dot_of_two(slots_ + slot_ * Slice::kSlotBytes + phases[0],
                                              slots_ + next * Slice::kSlotBytes + phases[1], lane_);
            release(ring), release(ring);
            return sum;
        } else {
            float first = 0, second = 0;
            constexpr int kUnrolled = Slice::kWeights > 2048 ? 1 : 2;  // else it is much code
#pragma unroll kUnrolled
            for (int r = 0; r < 2; ++r) {
                first = second;
                barrier_wait(full_ + slot_, parity_);
                second = acts.dot(
                    slots_ + slot_ * Slice::kSlotBytes + (r == 0 ? phases[0] : phases[1]), lane_);
                release(ring);
            }
            return sum_of_two(first, second);
        }
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
    const BlockPairs& block_;
    const std::uint8_t* slots_;
    std::uint64_t* full_;
    int lane_, slot_ = 0;
    unsigned parity_ = 0;
};

/// Multiplies the warp's rows, and finishes those of the block whenever enough of them are there.
template <class Dot>
__device__ __forceinline__ void multiply_rows(const ColumnArguments& a, const BlockPairs& block,
                                              const WarpRows& rows, WarpRing<Dot>& ring,
                                              const std::uint8_t* slots, std::uint64_t* full,
                                              const LaneActs<Dot>& acts, float* sums,
                                              const ColumnExtras& extras) {
    using Slice = ColumnSlice<Dot>;
    const int slices = Slice::count(a.depth), lane = threadIdx.x & 31;
    const int pitch = kSumFloats / slices & ~1, at_once = pitch / 2 / a.unit * a.unit;
    SlotReader<Dot> reader(a, block, slots, full);
    int pair = rows.first;
    for (int chunk = 0; chunk < block.count; chunk += at_once) {
        const int stop = min(chunk + at_once, block.count);
        for (; pair < stop; pair += rows.step) {
            const float sum = reader.multiply(pair, acts, ring);
            if ((lane & 15) == 0) sums[rows.slice * pitch + 2 * (pair - chunk) + lane / 16] = sum;
        }
        __syncthreads();
        int first = chunk;
        if (a.left.codes != nullptr) {
            first = max(chunk, min(stop, block.whole));
            finish_units(a, block, slices, chunk, first, sums, pitch, extras);
        }
        finish_rows(a, block, slices, first, stop, sums + 2 * (first - chunk), pitch, extras);
        if (stop < block.count) __syncthreads();
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
    __shared__ std::uint64_t column_is_there;
    const int warp = threadIdx.x / 32;
    std::uint8_t* const slots = shared + warp * a.slots * Slice::kSlotBytes;
    std::uint8_t* const column = shared + kColumnWarps * a.slots * Slice::kSlotBytes;
    auto* const sums = reinterpret_cast<float*>(column + Dot::column_bytes(a.depth));
    const BlockPairs block(a);
    const WarpRows rows(block.count, Slice::count(a.depth));
    chain_trigger();
    if (block.count == 0) return keep_place();
    if (!a.reads_ahead) chain_wait();
    touch_arguments(a);
    if (threadIdx.x == 0) barrier_init(&column_is_there, 1), barrier_init_fence();
    WarpRing<Dot> ring(a, slots, full[warp], block, rows);
    ring.fill_all();
    const NormWeights<Dot> weights(a);
    if (!a.has_early_inputs) chain_wait();
    take_inputs(a, block, extras);
    if (Dot::kHasCodes && a.taken.codes != nullptr) __syncthreads();  // all know the barrier
    chain_wait();
    const float2 addends = take_addends(a, block);
    const float factor = stage_column<Dot>(a, weights, column, parts, &column_is_there);
    leave_addends(a, block, addends, extras);
    const LaneActs<Dot> acts(a, column, rows.slice, factor);
    multiply_rows<Dot>(a, block, rows, ring, slots, full[warp], acts, sums, extras);
#endif
}

// ---- host --------------------------------------------------------------------------------------

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
    a.taken_depth =
        static_cast<int>(passed_depth(a.depth, a.norm_weight != nullptr, launch.device));
    deal_pairs(a, launch.device);
    const int blocks = a.left.codes != nullptr
                           ? launch.device.multiprocessors
                           : std::min(launch.device.multiprocessors, row_pairs(a));
    start(launch, kernel, static_cast<unsigned>(blocks), kColumnThreads, plan.shared, a);
}

}  // namespace heddle::cuda
