// Memory that is not to be had. What `operator new` and everybody else calls: the program's own
// functions come before those of any library.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "tests/faults/fault_points.hpp"

// The allocator of glibc under its inner names, which stay reachable when the outer ones are
// replaced. Asking the dynamic linker for them instead would allocate.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* block);
}

namespace heddle::faults {
namespace {

std::atomic<long> live{0};

bool fails() {
    if (!strikes(Kind::memory)) return false;
    errno = ENOMEM;
    return true;
}

void* counted(void* block) {
    if (block != nullptr) live.fetch_add(1, std::memory_order_relaxed);
    return block;
}

}  // namespace

long live_blocks() { return live.load(); }

}  // namespace heddle::faults

extern "C" {

using heddle::faults::counted;
using heddle::faults::fails;

void* malloc(std::size_t size) { return fails() ? nullptr : counted(__libc_malloc(size)); }

void* calloc(std::size_t count, std::size_t size) {
    return fails() ? nullptr : counted(__libc_calloc(count, size));
}

void* realloc(void* block, std::size_t size) {
    if (block != nullptr && size == 0) {
        free(block);
        return nullptr;
    }
    if (fails()) return nullptr;
    void* moved = __libc_realloc(block, size);
    return block == nullptr ? counted(moved) : moved;
}

void* memalign(std::size_t alignment, std::size_t size) {
    return fails() ? nullptr : counted(__libc_memalign(alignment, size));
}

void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }

int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
    void* made = memalign(alignment, size);
    if (made == nullptr) return ENOMEM;
    *block = made;
    return 0;
}

void free(void* block) {
    if (block == nullptr) return;
    heddle::faults::live.fetch_sub(1, std::memory_order_relaxed);
    __libc_free(block);
}

}  // extern "C"
