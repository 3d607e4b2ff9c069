#pragma once

#include "core/graph.hpp"

namespace heddle {

/// Brings what a graph keeps between evaluations back to its start: gradients of losses to 1, other
/// accumulators and the moments of optimiser steps to 0. The graph has tables for gradients, and
/// the tensors have memory.
Result<> reset_gradients(Graph& graph);

}  // namespace heddle
