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
        Bytes bytes;  ///< as it was sent: the next one may differ little from it
        std::shared_ptr<ServedGraph> graph;
        std::optional<Error> failure;  ///< why there is none
    };
    struct Name {
        std::uint32_t number = 0, stream = 0;
    };

    /// A part of a graph of `total` bytes, the next one. Gives all of them with the last part.
    Result<std::optional<Bytes>> add_part(const Name& name, std::size_t total, ByteView part);
    /// The bytes of a graph that differs from `base` in what `delta` has.
    Result<Bytes> change(const Name& name, const Name& base, ByteReader& delta) const;
    /// What became of them.
    void keep(const Name& name, Bytes bytes, Result<std::unique_ptr<ServedGraph>> made);

    /// Fails if the stream has none of that number.
    Result<const Stored*> find(const Name& name) const;
    Result<> drop(const Name& name);
    /// The stream is freed. What is in its queue holds its graph.
    void drop_all(std::uint32_t stream);

    std::size_t size() const { return graphs_.size(); }

private:
    /// Fails if the stream has as many as it may have, with those that are not whole yet, or has
    /// this one.
    Result<> check_new(const Name& name) const;

    struct Part {
        std::uint32_t stream = 0;
        Bytes bytes;
        std::size_t total = 0;
    };
    std::map<std::uint32_t, Stored> graphs_;
    std::map<std::uint32_t, Part> parts_;
};

}  // namespace heddle::mpi
