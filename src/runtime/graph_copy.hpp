#pragma once

#include "core/context.hpp"
#include "core/error.hpp"
#include "core/graph.hpp"
#include "runtime/objects.hpp"
#include "runtime/owned.hpp"

namespace heddle {

/// A graph with the memory that it and its tensors live in.
struct GraphCopy {
    OwnedContext views;    ///< the tensors that lie in others' memory
    OwnedContext tensors;  ///< all others, and the graph
    OwnedBuffer buffer;    ///< null where no tensor has bytes
    Graph* graph = nullptr;
};

/// A copy of `graph` on the device of `stream`: every tensor that can be reached from its nodes,
/// with layout, op, parameters, flags, name and data. All of them must have data. The copy has its
/// nodes in the same order, but neither leafs nor use counts.
Result<GraphCopy> copy_graph_to(Stream& stream, const Graph& graph);

}  // namespace heddle
