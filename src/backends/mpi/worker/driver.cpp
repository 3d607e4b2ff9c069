#include "backends/mpi/worker/driver.hpp"

namespace heddle::mpi {
namespace {

/// Calls a function in the end, however that comes about.
template <class Function>
class AtEnd {
public:
    explicit AtEnd(Function function) : function_(std::move(function)) {}
    ~AtEnd() { function_(); }
    AtEnd(const AtEnd&) = delete;
    AtEnd& operator=(const AtEnd&) = delete;

private:
    Function function_;
};

/// What it takes while it waits, also if it has no bytes.
std::ptrdiff_t memory_of(const Message& message) {
    return static_cast<std::ptrdiff_t>(sizeof(Message) + message.bytes.size());
}

/// Of one rank: then it has to wait.
constexpr std::ptrdiff_t kMostDeferred = std::ptrdiff_t{16} << 20;

}  // namespace

bool Driver::step(bool is_idle) {
    const std::lock_guard turn(turn_);
    return take_one(is_idle);
}

void Driver::poll() {
    const std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) return;
    while (take_one(false)) continue;
}

void Driver::catch_up() {
    while (step(false)) continue;
}

void Driver::put_back(Message message) {
    const std::lock_guard turn(turn_);
    defer(std::move(message));
}

/// Rank 0 sends no more than its window; other workers may send anything.
void Driver::defer(Message message) {
    calls_.hear(message);
    count_deferred(message, 1);
    later_.push_back(std::move(message));
}

void Driver::count_deferred(const Message& message, std::ptrdiff_t by) {
    if (message.source == 0) return;
    std::ptrdiff_t& deferred = deferred_[message.source];
    const auto is_too_much = [&] { return deferred >= kMostDeferred; };
    const bool was_held = is_too_much();
    deferred += by * memory_of(message);
    if (is_too_much() != was_held) fabric_.hold_back(message.source, !was_held);
}

bool Driver::take_one(bool is_idle) {
    if (stopped_) return false;
    std::optional<Message> message;
    if (later_.empty()) {
        message = fabric_.receive();
    } else {
        message = std::move(later_.front());
        later_.pop_front();
        count_deferred(*message, -1);
    }
    if (!message) return false;
    handler_is_idle_ = is_idle;
    handler_ = std::this_thread::get_id();
    const AtEnd ends([&] { handler_ = std::thread::id(); });
    calls_.handle(*std::move(message));
    return true;
}

bool Driver::let_sends_move() {
    auto message = fabric_.receive();
    if (!message) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        return false;
    }
    defer(*std::move(message));
    return true;
}

std::optional<Message> Driver::wait_for_message(
    const std::function<bool(const Message&)>& is_wanted, const std::function<bool()>& gives_up) {
    Backoff backoff;
    while (!stopped_ && !gives_up()) {
        auto message = fabric_.receive();
        if (!message) {
            backoff.pause();
            continue;
        }
        if (is_wanted(*message)) return message;
        defer(*std::move(message));
        backoff.reset();
    }
    return std::nullopt;
}

// ---- waiting -----------------------------------------------------------------------------------

bool Driver::wait(const std::function<bool()>& done) { return wait(Waits::for_others, done); }

bool Driver::wait_for_work(const std::function<bool()>& done) {
    return wait(Waits::for_work, done);
}

bool Driver::wait(Waits waits, const std::function<bool()>& done) {
    const NoPipeSignal guard_of_thread;
    Backoff backoff;
    bool polls = false, is_done = false;
    const AtEnd ends([&] {
        if (polls) end_polling();
    });
    std::unique_lock guard(lock_);
    while (true) {
        const std::uint64_t seen = waits == Waits::for_work ? offers_ : changes_;
        guard.unlock();
        is_done = done();
        const bool has_moved = !is_done && polls && step(waits == Waits::for_work);
        guard.lock();
        if (is_done || stopped_) break;
        if (has_moved) {
            backoff.reset();
        } else if (!has_poller_) {
            has_poller_ = polls = true;
        } else if (polls) {
            pause(guard, backoff, waits, seen);
        } else {
            wait_aside(guard, waits, seen);
        }
    }
    return is_done;
}

void Driver::end_polling() {
    const std::lock_guard guard(lock_);
    has_poller_ = false;
    // A thread that waits for work is not woken for this: it would take a core from what is done
    // now. The worker's own thread looks soon.
    if (aside_ > 0) changed_.notify_one();
}

void Driver::pause(std::unique_lock<std::mutex>& guard, Backoff& backoff, Waits waits,
                   std::uint64_t seen) {
    guard.unlock();
    const auto time = backoff.next(fabric_.is_moving());
    if (time.count() == 0) backoff.yield();
    guard.lock();
    if (time.count() == 0) return;
    if (waits == Waits::for_work) {
        work_.wait_for(guard, time, [&] { return offers_ != seen || stopped_; });
        return;
    }
    ++aside_;
    changed_.wait_for(guard, time, [&] { return changes_ != seen || stopped_; });
    --aside_;
}

void Driver::wait_aside(std::unique_lock<std::mutex>& guard, Waits waits, std::uint64_t seen) {
    if (waits == Waits::for_work) {
        work_.wait(guard, [&] { return offers_ != seen || stopped_; });
        return;
    }
    ++aside_;
    changed_.wait(guard, [&] { return changes_ != seen || !has_poller_ || stopped_; });
    --aside_;
}

void Driver::wake() {
    const std::lock_guard guard(lock_);
    ++changes_;
    if (aside_ > 0) changed_.notify_all();
}

void Driver::wake_idle() {
    const std::lock_guard guard(lock_);
    ++offers_;
    work_.notify_one();
}

void Driver::stop() {
    const std::lock_guard guard(lock_);
    stopped_ = true;
    changed_.notify_all();
    work_.notify_all();
    stopping_.notify_all();
}

void Driver::finish() { const std::lock_guard turn(turn_); }

void Driver::stand_in(std::chrono::milliseconds time, bool spins) {
    // Where nothing has changed for a while, a look now and then is enough.
    constexpr std::chrono::milliseconds kQuiet{100};
    constexpr std::chrono::microseconds kLook{500}, kRareLook{20'000};
    const NoPipeSignal guard_of_thread;
    const auto until = Clock::now() + time;
    Backoff backoff(spins ? Backoff::Begins::looking : Backoff::Begins::with_long_sleeps);
    const auto is_over = [&] { return stopped_.load(); };
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
        const bool has_moved = step(false);
        const auto pause =
            has_moved ? std::chrono::microseconds(0) : backoff.next(fabric_.is_moving());
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
