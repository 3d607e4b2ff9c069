#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "sched/submit/experts.hpp"
#include "sched/submit/prepared.hpp"

namespace heddle::sched {

/// How far the two threads of a run have come, for each other.
class Progress {
public:
    void begin(std::size_t actions);
    void done(std::int32_t action);

    /// Until the other one has done it; false if the run was stopped.
    bool wait(std::int32_t action);
    void stop();

private:
    std::mutex lock_;
    std::condition_variable changed_;
    std::vector<std::uint8_t> is_done_;
    bool is_stopped_ = false;
};

/// A thread that does one job at a time. It begins with the first.
class Helper {
public:
    Helper() = default;
    ~Helper();
    Helper(const Helper&) = delete;
    Helper& operator=(const Helper&) = delete;

    void begin(std::function<void()> job);
    void join();  ///< until the job is done

private:
    void work();

    std::mutex lock_;
    std::condition_variable changed_;
    std::function<void()> job_;
    bool has_job_ = false, stops_ = false;
    std::thread thread_;
};

/// What a Submitter keeps from run to run.
class RunState {
public:
    explicit RunState(const Team& team) : queues(team) {}

    Queues queues;
    Prepared prepared;
    ChosenExperts experts;
    std::vector<ByteRange> ranges;
    Progress progress;
    Helper helper;

    std::uint64_t failures = 0;  ///< copies of constants from before the last one are not trusted
    std::atomic<std::uint64_t> copies_made = 0, copies_skipped = 0;
};

}  // namespace heddle::sched
