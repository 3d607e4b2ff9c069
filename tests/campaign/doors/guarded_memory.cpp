#include "guarded_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace heddle::campaign {

GuardedMemory::GuardedMemory() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    const std::size_t stride = kLargest + page_;
    void* memory = mmap(nullptr, kBlocks * stride + page_, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();  // there is nothing to test without it
    base_ = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < kBlocks; ++i) {
        mprotect(base_ + page_ + i * stride, kLargest, PROT_READ | PROT_WRITE);
    }
}

GuardedMemory::~GuardedMemory() { munmap(base_, kBlocks * (kLargest + page_) + page_); }

std::byte* GuardedMemory::take(std::size_t size, std::size_t alignment, bool at_end) {
    if (used_ == kBlocks || size > kLargest) return nullptr;
    std::byte* begin = base_ + page_ + used_++ * (kLargest + page_);
    if (!at_end) return begin;
    return begin + (kLargest - size) / alignment * alignment;
}

}  // namespace heddle::campaign
