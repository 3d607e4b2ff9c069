#include "backends/mpi/shared_fabric.hpp"

namespace heddle::mpi {

void SharedFabric::send(int to, Bytes message) {
    const std::lock_guard guard(turn_);
    fabric_.send(to, std::move(message));
}

std::optional<Message> SharedFabric::receive() {
    const std::lock_guard guard(turn_);
    return fabric_.receive();
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

void SharedFabric::hold_back(int rank, bool is_held) {
    const std::lock_guard guard(turn_);
    fabric_.hold_back(rank, is_held);
}

std::optional<double> SharedFabric::ping_pong(const Fabric::PingPong& wanted,
                                              Clock::time_point until) {
    const std::lock_guard guard(turn_);
    return fabric_.ping_pong(wanted, until);
}

bool SharedFabric::make_room(int to, const std::function<bool()>& gives_up, std::size_t most) {
    Backoff backoff;
    while (true) {
        {
            const std::lock_guard guard(turn_);
            if (fabric_.unsent(to) <= most) return true;
            if (fabric_.move()) backoff.reset();
        }
        if (gives_up()) return false;
        backoff.pause();
    }
}

Result<> SharedFabric::make_group(const Fabric::GroupRequest& request) {
    const std::lock_guard guard(turn_);
    return fabric_.make_group(request);
}

Result<std::vector<float>> SharedFabric::add_up(std::uint32_t group, std::vector<float> addends,
                                                const std::function<bool()>& gives_up) {
    {
        const std::lock_guard guard(turn_);
        HEDDLE_TRY(fabric_.begin_sum(group, std::move(addends)));
    }
    Backoff backoff;
    while (true) {
        {
            const std::lock_guard guard(turn_);
            auto sum = fabric_.take_sum(group);
            if (!sum) fabric_.abandon_group(group);
            HEDDLE_TRY_ASSIGN(auto taken, std::move(sum));
            if (taken) return *std::move(taken);
            if (fabric_.move()) backoff.reset();
        }
        if (gives_up()) break;
        backoff.pause();
    }
    const std::lock_guard guard(turn_);
    fabric_.abandon_group(group);
    return failure(Errc::device, "a rank is lost, and with it what it was to add");
}

void SharedFabric::finish() {
    const std::lock_guard guard(turn_);
    fabric_.finish();
}

}  // namespace heddle::mpi
