#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "backends/mpi/fabric.hpp"
#include "backends/mpi/protocol.hpp"

namespace heddle::mpi {

/// The fabric of a worker, for all of its threads. Keeps count of what was dealt with: rank 0
/// hears of it with every message.
class Outbox {
public:
    explicit Outbox(Fabric& fabric) : fabric_(fabric) {}

    int rank() const { return fabric_.rank(); }
    int size() const { return fabric_.size(); }

    void send(int to, Bytes message);
    std::optional<Message> receive();
    std::size_t unsent(int to);
    bool is_moving();
    void forget(int rank);
    std::optional<double> ping_pong(const Fabric::PingPong& wanted, Clock::time_point until);

    /// A message of rank 0 of so many bytes was dealt with.
    void settle(std::size_t bytes) { credit_.fetch_add(bytes, std::memory_order_relaxed); }

    /// Whether rank 0 should hear of that soon, because it may be waiting for it.
    bool owes_much() const { return credit_.load(std::memory_order_relaxed) > kWindow / 8; }

    void answer(std::uint32_t request, const Result<>& outcome, ByteView more = {});

private:
    std::mutex lock_;
    Fabric& fabric_;
    std::atomic<std::size_t> credit_{0};
};

}  // namespace heddle::mpi
