#pragma once

#include <condition_variable>
#include <mutex>

namespace heddle::misuse {

/// A place where one thread stays until another lets it go.
class Gate {
public:
    void pass() {
        std::unique_lock guard(lock_);
        is_there_ = true;
        changed_.notify_all();
        changed_.wait(guard, [&] { return is_open_; });
    }
    void wait_for_arrival() {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return is_there_; });
    }
    void open() {
        const std::lock_guard guard(lock_);
        is_open_ = true;
        changed_.notify_all();
    }

private:
    std::mutex lock_;
    std::condition_variable changed_;
    bool is_there_ = false, is_open_ = false;
};

}  // namespace heddle::misuse
