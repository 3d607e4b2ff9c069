#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/mpi/client/stream.hpp"

namespace heddle::mpi {

/// Sums over streams of different workers: each is told to take part, and they exchange what they
/// have among themselves.
class RemoteSums {
public:
    /// Null unless all are streams of workers, each of another one.
    static std::unique_ptr<RemoteSums> make(std::span<const ggml_backend_t> streams);

    std::size_t size() const { return streams_.size(); }

    /// Replaces each tensor, one on each stream, by the sum of those that are marked to be
    /// computed. False if nothing was done: they are none that workers can add up.
    bool add_up(std::span<Tensor* const> tensors);

private:
    std::vector<RemoteStream*> streams_;
};

}  // namespace heddle::mpi
