#pragma once

#include <algorithm>

#include "backends/cuda/kernels/chain.cuh"
#include "backends/cuda/kernels/products/column_arguments.cuh"

/// How `gemv_column` divides columns, rows and shared memory.
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
        constexpr std::size_t kStatic = 4096;
        if (plan.shared + kStatic > limit) plan.slots = 0;
        return plan;
    }
};

/// Deals out pairs to as many blocks as there are multiprocessors, or pairs. Results that are
/// passed on are coded by the 32; of a gate, what does not make whole units for each block is not.
inline void deal_pairs(ColumnArguments& a, const DeviceFacts& device) {
    const int pairs = row_pairs(a);
    const bool leaves = a.left.codes != nullptr;
    const int blocks = leaves ? device.multiprocessors : std::min(device.multiprocessors, pairs);
    a.unit = !leaves ? 1 : a.is_gated ? kPassedUnit : kPassedUnit / 2;
    a.rest_first = !leaves || !a.is_gated
                       ? pairs
                       : static_cast<int>(passed_units(pairs, device)) * kPassedUnit;
    const int units = a.rest_first / a.unit, rest = pairs - a.rest_first;
    a.share = units / blocks, a.longer = units % blocks;
    a.rest_share = rest / blocks, a.rest_longer = rest % blocks;
}

}  // namespace heddle::cuda
