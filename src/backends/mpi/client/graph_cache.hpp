#pragma once

#include <cstdint>
#include <vector>

#include "backends/mpi/codec.hpp"

namespace heddle::mpi {

class RemoteDevice;

/// Graphs that a worker has for a stream. Each is sent once; after that its number is enough. This
/// side decides what is dropped, so the worker always has what it is told to run.
class GraphCache {
public:
    GraphCache(RemoteDevice& device, std::uint32_t stream) : device_(device), stream_(stream) {}

    /// The number of a graph, which the worker has from now on. Fails if it cannot run there.
    Result<std::uint32_t> number_of(const Graph& graph);

private:
    struct Entry {
        std::uint64_t uid = 0;  ///< of the graph that was last found to be this one
        std::uint32_t number = 0;
        Bytes bytes;
        std::uint64_t used = 0;  ///< when, counted in graphs
    };

    Result<> check(const Graph& graph) const;
    /// As what differs from one of the same size, or whole.
    Result<> send(const Entry& entry) const;
    Result<bool> send_delta(const Entry& entry) const;
    Result<> send_whole(const Entry& entry) const;
    void drop_oldest();

    RemoteDevice& device_;
    const std::uint32_t stream_;
    std::vector<Entry> entries_;
    std::uint64_t runs_ = 0;
};

/// The nodes of a graph and what they read. Fails if that is not in memory of `device`.
Result<GraphRecords> describe_graph(const Graph& graph, const RemoteDevice& device);

}  // namespace heddle::mpi
