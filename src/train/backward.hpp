#pragma once

#include <span>

#include "core/graph.hpp"

namespace heddle {

/// Extends a finished forward graph with the nodes that compute gradients of its losses: after it,
/// `gradient_of(graph, x)` is the gradient of every node that a parameter has an influence on and
/// that has an influence on a loss.
///
/// The graph has tables for gradients, at least one parameter and at least one loss. `accumulators`
/// is empty, or has an entry for each node: where that is not null, it is where the gradient of the
/// node is added up, f32 and densely packed, over all evaluations since the last `reset_gradients`.
/// Losses get an accumulator in any case: it holds the gradient that all others start from.
///
/// New tensors are made in `context`. On failure the graph is as it was.
Result<> build_backward(Context& context, Graph& graph, std::span<Tensor* const> accumulators);

}  // namespace heddle
