#pragma once

#include <vector>

#include "backends/cuda/board.hpp"

namespace heddle::cuda {

/// What a graph takes: the kernel of every node that computes something, and scratch for the
/// largest. Nothing is launched before the whole plan is made.
struct Plan {
    struct Step {
        const Kernel* kernel;
        const Tensor* node;
    };
    std::vector<Step> steps;
    std::size_t scratch = 0;

    /// Fails if a node has no kernel, or an operand is not in memory of this device.
    static Result<Plan> make(const Board& board, ggml_cgraph& graph);
};

/// For sentences: the node, its op, and what was wrong.
std::string describe_node(const Tensor& node);

}  // namespace heddle::cuda
