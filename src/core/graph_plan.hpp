#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/closure.hpp"
#include "core/graph.hpp"

namespace heddle {

/// A graph of its own: copies of the node list and of every tensor that can be reached from it, so
/// that the original graph and its context may go away. The data are not copied: the buffers (or
/// the memory) that hold them must stay.
///
/// The copy knows the use counts of the original and has a uid, so backends may fuse and replay.
class GraphPlan {
public:
    static Result<std::unique_ptr<GraphPlan>> make(const Graph& graph);

    /// Becomes a copy of `graph`; after a failure it is what it was.
    Result<> update(const Graph& graph);

    Graph& graph() { return graph_; }

private:
    GraphPlan() = default;
    void copy_tensors(const Closure& closure);
    void copy_lists(const Graph& graph, const Closure& closure);
    void copy_use_counts(const Graph& graph, const Closure& closure);

    std::vector<Tensor> tensors_;  // in the order of the closure; everything below points into it
    std::vector<Tensor*> nodes_, leafs_, keys_;
    std::vector<ggml_bitset_t> used_;
    std::vector<std::int32_t> use_counts_;
    Graph graph_{};
};

}  // namespace heddle
