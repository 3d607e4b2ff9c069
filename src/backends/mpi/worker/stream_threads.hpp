#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/mpi/worker/driver.hpp"

namespace heddle::mpi {

class Executor;

/// Threads that do the work of streams: as many as there are streams, so that each can have one.
/// A stream has none of its own. The thread that takes in a message does what it asks for itself,
/// whichever stream that is for: to wake another one takes longer than most commands.
class StreamThreads {
public:
    explicit StreamThreads(Driver& driver) : driver_(driver) {}
    ~StreamThreads() { end(); }
    StreamThreads(const StreamThreads&) = delete;
    StreamThreads& operator=(const StreamThreads&) = delete;

    /// There are so many streams now.
    void make_enough(std::size_t streams);

    /// A stream has something to do, and is in no thread's hands.
    void offer(std::shared_ptr<Executor> stream);

    /// This thread, which does the work of a stream, may be busy for long.
    void go_on_without_this_one();

    /// Threads end with the command that they are at. The driver has been stopped before.
    void end();

private:
    void work();

    Driver& driver_;
    std::mutex lock_;
    std::deque<std::shared_ptr<Executor>> ready_;
    std::vector<std::thread> threads_;
};

}  // namespace heddle::mpi
