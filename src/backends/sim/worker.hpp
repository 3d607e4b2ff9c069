#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "backends/sim/process.hpp"
#include "core/error.hpp"

namespace heddle::sim {

/// From when to when a job was done: seconds of the steady clock.
struct JobSpan {
    double begin = 0, end = 0;
    bool is_wait = false;  ///< there was nothing to do but to wait for another queue
};

/// How far a queue has come, and when. Outlives the queue, for those who wait for it.
class Progress {
public:
    /// Until `number` jobs are done. Not at all in a child of the process: no thread is there.
    void wait(std::uint64_t number);
    void advance(const JobSpan& span);

    /// From the begin of the first job after the first `from` to the end of job `to`, once that is
    /// done. Waits do not count: without other jobs begin and end are those of job `to`'s end.
    /// Nothing if it was too long ago.
    std::optional<JobSpan> span(std::uint64_t from, std::uint64_t to);

private:
    const unsigned home_ = process_number();
    std::mutex lock_;
    std::condition_variable changed_;
    std::uint64_t done_ = 0;
    std::deque<JobSpan> spans_;  ///< of the last jobs that are done
};

/// A point in a queue; the empty one has always been reached.
struct Ticket {
    std::shared_ptr<Progress> progress;
    std::uint64_t number = 0;

    void wait() const {
        if (progress != nullptr) progress->wait(number);
    }
};

/// A queue of jobs and the thread that does them, one after the other. The thread starts with the
/// first job. One thread submits at a time; any may wait.
///
/// In a child of the process that made it, it `is_stranded`: its thread is missing and its locks
/// may be held for ever. Nothing else may be called then, not even the destructor.
class Worker {
public:
    using Job = std::function<Result<>()>;

    Worker() = default;
    ~Worker();  ///< finishes what is in the queue
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    bool is_stranded() const noexcept { return home_ != process_number(); }

    /// Does `job` once `after` has been reached: in the background, or before it returns where
    /// the system has no thread.
    Ticket submit(Ticket after, Job job);

    /// All jobs submitted so far.
    Ticket last() const;

    /// The first failure of a job since this was last asked.
    std::optional<Error> take_error();

    /// The same failure, which stays; the first time only.
    std::optional<Error> untold_error();

private:
    struct Entry {
        Ticket after;
        Job job;
    };

    bool has_thread();
    void run();
    void perform(Entry entry);
    void keep(Error error);

    const unsigned home_ = process_number();
    const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
    mutable std::mutex lock_;
    std::condition_variable arrived_;
    std::deque<Entry> entries_;
    std::uint64_t submitted_ = 0;
    bool stops_ = false;
    std::optional<Error> error_;
    bool is_told_ = false;
    std::thread thread_;
};

}  // namespace heddle::sim
