#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <span>

namespace heddle {

/// Pieces of memory, each of which ends at a page that can be neither read nor written.
class GuardedMemory {
public:
    GuardedMemory(std::size_t pieces, std::size_t size)
        : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
          size_((size + page_ - 1) / page_ * page_),
          pieces_(pieces),
          begin_(static_cast<std::byte*>(mmap(nullptr, pieces * (size_ + page_) + page_,
                                              PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                              -1, 0))) {
        for (std::size_t i = 0; i <= pieces_; ++i) {
            mprotect(begin_ + i * (size_ + page_), page_, PROT_NONE);
        }
    }
    ~GuardedMemory() { munmap(begin_, pieces_ * (size_ + page_) + page_); }
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    std::size_t size() const { return size_; }

    /// The last `bytes` bytes of a piece, as zeros.
    std::byte* last(std::size_t piece, std::size_t bytes) {
        std::byte* const end = begin_ + (piece + 1) * (size_ + page_);
        if (bytes > 0) std::memset(end - bytes, 0, bytes);
        return end - bytes;
    }

private:
    std::size_t page_, size_, pieces_;
    std::byte* begin_;
};

}  // namespace heddle
