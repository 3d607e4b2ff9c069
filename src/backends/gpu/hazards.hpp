#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle::gpu {

/// Addresses that a kernel reads or writes.
struct Range {
    std::uint64_t begin = 0, end = 0;
    bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

/// Which kernels must wait for those before them: on queues where kernels run side by side unless a
/// barrier stands between them. One that reads what was written, or writes what was read or
/// written, since the last barrier needs one.
class Hazards {
public:
    /// Whether a barrier must come before a kernel with these ranges; then all that came before it
    /// is done with.
    bool add(std::span<const Range> reads, std::span<const Range> writes) {
        const bool conflicts =
            hits(reads, writes_) || hits(writes, writes_) || hits(writes, reads_);
        if (conflicts) {
            reads_.clear();
            writes_.clear();
        }
        reads_.insert(reads_.end(), reads.begin(), reads.end());
        writes_.insert(writes_.end(), writes.begin(), writes.end());
        return conflicts;
    }

private:
    static bool hits(std::span<const Range> some, const std::vector<Range>& others) {
        return std::ranges::any_of(some, [&](const Range& range) {
            return std::ranges::any_of(others,
                                       [&](const Range& other) { return range.overlaps(other); });
        });
    }

    std::vector<Range> reads_, writes_;
};

}  // namespace heddle::gpu
