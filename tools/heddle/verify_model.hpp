#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heddle/result.hpp"

namespace heddle::tool {

/// What `heddle verify MODEL` is asked.
struct ModelCheck {
    std::string model, on, against = "CPU";
    std::vector<std::string> prompts{"Once upon a time"};
    double tolerance = 5e-4;  ///< normalised mean squared error of a node
    bool drift = false;       ///< errors add up from node to node
    bool json = false;
    std::size_t shown = 10;
    std::int64_t tokens = 0;   ///< above 0: so many tokens of text are compared instead of nodes
    std::int64_t batch = 512;  ///< tokens of a prompt that are read at a time, for that

    /// Is called before each step that a device could fail in, with what it is, and with nothing
    /// when all memory is ready.
    std::function<void(const std::string& step)> on_step{};
};

/// Runs the graph of the prompt node by node on two devices and prints how far the results are
/// apart; false if a node is past the tolerance.
Result<bool> verify_model(const ModelCheck& check);

}  // namespace heddle::tool
