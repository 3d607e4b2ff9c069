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

Ticket Worker::submit(Ticket after, Job job) {
    const std::lock_guard guard(lock_);
    try {
        if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
        throw std::system_error(error.code(), "the stream's thread cannot be started");
    }
    entries_.push_back({std::move(after), std::move(job)});
    arrived_.notify_all();
    return {progress_, ++submitted_};
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
        entry.after.wait();
        if (entry.job) {
            auto done = plugin::attempt([&] { return entry.job(); });
            if (!done) keep(std::move(done).error());
        }
        entry = {};  // what the job holds is let go before anybody is told
        progress_->advance();
    }
}

}  // namespace heddle::sim
