#include "backends/mpi/worker/graphs.hpp"

#include <algorithm>

#include "backends/mpi/delta.hpp"
#include "backends/mpi/worker/calls.hpp"

namespace heddle::mpi {

Result<> Graphs::check_new(const Name& name) const {
    const auto is_another = [&](const auto& each) {
        return each.second.stream == name.stream && each.first != name.number;
    };
    const auto count =
        std::ranges::count_if(graphs_, is_another) + std::ranges::count_if(parts_, is_another);
    if (static_cast<std::size_t>(count) >= kMostGraphs) {
        return failure(Errc::corrupt, "more than ", kMostGraphs, " graphs of a stream");
    }
    return graphs_.contains(name.number) ? Result<>(broken("a graph")) : ok();
}

Result<std::optional<Bytes>> Graphs::add_part(const Name& name, std::size_t total, ByteView part) {
    HEDDLE_TRY(check_new(name));
    Part& parts = parts_[name.number];
    if (parts.total == 0) parts = {name.stream, {}, total};
    if (total > kLongestGraph || parts.total != total || parts.stream != name.stream ||
        part.size() > total - parts.bytes.size()) {
        return broken("a graph");
    }
    parts.bytes.insert(parts.bytes.end(), part.begin(), part.end());
    if (parts.bytes.size() < total) return std::optional<Bytes>();
    std::optional<Bytes> whole(std::move(parts.bytes));
    parts_.erase(name.number);
    return whole;
}

Result<Bytes> Graphs::change(const Name& name, const Name& base, ByteReader& delta) const {
    HEDDLE_TRY(check_new(name));
    HEDDLE_TRY_ASSIGN(const Stored* const known, find(base));
    return apply_delta(known->bytes, delta);
}

void Graphs::keep(const Name& name, Bytes bytes, Result<std::unique_ptr<ServedGraph>> made) {
    Stored& stored = graphs_[name.number];
    stored.stream = name.stream;
    stored.bytes = std::move(bytes);
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
