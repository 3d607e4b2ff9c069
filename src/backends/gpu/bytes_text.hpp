#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace heddle::gpu {

/// "1.5 GiB"
inline std::string describe_bytes(std::size_t size) {
    constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
    double amount = static_cast<double>(size);
    std::size_t unit = 0;
    for (; amount >= 1024 && unit + 1 < units.size(); ++unit) amount /= 1024;
    std::array<char, 48> words{};
    std::snprintf(words.data(), words.size(), unit == 0 ? "%.0f %s" : "%.1f %s", amount,
                  units[unit]);
    return words.data();
}

}  // namespace heddle::gpu
