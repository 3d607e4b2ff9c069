#include "backends/vulkan/replay.hpp"

#include <algorithm>

namespace heddle::vulkan {
namespace {

template <class Matches>
RecordedGraph* to_front(std::list<RecordedGraph>& graphs, const Matches& matches) {
    const auto found = std::ranges::find_if(graphs, matches);
    if (found == graphs.end()) return nullptr;
    graphs.splice(graphs.begin(), graphs, found);
    return &graphs.front();
}

}  // namespace

RecordedGraph* Replay::find(std::uint64_t uid) {
    if (uid == 0) return nullptr;
    return to_front(graphs_, [&](const RecordedGraph& each) { return each.uid == uid; });
}

RecordedGraph* Replay::find(const gpu::ReplayKey& key) {
    return to_front(graphs_, [&](const RecordedGraph& each) { return each.key == key; });
}

RecordedGraph& Replay::add(RecordedGraph graph) { return graphs_.emplace_front(std::move(graph)); }

std::optional<RecordedGraph> Replay::take_surplus() {
    return graphs_.size() >= kMostGraphs ? take_any() : std::nullopt;
}

std::optional<RecordedGraph> Replay::take_any() {
    if (graphs_.empty()) return std::nullopt;
    RecordedGraph last = std::move(graphs_.back());
    graphs_.pop_back();
    return last;
}

}  // namespace heddle::vulkan
