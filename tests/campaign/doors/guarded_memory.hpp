#pragma once

#include "tests/nodes/guarded_memory.hpp"

namespace heddle::campaign {

inline constexpr std::size_t kLargestPiece = std::size_t{1} << 19;

/// Mapped once, and used again for each case of any door.
inline GuardedMemory& guarded_memory() {
    static GuardedMemory memory(40, kLargestPiece);
    return memory;
}

}  // namespace heddle::campaign
