#include "backends/mpi/worker/outbox.hpp"

namespace heddle::mpi {

void Outbox::send(int to, Bytes message) {
    const std::lock_guard guard(lock_);
    if (to == 0) set_credit(message, credit_.exchange(0, std::memory_order_relaxed));
    fabric_.send(to, std::move(message));
}

std::optional<Message> Outbox::receive() {
    const std::lock_guard guard(lock_);
    return fabric_.receive();
}

std::size_t Outbox::unsent(int to) {
    const std::lock_guard guard(lock_);
    return fabric_.unsent(to);
}

bool Outbox::is_moving() {
    const std::lock_guard guard(lock_);
    return fabric_.is_moving();
}

void Outbox::forget(int rank) {
    const std::lock_guard guard(lock_);
    fabric_.forget(rank);
}

std::optional<double> Outbox::ping_pong(const Fabric::PingPong& wanted, Clock::time_point until) {
    const std::lock_guard guard(lock_);
    return fabric_.ping_pong(wanted, until);
}

void Outbox::answer(std::uint32_t request, const Result<>& outcome, ByteView more) {
    ByteWriter out = begin({.kind = Kind::answer}, more.size() + 64);
    out.put(request);
    put_outcome(out, outcome);
    out.raw(more);
    send(0, seal(std::move(out)));
}

}  // namespace heddle::mpi
