#include "backends/sim/worker.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

#include "heddle/backend/guard.hpp"

namespace heddle::sim {
namespace {

/// A schedule of a large model gives a queue a few thousand jobs a run; 24 bytes each.
constexpr std::size_t kMostSpans = std::size_t{1} << 16;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

void Progress::wait(std::uint64_t number) {
    if (home_ != process_number()) return;
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return done_ >= number; });
}

void Progress::advance(const JobSpan& span) {
    const std::lock_guard guard(lock_);
    ++done_;
    try {
        spans_.push_back(span);
        if (spans_.size() > kMostSpans) spans_.pop_front();
    } catch (const std::bad_alloc&) {
        spans_.clear();  // the job is done all the same; its times are not known
    }
    changed_.notify_all();
}

std::optional<JobSpan> Progress::span(std::uint64_t from, std::uint64_t to) {
    if (home_ != process_number()) return std::nullopt;
    wait(to);
    const std::lock_guard guard(lock_);
    if (to == 0) return JobSpan{};  // the queue was never given anything
    const std::uint64_t forgotten = done_ - spans_.size();
    if (std::min(from, to - 1) < forgotten) return std::nullopt;
    const double end = spans_[to - 1 - forgotten].end;
    for (std::uint64_t job = from; job < to; ++job) {
        const JobSpan& each = spans_[job - forgotten];
        if (!each.is_wait) return JobSpan{each.begin, end};
    }
    return JobSpan{end, end, true};
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
    JobSpan span{.begin = now(), .is_wait = !entry.job};
    if (entry.job) {
        auto done = plugin::attempt([&] { return entry.job(); });
        if (!done) keep(std::move(done).error());
    }
    entry = {};  // what the job holds is let go before anybody is told
    span.end = now();
    progress_->advance(span);
}

}  // namespace heddle::sim
