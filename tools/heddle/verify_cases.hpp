#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "golden_runner.hpp"

namespace heddle::tool {

/// The cases that `heddle verify` runs, and how.
struct CaseOptions {
    std::string golden_directory;  ///< empty: cases are generated
    std::uint64_t seed = 1;
    int cases = 4;
    std::vector<int> threads{1};
    std::string instruction_set = "best";
    std::vector<std::string> ops;
    bool no_fusion = false;

    /// Whether the op or file was asked for by its name.
    bool names(const std::string& group) const;
};

/// A place in the sequence of all runs. Cases come in groups: a file of recorded ones, or the
/// generated ones of an op. A group has a run for every case, number of threads and instruction
/// set.
struct Position {
    static constexpr std::size_t kBehindGroup = SIZE_MAX;

    std::string group;    ///< empty: the first
    std::size_t run = 0;  ///< `kBehindGroup`: the first run of the next group
};

/// Is told what happens, in the order in which it does.
class RunObserver {
public:
    virtual ~RunObserver() = default;
    virtual void begin_group(const std::string& name, std::size_t runs) = 0;
    virtual void begin_run(const std::string& what) = 0;  ///< "ADD plain 0 on CPU, 2 threads"
    virtual void end_run(const Outcome& outcome) = 0;
};

/// Fails if there are no such cases.
Result<> check_cases(const CaseOptions& options);

/// Runs all cases from `first` on.
Result<> run_cases(const CaseOptions& options, const Target& target, const Position& first,
                   RunObserver& observer);

}  // namespace heddle::tool
