#pragma once

#include <cstdint>

namespace heddle::cuda {

/// What was asked of the runtime that does nothing (null_runtime.cpp) since the program began.
struct NullCounts {
    std::uint64_t launches = 0, attributes = 0, captures = 0, replays = 0;
};
NullCounts null_counts();

}  // namespace heddle::cuda
