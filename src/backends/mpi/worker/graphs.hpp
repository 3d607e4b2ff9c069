#pragma once

#include <map>
#include <memory>
#include <optional>

#include "backends/mpi/worker/storage.hpp"

namespace heddle::mpi {

/// Graphs that rank 0 has sent, each for one stream. They go with it.
class Graphs {
public:
    struct Stored {
        std::uint32_t stream = 0;
        std::shared_ptr<ServedGraph> graph;
        std::optional<Error> failure;  ///< why there is none
    };
    struct Name {
        std::uint32_t number = 0, stream = 0;
    };

    /// A part of a graph of `total` bytes, the next one. Gives the graph with the last part.
    Result<std::optional<GraphRecords>> add_part(const Name& name, std::size_t total,
                                                 ByteView part);
    /// What became of it.
    void keep(const Name& name, Result<std::unique_ptr<ServedGraph>> made);

    /// Fails if the stream has none of that number.
    Result<const Stored*> find(const Name& name) const;
    Result<> drop(const Name& name);
    /// The stream is freed. What is in its queue holds its graph.
    void drop_all(std::uint32_t stream);

    std::size_t size() const { return graphs_.size(); }

private:
    struct Part {
        std::uint32_t stream = 0;
        Bytes bytes;
        std::size_t total = 0;
    };
    std::map<std::uint32_t, Stored> graphs_;
    std::map<std::uint32_t, Part> parts_;
};

}  // namespace heddle::mpi
