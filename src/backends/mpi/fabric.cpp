#include "backends/mpi/fabric.hpp"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>

namespace heddle::mpi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

thread_local int guards_of_thread = 0;

sigset_t pipe_signal() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    return pipe;
}

std::atomic<std::uint32_t> polling_microseconds{Polling::kAuto};

/// Until when cores are known to have other work, as a count of the clock, and how long that was
/// assumed the last time.
std::atomic<Clock::rep> crowded_until{0}, crowded_for{0};

bool is_crowded(Clock::time_point now) {
    return now.time_since_epoch().count() < crowded_until.load(std::memory_order_relaxed);
}

/// Twice as long each time, until a thread has waited without that.
void note_crowd(Clock::time_point now) {
    constexpr Clock::duration kLeast = milliseconds(2), kMost = milliseconds(64);
    const Clock::rep before = crowded_for.load(std::memory_order_relaxed);
    const Clock::rep time = std::clamp(2 * before, kLeast.count(), kMost.count());
    crowded_for.store(time, std::memory_order_relaxed);
    crowded_until.store(now.time_since_epoch().count() + time, std::memory_order_relaxed);
}

}  // namespace

// ---- what not every fabric can -----------------------------------------------------------------

Result<> Fabric::make_group(const GroupRequest&) {
    return failure(Errc::unsupported, "there is no MPI to add up with");
}

Result<> Fabric::begin_sum(std::uint32_t group, std::vector<float>) {
    return invalid("there is no group ", group, " of ranks");
}

Result<std::optional<std::vector<float>>> Fabric::take_sum(std::uint32_t group) {
    return invalid("there is no group ", group, " of ranks");
}

// ---- signals -----------------------------------------------------------------------------------

NoPipeSignal::NoPipeSignal() {
    if (guards_of_thread++ > 0) return;
    const sigset_t pipe = pipe_signal();
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
}

NoPipeSignal::~NoPipeSignal() {
    if (--guards_of_thread > 0 || sigismember(&before_, SIGPIPE) == 1) return;
    sigset_t waiting;
    sigpending(&waiting);
    const timespec now{};
    const sigset_t pipe = pipe_signal();
    if (sigismember(&waiting, SIGPIPE) == 1) sigtimedwait(&pipe, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

// ---- waiting -----------------------------------------------------------------------------------

void sleep_precisely() {
    thread_local const bool told = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0;
    (void)told;
}

void set_polling(Polling polling) { polling_microseconds = polling.microseconds; }

void Backoff::reset() {
    // Where cores were crowded and are so no longer, threads find what they wait for by looking.
    const bool looked = !is_new_ && begins_ == Begins::looking && !took_long_;
    if (looked && crowded_for.load(std::memory_order_relaxed) > 0 && !is_crowded(Clock::now())) {
        crowded_for.store(0, std::memory_order_relaxed);
    }
    is_new_ = true;
    took_long_ = false;
}

microseconds Backoff::next(bool is_moving) {
    constexpr microseconds kSpin{1000}, kMove{1000};
    const std::uint32_t chosen = polling_microseconds.load(std::memory_order_relaxed);
    if (chosen != Polling::kAuto) {
        looks_again_ = chosen == Polling::kSpin;
        if (!looks_again_) sleep_precisely();
        return microseconds(chosen);
    }
    const auto now = Clock::now();
    if (std::exchange(is_new_, false)) since_ = now;
    const auto waited = now - since_;
    looks_again_ = is_moving && waited < kMove;
    if (looks_again_) return microseconds(0);
    if (std::exchange(took_long_, false)) note_crowd(now);
    const bool looks = begins_ == Begins::looking && waited < kSpin;
    if (looks && !is_crowded(now)) return microseconds(0);
    sleep_precisely();
    return microseconds(waited > milliseconds(2000)                                       ? 2000
                        : waited > milliseconds(200)                                      ? 1000
                        : waited > milliseconds(2) || begins_ == Begins::with_long_sleeps ? 100
                                                                                          : 20);
}

void Backoff::yield() {
    if (looks_again_) return;
    constexpr microseconds kLong{100};
    const auto before = Clock::now();
    std::this_thread::yield();
    took_long_ = took_long_ || Clock::now() - before > kLong;
}

void Backoff::pause(bool is_moving) {
    const microseconds time = next(is_moving);
    if (time.count() == 0) return yield();
    std::this_thread::sleep_for(time);
}

// ---- habits ------------------------------------------------------------------------------------

Clock::duration Habit::nap() const {
    constexpr microseconds kLeast{100};
    constexpr milliseconds kMost{50};
    const Clock::duration least = *std::ranges::min_element(last_);
    return least < kLeast ? Clock::duration(0) : std::min<Clock::duration>(least * 3 / 4, kMost);
}

void Habit::note(Clock::duration waited) {
    last_[next_] = waited;
    next_ = (next_ + 1) % last_.size();
}

}  // namespace heddle::mpi
