#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "door.hpp"

/// Cases run in forked children: one that crashes, hangs or exits takes nothing along, and what it
/// was doing is in memory that is shared with its parent.
namespace heddle::campaign {

/// How a case ended that did not pass.
struct Failure {
    enum class Kind { wrong, crashed, hung, ended };
    Kind kind = Kind::wrong;
    std::uint64_t seed = 0;
    std::vector<std::uint32_t> choices{};
    int code = 0;                 ///< the signal, or the status it ended with
    std::string what{};           ///< the door's words; empty for crashes
    std::string said{};           ///< the end of what was written to standard error
    std::string trace{};          ///< if it was asked for
    std::vector<void*> frames{};  ///< where it crashed or hung, innermost first

    /// One line: what went wrong, and in which functions.
    std::string summary() const;
    /// Equal for findings of one cause: the summary without its numbers.
    std::string cause() const;
};

/// What all processes count together; in shared memory.
struct Tally {
    std::atomic<std::uint64_t> next{0};         ///< cases that were begun
    std::atomic<std::uint64_t> done{0};         ///< cases that ended, well or not
    std::atomic<std::uint64_t> failures{0};     ///< cases that did not pass
    std::atomic<std::uint64_t> findings{0};     ///< causes seen for the first time
    std::atomic<std::uint64_t> nanoseconds{0};  ///< of all processes together
    std::atomic<std::uint64_t> cpu_nanoseconds{0};
};

/// Until when cases are drawn from seeds.
struct Slice {
    std::uint64_t first_seed = 0;  ///< of case 0
    std::uint64_t cases = 0;       ///< in all slices of this tally together
    std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
};

class Worker {
public:
    Worker();
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// Runs case after case in a child, until the slice is over or one fails.
    std::optional<Failure> run(const Door& door, const Slice& slice, Tally& tally);

    /// Runs one case in a child of its own, and keeps its trace.
    std::optional<Failure> replay(const Door& door, std::vector<std::uint32_t> choices);

private:
    struct Shared;
    template <class Body>
    std::optional<Failure> in_child(const Door& door, Body body);
    std::optional<Failure> judge(int status, bool hung) const;
    bool overdue(const Door& door) const;

    Shared* shared_;
    int said_ = -1;                  ///< a file without a name: standard error of children
    std::filesystem::path scratch_;  ///< a folder for the files of children
};

}  // namespace heddle::campaign
