#pragma once

#include <atomic>

#include "backends/mpi/protocol.hpp"
#include "backends/mpi/shared_fabric.hpp"

namespace heddle::mpi {

/// The fabric of a worker. Keeps count of what was dealt with: rank 0 hears of it with every
/// message.
class Outbox {
public:
    explicit Outbox(Fabric& fabric) : fabric_(fabric) {}

    SharedFabric& fabric() { return fabric_; }
    int rank() const { return fabric_.rank(); }
    int size() const { return fabric_.size(); }

    void send(int to, Bytes message);

    /// A message of rank 0 of so many bytes was dealt with.
    void settle(std::size_t bytes) { credit_.fetch_add(bytes, std::memory_order_relaxed); }

    /// Whether rank 0 should hear of that soon, because it may be waiting for it.
    bool owes_much() const { return credit_.load(std::memory_order_relaxed) > kWindow / 8; }

    void answer(std::uint32_t request, const Result<>& outcome, ByteView more = {});

private:
    SharedFabric fabric_;
    std::atomic<std::size_t> credit_{0};
};

}  // namespace heddle::mpi
