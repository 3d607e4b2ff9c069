#pragma once

#include <vector>

#include "backends/vulkan/kernel.hpp"
#include "core/graph.hpp"

namespace heddle::vulkan {

/// Why an RMS_NORM and the MUL that follows it are not computed together; empty if they are.
std::string_view scaled_norm_objection(const Tensor& norm, const Tensor& product);

/// Puts steps together that one kernel computes: an RMS_NORM and the MUL after it.
void fuse(std::vector<Step>& steps, const Graph& graph);

}  // namespace heddle::vulkan
