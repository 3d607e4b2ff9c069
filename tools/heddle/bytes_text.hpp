#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <iterator>
#include <string>

namespace heddle::tool {

/// "1.5 GiB"
inline std::string bytes_text(std::size_t bytes) {
    constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace heddle::tool
