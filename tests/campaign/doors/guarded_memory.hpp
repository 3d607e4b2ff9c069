#pragma once

#include <cstddef>
#include <vector>

namespace heddle::campaign {

/// Blocks that end, or begin, at a page that can be neither read nor written: who goes past the end
/// of a tensor crashes. Mapped once and used again for each case.
class GuardedMemory {
public:
    static constexpr std::size_t kLargest = std::size_t{1} << 19;

    GuardedMemory();
    ~GuardedMemory();
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    /// A block of `size` bytes; null if there is none left or it is too large. A block at the end
    /// of its pages begins at a multiple of `alignment` and ends as near to the guard page as that
    /// allows. What is in it is what an earlier case left there.
    std::byte* take(std::size_t size, std::size_t alignment, bool at_end);

    /// All blocks are free again.
    void reset() { used_ = 0; }

private:
    static constexpr std::size_t kBlocks = 40;

    std::byte* base_ = nullptr;
    std::size_t page_ = 0;
    std::size_t used_ = 0;
};

}  // namespace heddle::campaign
