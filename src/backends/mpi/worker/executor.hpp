#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/mpi/worker/driver.hpp"
#include "backends/mpi/worker/stream_threads.hpp"
#include "ggml-cpp.h"

namespace heddle::mpi {

/// A stream of a worker: its commands one after the other, on one thread at a time. After a failure
/// commands are skipped until rank 0 knows of it; so are those that it is told to stop.
class Executor : public std::enable_shared_from_this<Executor> {
public:
    struct Job {
        std::uint64_t place = 0;
        std::function<Result<>()> run{};
        std::function<void(const Error&)> skip{};  ///< in its place, if something failed before
        bool runs_on = false;  ///< on a device that may still be at it afterwards
        bool resumes = false;
        std::size_t bytes = 0;  ///< of the message it came with
        Kind kind = Kind::none;
        std::uint32_t transfer = 0;  ///< if it is one between workers
    };

    /// What a worker has for all of its streams.
    struct Surroundings {
        Outbox& outbox;
        Driver& driver;
        StreamThreads& threads;
    };

    /// `stream` may be empty: then there are copies only.
    Executor(const Surroundings& surroundings, std::uint32_t number, std::size_t device,
             ggml_backend_ptr stream)
        : outbox_(surroundings.outbox),
          driver_(surroundings.driver),
          threads_(surroundings.threads),
          number_(number),
          device_(device),
          stream_(std::move(stream)) {}
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    std::uint32_t number() const { return number_; }
    std::size_t device() const { return device_; }
    ggml_backend_t stream() const { return stream_.get(); }

    /// Fails unless its place is the next one: else a command before it was lost on the way.
    Result<> submit(Job job);

    /// What is not done yet up to `place` fails, and so does what is being done, if the device can
    /// be told to stop. For any thread.
    void stop_up_to(std::uint64_t place);
    /// `owner`, which the stream is of, is to ask whether to stop. Not all devices do.
    void let_device_ask(ggml_backend_dev_t owner);

    /// Calls `then`, once, when all up to `place` is done; now if it is. It is given the failure
    /// that the stream is in, or ok.
    using Then = std::function<void(const Result<>&)>;
    void when_done(std::uint64_t place, Then then);

    /// Until all up to `place` is done; not any longer once it is abandoned. Fails if the stream
    /// has: what waits for it would find what was there before.
    Result<> wait_for(std::uint64_t place);

    /// Keeps spans of what it does from now on, or no longer; forgets those it has.
    void set_tracing(bool on);
    std::vector<Span> spans() const;

    /// On one of the threads, after it was offered to them: does what is in the queue.
    void work();

    /// No more will come; it ends with what it has.
    void retire();
    bool has_ended() const;

    /// Nothing needs to wait for it any more: the worker leaves. What is in the queue is not done,
    /// and the device is told to stop.
    void abandon();

private:
    struct Watcher {
        std::uint64_t place = 0;
        Then then;
    };

    void perform(Job job);
    /// Calls `run` of the job, unless it is to be stopped.
    Result<> attempt(const Job& job);
    void skip(const Job& job, const Error& error);
    bool is_stopped(std::uint64_t place) const { return place <= stopped_; }
    bool next_runs_on() const;
    /// Until the device has done what it was given.
    Result<> finish_device();
    void advance(std::uint64_t place);
    void report(std::uint64_t place);
    void keep_span(Span span);

    Outbox& outbox_;
    Driver& driver_;
    StreamThreads& threads_;
    const std::uint32_t number_;
    const std::size_t device_;
    const ggml_backend_ptr stream_;
    mutable std::mutex lock_;
    std::deque<Job> jobs_;
    std::vector<Watcher> watchers_;
    std::uint64_t submitted_ = 0, done_ = 0;  ///< places
    Result<> state_ = ok();                   ///< `failure_`, for other threads
    std::deque<Span> spans_;
    std::atomic<bool> traces_{false};
    std::atomic<std::uint64_t> stopped_{0};  ///< up to this place nothing more is to be done
    std::atomic<std::uint64_t> running_{0};  ///< place of the job that was begun last
    bool is_offered_ = false;                ///< a thread has it, or is about to
    bool stops_ = false, ended_ = false, abandoned_ = false;
    // Of the thread that has it.
    std::optional<Error> failure_;
};

}  // namespace heddle::mpi
