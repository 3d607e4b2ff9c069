#pragma once

#include <vector>

#include "backends/vulkan/step.hpp"
#include "core/graph.hpp"

namespace heddle::vulkan {

/// Puts nodes together that one kernel computes. Steps keep their order, but for products of the
/// same column: later ones join the first where nothing between them is touched.
void fuse(std::vector<Step>& steps, const Graph& graph);

}  // namespace heddle::vulkan
