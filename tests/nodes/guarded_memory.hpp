#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace heddle {

/// Pieces of memory between pages that can be neither read nor written (guard pages): who goes past
/// the end of a tensor that lies at the end of a piece crashes.
class GuardedMemory {
public:
    GuardedMemory(std::size_t pieces, std::size_t size)
        : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
          size_((size + page_ - 1) / page_ * page_),
          pieces_(pieces) {
        void* const memory =
            mmap(nullptr, mapped(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) std::abort();  // there is nothing to test without it
        base_ = static_cast<std::byte*>(memory);
        for (std::size_t i = 0; i < pieces_; ++i) {
            mprotect(begin_of(i), size_, PROT_READ | PROT_WRITE);
        }
    }
    ~GuardedMemory() { munmap(base_, mapped()); }
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;

    std::size_t size() const { return size_; }  ///< of a piece

    /// The last `bytes` bytes of a piece, as zeros.
    std::byte* last(std::size_t piece, std::size_t bytes) {
        std::byte* const begin = begin_of(piece) + size_ - bytes;
        if (bytes > 0) std::memset(begin, 0, bytes);
        return begin;
    }

    /// `bytes` bytes of the next piece; null if there is none left or they are too many. At the end
    /// of the piece they begin at a multiple of `alignment` and end as near to the guard page as
    /// that allows. What is in them is what was left there.
    std::byte* take(std::size_t bytes, std::size_t alignment, bool at_end) {
        if (used_ == pieces_ || bytes > size_) return nullptr;
        std::byte* const begin = begin_of(used_++);
        return at_end ? begin + (size_ - bytes) / alignment * alignment : begin;
    }

    /// All pieces can be taken again.
    void reset() { used_ = 0; }

private:
    std::size_t mapped() const { return pieces_ * (size_ + page_) + page_; }
    std::byte* begin_of(std::size_t piece) const { return base_ + page_ + piece * (size_ + page_); }

    std::size_t page_, size_, pieces_;
    std::byte* base_ = nullptr;
    std::size_t used_ = 0;
};

}  // namespace heddle
