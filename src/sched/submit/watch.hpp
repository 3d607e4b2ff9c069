#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sched/submit/lanes.hpp"
#include "sched/submit/submit.hpp"

namespace heddle::sched {

/// Takes the times of a run. Each lane that works in the background has a thread that waits for its
/// actions one after the other, so that nobody who submits has to.
class Watch {
public:
    Watch(std::vector<Timing>& timings, const Program& program, std::size_t lanes);
    ~Watch() { finish(); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    double now() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    }
    Timing& of(std::int32_t action) { return timings_[static_cast<std::size_t>(action)]; }

    /// Around an action on `lane`, whose waits are queued already.
    Result<> before(std::int32_t action, const Runner& runner, Stream& stream);
    Result<> after(std::int32_t action, std::size_t lane, const Runner& runner, Stream& stream);

    /// Waits until all that was watched is done.
    void finish() noexcept;

private:
    struct Item {
        std::int32_t action = 0;
        Mark begin, end;
    };
    struct Watcher {
        std::mutex lock;
        std::condition_variable changed;
        std::deque<Item> items;
        bool is_closed = false;
        std::thread thread;
    };
    bool start_watcher(std::size_t lane);
    void follow(Watcher& watcher);
    void put_in_order() noexcept;

    const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::vector<Timing>& timings_;
    const Program& program_;
    Mark begin_;                                      ///< of the action being submitted
    std::vector<std::unique_ptr<Watcher>> watchers_;  ///< of each lane; null where there is nothing
    std::vector<double> followers_;  ///< of each lane: beginning of what follows; for the end
};

}  // namespace heddle::sched
