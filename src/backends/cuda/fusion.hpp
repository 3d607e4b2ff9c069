#pragma once

#include "backends/cuda/plan.hpp"
#include "core/graph.hpp"

namespace heddle::cuda {

/// Brings nodes together that one launch can compute. Steps keep their order, but for products that
/// read the same activations: later ones join the first where nothing between them is touched.
void fuse(std::vector<Step>& steps, const Graph& graph, const DeviceFacts& device);

/// Whether two tensors share a byte. Without memory only those that have one root do.
bool overlap(const Tensor& a, const Tensor& b);

}  // namespace heddle::cuda
