#include "sched/submit/watch.hpp"

#include <algorithm>
#include <system_error>

namespace heddle::sched {

namespace {

/// A failure is told to whoever waits for the stream.
void wait_quietly(const Mark& mark) noexcept {
    try {
        static_cast<void>(wait_on_host(mark));
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory for the sentence
    }
}

}  // namespace

Watch::Watch(std::vector<Timing>& timings, const Program& program, std::size_t lanes)
    : timings_(timings), program_(program), watchers_(lanes), followers_(lanes) {
    timings_.assign(program.actions.size(), {});
    for (std::size_t i = 0; i < timings_.size(); ++i) {
        timings_[i].action = static_cast<std::int32_t>(i);
    }
}

Result<> Watch::before(std::int32_t action, const Runner& runner, Stream& stream) {
    of(action).submitted = now();
    begin_ = make_mark(runner);
    return set(begin_, stream);
}

Result<> Watch::after(std::int32_t action, std::size_t lane, const Runner& runner, Stream& stream) {
    Item item{action, std::move(begin_), make_mark(runner)};
    const bool is_followed = item.begin.event != nullptr && item.end.event != nullptr &&
                             (watchers_[lane] != nullptr || start_watcher(lane));
    if (!is_followed) {
        Timing& timing = of(action);
        timing.start = timing.submitted;
        auto finished = heddle::finish(stream);
        timing.end = now();
        return finished;
    }
    HEDDLE_TRY(set(item.end, stream));
    Watcher& watcher = *watchers_[lane];
    const std::lock_guard guard(watcher.lock);
    watcher.items.push_back(std::move(item));
    watcher.changed.notify_one();
    return ok();
}

/// False where there is no thread to be had: then whoever submits waits.
bool Watch::start_watcher(std::size_t lane) {
    auto fresh = std::make_unique<Watcher>();
    try {
        fresh->thread = std::thread([this, &watcher = *fresh] { follow(watcher); });
    } catch (const std::system_error&) {
        return false;
    }
    watchers_[lane] = std::move(fresh);
    return true;
}

void Watch::follow(Watcher& watcher) {
    while (true) {
        Item item;
        {
            std::unique_lock guard(watcher.lock);
            watcher.changed.wait(guard,
                                 [&] { return watcher.is_closed || !watcher.items.empty(); });
            if (watcher.items.empty()) return;
            item = std::move(watcher.items.front());
            watcher.items.pop_front();
        }
        wait_quietly(item.begin);
        of(item.action).start = now();
        wait_quietly(item.end);
        of(item.action).end = now();
    }
}

/// Threads notice an end a little after it. What waited for it cannot have begun before, so its own
/// beginning, noticed earlier, is nearer to the truth.
void Watch::put_in_order() noexcept {
    std::ranges::fill(followers_, now());
    for (std::size_t i = timings_.size(); i-- > 0;) {
        const Action& action = program_.actions[i];
        Timing& timing = timings_[i];
        if (timing.skipped) continue;
        double& follower = followers_[Lanes::number(action.runner, action.lane)];
        timing.end = std::max(timing.submitted, std::min(timing.end, follower));
        timing.start = std::max(timing.submitted, std::min(timing.start, timing.end));
        follower = timing.start;
        for (std::uint32_t w = action.first_wait; w < action.last_wait; ++w) {
            Timing& other = timings_[static_cast<std::size_t>(program_.waits[w])];
            if (!other.skipped) other.end = std::min(other.end, timing.start);
        }
    }
}

void Watch::finish() noexcept {
    for (const auto& watcher : watchers_) {
        if (watcher == nullptr || !watcher->thread.joinable()) continue;
        {
            const std::lock_guard guard(watcher->lock);
            watcher->is_closed = true;
            watcher->changed.notify_one();
        }
        watcher->thread.join();
    }
    put_in_order();
}

}  // namespace heddle::sched
