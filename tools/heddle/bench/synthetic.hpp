#pragma once

#include <string>

#include "heddle/result.hpp"

namespace heddle::tool::bench {

/// A model file that has the shape of a well-known one and weights that mean nothing. It has no
/// name in any directory, where the system can do that, and is gone with its owner.
class SyntheticModel {
public:
    /// `shape` such as "1.1B"; `type` such as "Q4_0", or "Q4_K_M" for the usual mixture. Fails if
    /// the weights do not fit into the memory that is free.
    static Result<SyntheticModel> make(const std::string& shape, const std::string& type);

    /// The same without weights, which would all be zero: takes next to no memory.
    static Result<SyntheticModel> describe(const std::string& shape, const std::string& type);

    /// The shapes there are: "15M, 110M, ..."
    static std::string shapes();

    SyntheticModel(SyntheticModel&& other) noexcept;
    SyntheticModel& operator=(SyntheticModel&&) = delete;
    ~SyntheticModel();

    const std::string& path() const { return path_; }

private:
    SyntheticModel(int file, std::string path) : file_(file), path_(std::move(path)) {}

    int file_;
    std::string path_;
};

}  // namespace heddle::tool::bench
