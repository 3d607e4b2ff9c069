#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/context.hpp"
#include "impl/graph.h"

namespace heddle {

/// `struct ggml_cgraph` is the graph: nodes in the order they run, leafs beside them, and the set
/// of everything seen so far with the number of uses of each. It lives in a context's arena.
using Graph = ::ggml_cgraph;

/// Bytes of arena that a graph of this capacity takes, its header included.
std::size_t graph_overhead(std::size_t capacity, bool gradients);

Result<Graph*> new_graph(Context& context, std::size_t capacity, bool gradients);

inline std::span<Tensor* const> nodes_of(const Graph& g) {
    return {g.nodes, static_cast<std::size_t>(g.n_nodes)};
}
inline std::span<Tensor* const> leafs_of(const Graph& g) {
    return {g.leafs, static_cast<std::size_t>(g.n_leafs)};
}

/// Adds `tensor` and all it depends on, sources before users, in ascending order of source slots.
/// With `compute`, marks what has an op to be computed. A graph without room is left as it was.
Result<> expand(Graph& graph, Tensor& tensor, bool compute);

/// Appends `tensor` to the nodes as it is: no sources, no uses, no marks.
Result<> append_node(Graph& graph, Tensor& tensor);

void clear(Graph& graph);  ///< forgets nodes and leafs; tensors keep their names and marks

/// Makes `to`, which must have room, hold what `from` holds. Tensors are shared.
Result<> copy_graph(const Graph& from, Graph& to);
Result<Graph*> duplicate_graph(Context& context, const Graph& graph, bool force_gradients);

/// Nodes `begin .. end` as a graph of its own that shares everything with `graph`.
Graph slice(const Graph& graph, int begin, int end);

/// Looks among the leafs first, then among the nodes; null if there is none.
Tensor* find_tensor(const Graph& graph, std::string_view name);

/// How often `tensor` is a source of the graph's nodes; 0 if the graph does not know it.
int use_count(const Graph& graph, const Tensor& tensor);

/// The gradient of `tensor`, or its accumulator; null where there is none.
Tensor* gradient_of(const Graph& graph, const Tensor& tensor);
Tensor* accumulator_of(const Graph& graph, const Tensor& tensor);

/// A number no graph had before.
std::uint64_t next_graph_uid();

}  // namespace heddle
