#pragma once

#include <chrono>
#include <vector>

#include "heddle/backend/trace.h"
#include "sched/submit/queues.hpp"
#include "sched/submit/submit.hpp"

namespace heddle::sched {

/// Takes the times of a run where the work is done, never where an end is merely noticed.
///
/// What blocks is timed by the thread that does it. A queue that works in the background is asked
/// after the run (heddle_queue_span_t), so the run goes on as without a watch. One that cannot
/// answer is waited for before and after each action: nothing overlaps then, but the times are
/// true.
///
/// Actions of queues in the background belong to one thread, those that block to the same or to
/// another one.
class Watch {
public:
    Watch(std::vector<Timing>& timings, std::size_t actions);
    ~Watch() { finish(); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /// Around an action that blocks.
    void begin(std::int32_t action);
    void end(std::int32_t action);

    /// For a copy that was up to date.
    void skip(std::int32_t action);

    /// Around an action of `stream`, which works in the background. Its waits are queued already.
    Result<> before(std::int32_t action, const Runner& runner, Stream& stream);
    Result<> after(std::int32_t action, Stream& stream);

    /// Waits until all that was watched is done, and asks when that was.
    void finish() noexcept;

private:
    struct Item {
        std::int32_t action = 0;
        Mark begin, end;
        heddle_queue_span_t ask = nullptr;  ///< null: the stream is waited for instead
    };

    double now() const;
    Timing& of(std::int32_t action) { return timings_[static_cast<std::size_t>(action)]; }
    void ask_for(const Item& item) noexcept;

    const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::vector<Timing>& timings_;
    Item current_;             ///< of the action being submitted
    std::vector<Item> items_;  ///< whose queues are asked after the run
};

}  // namespace heddle::sched
