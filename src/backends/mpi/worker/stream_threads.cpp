#include "backends/mpi/worker/stream_threads.hpp"

#include "backends/mpi/worker/executor.hpp"
#include "heddle/backend/guard.hpp"
#include "heddle/heddle.h"

namespace heddle::mpi {

void StreamThreads::make_enough(std::size_t streams) {
    const NoPipeSignal guard_of_threads;
    while (threads_.size() < streams) threads_.emplace_back([this] { work(); });
}

void StreamThreads::offer(std::shared_ptr<Executor> stream) {
    {
        const std::lock_guard guard(lock_);
        ready_.push_back(std::move(stream));
    }
    // This thread takes it itself as soon as it has dealt with the message.
    if (!driver_.is_idle_handler()) driver_.wake_idle();
}

void StreamThreads::go_on_without_this_one() {
    {
        const std::lock_guard guard(lock_);
        if (ready_.empty()) return;
    }
    driver_.wake_idle();
}

void StreamThreads::work() {
    heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN);
    std::shared_ptr<Executor> stream;
    const auto take = [&] {
        const std::lock_guard guard(lock_);
        if (ready_.empty()) return false;
        stream = std::move(ready_.front());
        ready_.pop_front();
        return true;
    };
    const auto done = plugin::attempt([&] {
        while (driver_.wait_for_work(take)) {
            stream->work();
            stream.reset();
        }
    });
    if (!done) driver_.drop_out(done.error());
}

void StreamThreads::end() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    const std::lock_guard guard(lock_);
    ready_.clear();
}

}  // namespace heddle::mpi
