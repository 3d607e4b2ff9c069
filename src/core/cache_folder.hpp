#pragma once

#include <string>

namespace heddle {

/// Where what can be made again is kept: $XDG_CACHE_HOME/heddle, else ~/.cache/heddle. Takes the
/// values of XDG_CACHE_HOME and HOME, null where they are not set; empty and relative ones count as
/// not set, too. Empty where there is neither.
inline std::string cache_folder(const char* cache_home, const char* home) {
    const auto is_set = [](const char* folder) { return folder != nullptr && *folder == '/'; };
    if (is_set(cache_home)) return std::string(cache_home) + "/heddle";
    return is_set(home) ? std::string(home) + "/.cache/heddle" : std::string();
}

}  // namespace heddle
