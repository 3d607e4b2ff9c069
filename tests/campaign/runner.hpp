#pragma once

#include <filesystem>

#include "worker.hpp"

/// Many cases of many doors by several processes.
namespace heddle::campaign {

/// What is to be run.
struct Plan {
    std::vector<const Door*> doors;
    std::uint64_t first_seed = 1;
    std::vector<std::uint64_t> cases;  ///< of each door, at most
    std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
    int jobs = 1;
    std::filesystem::path out;  ///< folder of the findings
};

/// The counts of each door of a plan, in memory that processes share.
std::span<Tally> make_tallies(std::size_t count);

/// Runs all of it, in `jobs` processes that take turns at the doors. Findings become files in the
/// plan's folder; those whose file is there already are known. Calls `tick` about once a second.
void run(const Plan& plan, std::span<Tally> tallies, void (*tick)(const Plan&, std::span<Tally>));

}  // namespace heddle::campaign
