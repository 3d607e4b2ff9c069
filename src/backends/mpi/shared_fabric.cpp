#include "backends/mpi/shared_fabric.hpp"

namespace heddle::mpi {

void SharedFabric::send(int to, Bytes message) {
    const std::lock_guard guard(turn_);
    fabric_.send(to, std::move(message));
    call_for_help();
}

std::optional<Message> SharedFabric::receive() {
    const std::lock_guard guard(turn_);
    std::optional<Message> message = fabric_.receive();
    call_for_help();
    return message;
}

std::size_t SharedFabric::unsent(int to) {
    const std::lock_guard guard(turn_);
    return fabric_.unsent(to);
}

bool SharedFabric::is_moving() {
    const std::lock_guard guard(turn_);
    return fabric_.moving() > 0;
}

void SharedFabric::forget(int rank) {
    const std::lock_guard guard(turn_);
    fabric_.forget(rank);
}

std::optional<double> SharedFabric::ping_pong(const Fabric::PingPong& wanted,
                                              Clock::time_point until) {
    const std::lock_guard guard(turn_);
    return fabric_.ping_pong(wanted, until);
}

bool SharedFabric::make_room(int to, const std::function<bool()>& gives_up) {
    Backoff backoff;
    while (true) {
        {
            const std::lock_guard guard(turn_);
            if (fabric_.unsent(to) <= kMostUnsent) return true;
            if (fabric_.move()) backoff.reset();
        }
        if (gives_up()) return false;
        backoff.pause();
    }
}

void SharedFabric::finish() {
    stop();
    const std::lock_guard guard(turn_);
    fabric_.finish();
}

// ---- the thread of its own ---------------------------------------------------------------------

void SharedFabric::stop() {
    {
        const std::lock_guard guard(lock_);
        stops_ = true;
        called_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
}

void SharedFabric::call_for_help() {
    if (fabric_.moving() < kLarge || helps_.load(std::memory_order_relaxed)) return;
    const std::lock_guard guard(lock_);
    if (stops_ || helps_.exchange(true)) return;
    if (thread_.joinable()) {
        called_.notify_all();
    } else {
        const NoPipeSignal guard_of_thread;
        thread_ = std::thread([this] { help(); });
    }
}

bool SharedFabric::move(bool& is_over) {
    const std::lock_guard guard(turn_);
    const bool moved = fabric_.move();
    is_over = fabric_.moving() < kLarge;
    // Under the same lock as the question whether help is needed: no call is missed.
    if (is_over) helps_ = false;
    return moved;
}

void SharedFabric::help() {
    const NoPipeSignal guard_of_thread;
    while (!stops_) {
        Backoff backoff;
        for (bool is_over = false; !is_over && !stops_;) {
            if (turn_.is_wanted()) {
                backoff.yield();
            } else if (move(is_over)) {
                backoff.reset();
            } else {
                backoff.pause();
            }
        }
        std::unique_lock guard(lock_);
        called_.wait(guard, [&] { return stops_ || helps_; });
    }
}

}  // namespace heddle::mpi
