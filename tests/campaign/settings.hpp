#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::campaign {

/// What the command line asks of all doors. Set before any case runs.
struct Settings {
    /// Of which random mixes are made: CPU, sim, and names of the registry such as CUDA0.
    std::vector<std::string> devices{"CPU", "sim"};

    bool has(std::string_view device) const {
        for (const std::string& each : devices) {
            if (each == device) return true;
        }
        return false;
    }
    /// Devices that round in their own way.
    std::vector<std::string> others() const {
        std::vector<std::string> names;
        for (const std::string& each : devices) {
            if (each != "CPU" && each != "sim") names.push_back(each);
        }
        return names;
    }
};

Settings& settings();

}  // namespace heddle::campaign
