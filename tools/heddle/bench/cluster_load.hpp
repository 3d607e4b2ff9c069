#pragma once

#include <span>

#include "heddle/heddle.hpp"

namespace heddle::tool::bench {

/// How fast workers read weights from a file of their own, all at once.
struct LoadSpeed {
    std::size_t bytes = 0;
    double seconds = 0;
    double direct_seconds = 0;  ///< one process reads the file past the page cache; 0: it cannot
};

/// Makes a file for it where temporary files go. Workers that do not see that file are sent it.
Result<LoadSpeed> measure_load(std::span<const Device> workers, std::size_t bytes);

}  // namespace heddle::tool::bench
