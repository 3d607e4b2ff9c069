#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

/// How work that streams from memory is cut for tasks that take pieces in order: large ones first,
/// for a thread that goes on where it is keeps what was fetched ahead; small ones last, so that
/// nobody waits long for another.
class ShrinkingPieces {
public:
    /// Of `count` units of work. But for the last one, pieces are multiples of `least` units.
    ShrinkingPieces(std::int64_t count, std::int64_t least, int tasks)
        : count_(count), least_(least), tasks_(tasks) {}

    /// Piece `number`; empty if there are not so many.
    Range piece(std::int64_t number) const {
        // In each round every task can have a piece, and half of what is left is given away.
        std::int64_t begin = 0, size = size_at(begin);
        for (; number >= tasks_ && size > least_; number -= tasks_) {
            begin += tasks_ * size;
            size = size_at(begin);
        }
        begin = std::min(begin + number * size, count_);
        return {begin, std::min(begin + size, count_)};
    }

private:
    std::int64_t size_at(std::int64_t begin) const {
        const std::int64_t even = (count_ - begin) / (tasks_ == 1 ? 1 : 2 * tasks_);
        return std::max(even / least_, std::int64_t{1}) * least_;
    }

    std::int64_t count_, least_, tasks_;
};

}  // namespace heddle::cpu
