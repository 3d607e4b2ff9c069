#pragma once

#include <string>

#include "core/graph.hpp"

/// Graphs as text, for people and for drawing programs.
namespace heddle {

/// One line per node and leaf with its extents and op. Nodes are marked `x` if they are trained,
/// `g` if they have a gradient.
std::string graph_text(const Graph& graph);

/// `graph` as a drawing for Graphviz. A gradient is drawn as a part of the node it belongs to.
/// Nodes with a gradient are green if they are also in `forward` (null: all are), light blue
/// otherwise.
std::string graph_dot(const Graph& graph, const Graph* forward);

}  // namespace heddle
