#pragma once

#include "backends/cuda/plan.hpp"
#include "core/graph.hpp"

namespace heddle::cuda {

/// Brings products of many columns together that read the same activations, with what makes those
/// and with what is added to their result. Steps keep their order and only neighbours join.
void fuse_products(std::vector<Step>& steps, const Graph& graph, const DeviceFacts& device);

}  // namespace heddle::cuda
