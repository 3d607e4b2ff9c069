#include "backends/sim/worker.hpp"

#include <system_error>

#include "heddle/backend/guard.hpp"

namespace heddle::sim {

void Progress::wait(std::uint64_t number) {
    if (home_ != process_number()) return;
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return done_ >= number; });
}

void Progress::advance() {
    const std::lock_guard guard(lock_);
    ++done_;
    changed_.notify_all();
}

Worker::~Worker() {
    {
        const std::lock_guard guard(lock_);
        stops_ = true;
        arrived_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
}

/// False if the system has no thread for it.
bool Worker::has_thread() {
    if (thread_.joinable()) return true;
    try {
        thread_ = std::thread([this] { run(); });
        return true;
    } catch (const std::system_error&) {
        return false;
    }
}

Ticket Worker::submit(Ticket after, Job job) {
    Entry entry{std::move(after), std::move(job)};
    std::unique_lock guard(lock_);
    if (has_thread()) {
        entries_.push_back(std::move(entry));
        arrived_.notify_all();
        return {progress_, ++submitted_};
    }
    // It is done here and now: there was no thread for those before it either, so they are done.
    const Ticket ticket{progress_, ++submitted_};
    guard.unlock();
    perform(std::move(entry));
    return ticket;
}

Ticket Worker::last() const {
    const std::lock_guard guard(lock_);
    return {progress_, submitted_};
}

std::optional<Error> Worker::take_error() {
    const std::lock_guard guard(lock_);
    return std::exchange(error_, std::nullopt);
}

std::optional<Error> Worker::untold_error() {
    const std::lock_guard guard(lock_);
    if (std::exchange(is_told_, true)) return std::nullopt;
    return error_;
}

void Worker::keep(Error error) {
    const std::lock_guard guard(lock_);
    if (error_) return;
    error_ = std::move(error);
    is_told_ = false;
}

void Worker::run() {
    while (true) {
        Entry entry;
        {
            std::unique_lock guard(lock_);
            arrived_.wait(guard, [&] { return stops_ || !entries_.empty(); });
            if (entries_.empty()) return;
            entry = std::move(entries_.front());
            entries_.pop_front();
        }
        perform(std::move(entry));
    }
}

void Worker::perform(Entry entry) {
    entry.after.wait();
    if (entry.job) {
        auto done = plugin::attempt([&] { return entry.job(); });
        if (!done) keep(std::move(done).error());
    }
    entry = {};  // what the job holds is let go before anybody is told
    progress_->advance();
}

}  // namespace heddle::sim
