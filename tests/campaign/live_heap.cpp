#include "live_heap.hpp"

#include <array>
#include <cstddef>

#ifdef HEDDLE_CAMPAIGN_SANITIZED
// Of every sanitizer's allocator; GCC has no header for it.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#else
#include "tests/faults/fault_points.hpp"
#endif

namespace heddle::campaign {

#ifdef HEDDLE_CAMPAIGN_SANITIZED
long live_heap() { return static_cast<long>(__sanitizer_get_current_allocated_bytes()); }
#else
long live_heap() { return faults::live_blocks(); }
#endif

namespace {

std::array<void (*)(), 8> releases{};  // an array: it must not be on the heap itself
std::size_t count = 0;

}  // namespace

void when_measuring(void (*release)()) {
    if (count < releases.size()) releases[count++] = release;
}

void release_kept() {
    for (std::size_t i = 0; i < count; ++i) releases[i]();
}

}  // namespace heddle::campaign
