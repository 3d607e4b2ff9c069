#include "backends/mpi/worker/driver.hpp"

namespace heddle::mpi {

bool Driver::step() {
    const std::lock_guard turn(turn_);
    return take_one();
}

void Driver::poll() {
    const std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) return;
    while (take_one()) continue;
}

void Driver::put_back(Message message) {
    const std::lock_guard turn(turn_);
    later_.push_back(std::move(message));
}

bool Driver::take_one() {
    if (has_stopped()) return false;
    std::optional<Message> message;
    if (later_.empty()) {
        message = outbox_.receive();
    } else {
        message = std::move(later_.front());
        later_.pop_front();
    }
    if (!message) return false;
    handler_ = std::this_thread::get_id();
    handle_(*std::move(message));
    handler_ = std::thread::id();
    return true;
}

bool Driver::let_sends_move() {
    auto message = outbox_.receive();
    if (!message) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        return false;
    }
    later_.push_back(*std::move(message));
    return later_.back().source == 0;
}

bool Driver::wait(const std::function<bool()>& done) {
    const NoPipeSignal guard_of_thread;
    Backoff backoff;
    bool polls = false, is_done = false;
    std::unique_lock guard(lock_);
    while (true) {
        const std::uint64_t seen = changes_;
        guard.unlock();
        is_done = done();
        const bool has_moved = !is_done && polls && step();
        const bool is_moving = polls && outbox_.is_moving();
        guard.lock();
        if (is_done || stopped_) break;
        if (has_moved) {
            backoff.reset();
        } else if (!has_poller_) {
            has_poller_ = polls = true;
        } else if (polls) {
            const auto time = backoff.next(is_moving);
            if (time.count() == 0) {
                guard.unlock();
                backoff.yield();
                guard.lock();
            } else {
                changed_.wait_for(guard, time, [&] { return changes_ != seen || stopped_; });
            }
        } else {
            changed_.wait(guard, [&] { return changes_ != seen || !has_poller_ || stopped_; });
        }
    }
    if (polls) {
        has_poller_ = false;
        changed_.notify_all();
    }
    return is_done;
}

void Driver::wake() {
    const std::lock_guard guard(lock_);
    ++changes_;
    changed_.notify_all();
}

void Driver::stop() {
    const std::lock_guard guard(lock_);
    stopped_ = true;
    changed_.notify_all();
    stopping_.notify_all();
}

void Driver::finish() { const std::lock_guard turn(turn_); }

bool Driver::has_stopped() const {
    const std::lock_guard guard(lock_);
    return stopped_;
}

void Driver::stand_in(std::chrono::milliseconds time, bool spins) {
    // Where nothing has changed for a while, a look now and then is enough.
    constexpr std::chrono::milliseconds kLook{2}, kQuiet{100}, kRareLook{20};
    const NoPipeSignal guard_of_thread;
    const auto until = Clock::now() + time;
    Backoff backoff(spins);
    const auto is_over = [&] { return stopped_; };
    std::unique_lock guard(lock_);
    std::uint64_t seen = changes_;
    auto quiet_since = Clock::now();
    while (!stopped_ && Clock::now() < until) {
        if (has_poller_) {
            if (std::exchange(seen, changes_) != changes_) quiet_since = Clock::now();
            const bool is_quiet = Clock::now() - quiet_since > kQuiet;
            stopping_.wait_for(guard, is_quiet ? kRareLook : kLook, is_over);
            backoff.reset();
            continue;
        }
        guard.unlock();
        const bool has_moved = step();
        const auto pause =
            has_moved ? std::chrono::microseconds(0) : backoff.next(outbox_.is_moving());
        if (has_moved) {
            backoff.reset();
        } else if (pause.count() == 0) {
            backoff.yield();
        }
        guard.lock();
        if (pause.count() > 0) stopping_.wait_for(guard, pause, is_over);
    }
}

}  // namespace heddle::mpi
