#include "tests/faults/allocation_faults.hpp"

#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

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

constexpr int kMostFrames = 40;

std::atomic<bool> armed{false};
std::atomic<bool> sticky{false};
std::atomic<long> left{0};
std::atomic<long> live{0};
std::atomic<bool> has_fired{false};
void* frames[kMostFrames];
int frame_count = 0;

/// Counts an allocation; true if it is to fail.
bool strikes() {
    if (!armed.load(std::memory_order_relaxed)) return false;
    const long now = left.fetch_sub(1) - 1;
    if (now > 0 || (now < 0 && !sticky.load(std::memory_order_relaxed))) return false;
    if (now == 0) {
        frame_count = backtrace(frames, kMostFrames);
        has_fired.store(true);
    }
    errno = ENOMEM;
    return true;
}

void* counted(void* block) {
    if (block != nullptr) live.fetch_add(1, std::memory_order_relaxed);
    return block;
}

}  // namespace

void arm(long number, Fault fault) {
    sticky.store(fault == Fault::from_then_on);
    left.store(number);
    has_fired.store(false);
    armed.store(true);
}

void disarm() { armed.store(false); }
bool fired() { return has_fired.load(); }
long live_blocks() { return live.load(); }

void print_failed_allocation() {
    if (!fired()) return;
    constexpr char kTitle[] = "the allocation that failed:\n";
    if (write(STDERR_FILENO, kTitle, sizeof kTitle - 1) < 0) return;
    backtrace_symbols_fd(frames, frame_count, STDERR_FILENO);
}

}  // namespace heddle::faults

// What `operator new` and everybody else calls. The program's own functions come before those of
// any library.
extern "C" {

using heddle::faults::counted;
using heddle::faults::strikes;

void* malloc(std::size_t size) { return strikes() ? nullptr : counted(__libc_malloc(size)); }

void* calloc(std::size_t count, std::size_t size) {
    return strikes() ? nullptr : counted(__libc_calloc(count, size));
}

void* realloc(void* block, std::size_t size) {
    if (block != nullptr && size == 0) {
        free(block);
        return nullptr;
    }
    if (strikes()) return nullptr;
    void* moved = __libc_realloc(block, size);
    return block == nullptr ? counted(moved) : moved;
}

void* memalign(std::size_t alignment, std::size_t size) {
    return strikes() ? nullptr : counted(__libc_memalign(alignment, size));
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
