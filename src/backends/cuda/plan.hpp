#pragma once

#include <variant>
#include <vector>

#include "backends/cuda/board.hpp"
#include "backends/cuda/kernels/products/gemv_column.hpp"
#include "backends/cuda/kernels/rows/rope_store.hpp"
#include "backends/gpu/replay_key.hpp"

namespace heddle::cuda {

/// A node and its kernel.
struct SingleNode {
    const Kernel* kernel;
    const Tensor* node;
};

/// What one launch computes.
struct Step {
    std::variant<SingleNode, ColumnGroup, RopeStoreGroup> work;
    bool reads_ahead = false;  ///< its weights are written by no kernel of the graph

    const char* name() const;
    std::vector<const Tensor*> nodes() const;
    void launch(const Launch& launch) const;
    void add_to(gpu::ReplayKey& key) const;
};

/// What a graph takes: a step for every node that computes something, or for several together, and
/// scratch for the largest. Nothing is launched before the whole plan is made.
struct Plan {
    std::vector<Step> steps;
    std::size_t scratch = 0;

    /// Fails if a node has no kernel, or an operand is not in memory of this device.
    static Result<Plan> make(const Board& board, ggml_cgraph& graph);
};

/// For sentences: the node, its op, and what was wrong.
std::string describe_node(const Tensor& node);

}  // namespace heddle::cuda
