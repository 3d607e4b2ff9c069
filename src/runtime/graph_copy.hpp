#pragma once

#include "core/error.hpp"
#include "core/graph.hpp"
#include "runtime/objects.hpp"

namespace heddle {

using GraphCopy = struct ::ggml_backend_graph_copy;

/// A copy of `graph` on the device of `stream`: every tensor that can be reached from its nodes,
/// with layout, op, parameters, flags, name and data. All of them must have data. The copy has its
/// nodes in the same order, but neither leafs nor use counts. Free it with `free_graph_copy`.
Result<GraphCopy> copy_graph_to(Stream& stream, const Graph& graph);

/// Frees what is there and makes all members null.
void free_graph_copy(GraphCopy& copy) noexcept;

}  // namespace heddle
