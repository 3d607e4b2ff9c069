#include "backends/sim/board.hpp"

#include <algorithm>

namespace heddle::sim {

Board::Board(std::shared_ptr<HostClock> clock, const Parameters& parameters, int index)
    : name("SIM" + std::to_string(index)),
      parameters(parameters),
      timeline(std::move(clock), parameters, name, index * parameters.hosts / parameters.devices) {}

plugin::MemoryAmount Board::memory() const {
    const std::lock_guard guard(lock_);
    return {.free = parameters.memory - taken_, .total = parameters.memory};
}

Result<> Board::take(std::size_t bytes) {
    HEDDLE_TRY(timeline.allocation(bytes));
    if (bytes > parameters.max_buffer) {
        return failure(Errc::out_of_memory, bytes, " bytes are more than the largest buffer has, ",
                       parameters.max_buffer);
    }
    const std::lock_guard guard(lock_);
    const std::size_t free = parameters.memory - taken_;
    if (bytes > free) {
        return failure(Errc::out_of_memory, "no room for ", bytes, " bytes: ", free, " of ",
                       parameters.memory, " are free");
    }
    taken_ += bytes;
    return ok();
}

void Board::give_back(std::size_t bytes) {
    const std::lock_guard guard(lock_);
    taken_ -= bytes;
}

int Board::enter(const Worker& worker) {
    const std::lock_guard guard(lock_);
    const auto vacant = std::find(workers_.begin(), workers_.end(), nullptr);
    if (vacant != workers_.end()) {
        *vacant = &worker;
    } else {
        workers_.push_back(&worker);
    }
    return ++streams_;
}

void Board::leave(const Worker& worker) {
    const std::lock_guard guard(lock_);
    *std::find(workers_.begin(), workers_.end(), &worker) = nullptr;  // others keep their places
}

void Board::drain() const noexcept {
    for (std::size_t i = 0;; ++i) {
        Ticket ticket;
        {
            const std::lock_guard guard(lock_);
            if (i == workers_.size()) return;
            if (workers_[i] != nullptr && !workers_[i]->is_stranded()) {
                ticket = workers_[i]->last();
            }
        }
        ticket.wait();
    }
}

}  // namespace heddle::sim
