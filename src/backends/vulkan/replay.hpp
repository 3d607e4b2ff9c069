#pragma once

#include <list>
#include <optional>

#include "backends/vulkan/plan.hpp"
#include "backends/vulkan/stopwatch.hpp"
#include "backends/vulkan/timeline.hpp"

namespace heddle::vulkan {

/// A graph whose commands are recorded, with the arguments of its kernels.
struct RecordedGraph {
    gpu::ReplayKey key;
    std::uint64_t uid = 0;  ///< graphs of one number that is not 0 are the same
    VkCommandBuffer commands = VK_NULL_HANDLE;
    std::optional<Memory> arguments;
    std::uint64_t last_use = 0;  ///< submission

    // Where graphs are timed: names of its parts.
    std::vector<std::string> names;
    std::optional<Stopwatch> stopwatch;
};

/// Graphs of a stream that were recorded, the one used last first. Addresses of scratch memory are
/// part of them, so all are forgotten when that moves.
class Replay {
public:
    static constexpr std::size_t kMostGraphs = 64;

    /// Null if there is none of that number.
    RecordedGraph* find(std::uint64_t uid);
    RecordedGraph* find(const gpu::ReplayKey& key);

    RecordedGraph& add(RecordedGraph graph);

    /// The one not used for longest, where there is no room for another; it is not kept any longer.
    std::optional<RecordedGraph> take_surplus();
    std::optional<RecordedGraph> take_any();

private:
    std::list<RecordedGraph> graphs_;
};

}  // namespace heddle::vulkan
