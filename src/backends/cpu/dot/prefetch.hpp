#pragma once

#include <hwy/cache_control.h>

#include <cstddef>

namespace heddle::cpu {

/// Into L2: L1 has no room for it yet, since rows
/// often lie a power of two apart, and would drive each other out of it.
HWY_INLINE void prefetch_l2(const std::byte* from) {
#if defined(__GNUC__)
    __builtin_prefetch(from, 0, 2);
#else
    hwy::Prefetch(from);
#endif
}

}  // namespace heddle::cpu
