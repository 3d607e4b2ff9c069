#pragma once

#include <string>
#include <vector>

namespace heddle::campaign {

/// What the command line asks of all doors. Set before any case runs.
struct Settings {
    /// Of which random mixes are made: CPU, sim, and names of the registry such as CUDA0.
    std::vector<std::string> devices{"CPU", "sim"};
    /// The program `heddle` whose commands are tried.
    std::string program;
    /// The folder tests/data, and that of the plug-ins made for tests.
    std::string data, plugins;

    /// Where measured costs of devices are kept for the next process; empty: nowhere.
    std::string cost_file;

    /// A folder for the files that cases make: of one process, so that cases of others are not
    /// in it. It is there as long as the process' worker.
    std::string scratch;

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
