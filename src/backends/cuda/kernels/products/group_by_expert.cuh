#pragma once

#include "backends/cuda/kernels/products/operands.cuh"

/// Puts the (slot, token) pairs of a MUL_MAT_ID in the order of their experts, on the device.
///
/// Pair p is slot p % slots of token p / slots. Pairs of one expert keep their order. Group number
/// `experts` has the pairs whose id names no expert.
namespace heddle::cuda {

struct ExpertGroups {
    std::int32_t* counts;  ///< of each group
    std::int32_t* starts;  ///< of each group in `order`, and one more: the number of pairs
    std::int32_t* order;   ///< pairs, group after group

    std::int64_t experts, pairs;

    static std::size_t bytes(std::int64_t experts, std::int64_t pairs) {
        return (static_cast<std::size_t>(2 * experts + 3 + pairs) * 4 + 255) / 256 * 256;
    }
    ExpertGroups(std::byte* at, std::int64_t experts_, std::int64_t pairs_)
        : counts(reinterpret_cast<std::int32_t*>(at)),
          starts(counts + experts_ + 1),
          order(starts + experts_ + 2),
          experts(experts_),
          pairs(pairs_) {}
};

void group_by_expert(const Tensor& node, const ExpertGroups& groups, const Launch& launch);

}  // namespace heddle::cuda
