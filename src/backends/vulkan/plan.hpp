#pragma once

#include "backends/gpu/replay_key.hpp"
#include "backends/vulkan/memory.hpp"
#include "backends/vulkan/step.hpp"

namespace heddle::vulkan {

/// What a graph takes: a kernel for every node that computes something, and scratch for the
/// largest. Nothing is recorded before the whole plan is made.
struct Plan {
    std::vector<Step> steps;
    std::size_t scratch = 0;

    /// Fails if a node has no kernel, or an operand is not in memory of this device.
    static Result<Plan> make(const Site& site, ggml_cgraph& graph);

    /// All its commands, with barriers where they are needed; also with marks, where it is timed.
    void record(Recorder& recorder, bool is_timed = false) const;

    gpu::ReplayKey key() const;
};

/// Bytes that the kernels of `graph` need at most, one after the other. Its tensors need no memory.
std::size_t scratch_of(const DeviceFacts& device, ggml_cgraph& graph);

}  // namespace heddle::vulkan
