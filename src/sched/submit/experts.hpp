#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "sched/graph_index.hpp"

namespace heddle::sched {

/// Which experts the tensors of expert numbers choose. Each is read once in a run.
class ChosenExperts {
public:
    void begin_run() { count_ = 0; }

    /// One flag for each of `experts`. `ids` has the numbers, which are those of tensor `id` of the
    /// graph (it may be a copy of it): what wrote them has finished. Fails if a number is not
    /// one of an expert. Valid until the next call.
    Result<const std::vector<std::uint8_t>*> of(TensorId id, const Tensor& ids,
                                                std::int64_t experts);

private:
    struct Choice {
        TensorId id = kNoTensor;
        std::vector<std::uint8_t> is_used;
    };
    std::vector<Choice> choices_;  ///< the first `count_` are of this run
    std::size_t count_ = 0;
    std::vector<std::byte> bytes_;
};

/// `count` bytes from `offset` on.
struct ByteRange {
    std::size_t offset = 0, count = 0;
};

/// The bytes of `weight` that hold the flagged experts (its dimension 2), and a little more behind
/// each run of them: kernels that read past an expert find numbers there.
void used_ranges(const Tensor& weight, const std::vector<std::uint8_t>& is_used,
                 std::vector<ByteRange>& ranges);

}  // namespace heddle::sched
