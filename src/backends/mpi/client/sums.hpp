#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/mpi/client/device.hpp"
#include "backends/mpi/client/stream.hpp"

namespace heddle::mpi {

/// Sums over streams of different workers: each is told to take part, and they exchange what they
/// have among themselves.
class RemoteSums {
public:
    /// Null unless all are streams of workers, each of another one. Where workers are to add up by
    /// MPI and cannot form a group, that is told, and they add up in the order of devices.
    static std::unique_ptr<RemoteSums> make(std::span<const ggml_backend_t> streams);

    std::size_t size() const { return streams_.size(); }

    /// Replaces each tensor, one on each stream, by the sum of those that are marked to be
    /// computed. False if nothing was done: they are none that workers can add up.
    bool add_up(std::span<Tensor* const> tensors);

private:
    void form_group();
    Cluster& cluster() const { return streams_.front()->device().cluster(); }

    std::vector<RemoteStream*> streams_;
    std::vector<std::uint32_t> numbers_;   ///< of the streams
    Cluster::RankGroup* group_ = nullptr;  ///< that adds up by MPI; null: they do so in order
};

}  // namespace heddle::mpi
