#include "backends/mpi/worker/graphs.hpp"

#include <algorithm>

#include "backends/mpi/worker/calls.hpp"

namespace heddle::mpi {

Result<std::optional<GraphRecords>> Graphs::add_part(const Name& name, std::size_t total,
                                                     ByteView part) {
    const auto is_of_it = [&](const auto& each) { return each.second.stream == name.stream; };
    const auto count = std::ranges::count_if(graphs_, is_of_it);
    if (static_cast<std::size_t>(count) >= kMostGraphs) {
        return failure(Errc::corrupt, "more than ", kMostGraphs, " graphs of a stream");
    }
    Part& parts = parts_[name.number];
    if (parts.total == 0) parts = {name.stream, {}, total};
    if (total > kLongestGraph || parts.total != total || graphs_.contains(name.number) ||
        parts.stream != name.stream || part.size() > total - parts.bytes.size()) {
        return broken("a graph");
    }
    parts.bytes.insert(parts.bytes.end(), part.begin(), part.end());
    if (parts.bytes.size() < total) return std::optional<GraphRecords>();
    ByteReader whole(parts.bytes);
    HEDDLE_TRY_ASSIGN(GraphRecords records, get_graph(whole));
    parts_.erase(name.number);
    return std::optional(std::move(records));
}

void Graphs::keep(const Name& name, Result<std::unique_ptr<ServedGraph>> made) {
    Stored& stored = graphs_[name.number];
    stored.stream = name.stream;
    if (made) {
        stored.graph = *std::move(made);
    } else {
        stored.failure = std::move(made).error();
    }
}

Result<const Graphs::Stored*> Graphs::find(const Name& name) const {
    const auto found = graphs_.find(name.number);
    if (found != graphs_.end() && found->second.stream == name.stream) return &found->second;
    return failure(Errc::corrupt, "stream ", name.stream, " has no graph ", name.number);
}

Result<> Graphs::drop(const Name& name) {
    HEDDLE_TRY(find(name));
    graphs_.erase(name.number);
    return ok();
}

void Graphs::drop_all(std::uint32_t stream) {
    const auto is_of_it = [&](const auto& each) { return each.second.stream == stream; };
    std::erase_if(graphs_, is_of_it);
    std::erase_if(parts_, is_of_it);
}

}  // namespace heddle::mpi
