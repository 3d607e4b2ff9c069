#pragma once

#include "backends/cuda/plan.hpp"
#include "backends/gpu/tensor_ranges.hpp"
#include "core/graph.hpp"

namespace heddle::cuda {

using gpu::are_apart, gpu::overlap;

/// Brings nodes together that one launch can compute. Steps keep their order, but for products that
/// read the same activations: later ones join the first where nothing between them is touched.
void fuse(std::vector<Step>& steps, const Graph& graph, const DeviceFacts& device);

}  // namespace heddle::cuda
