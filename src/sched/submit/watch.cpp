#include "sched/submit/watch.hpp"

#include <algorithm>

#include "runtime/device.hpp"

namespace heddle::sched {
namespace {

/// How the queues of `runner` are asked; null if they cannot answer.
heddle_queue_span_t question_of(const Runner& runner) {
    if (runner.device == nullptr || runner.device->reg == nullptr) return nullptr;
    return reinterpret_cast<heddle_queue_span_t>(
        find_function(*runner.device->reg, HEDDLE_QUEUE_SPAN));
}

}  // namespace

Watch::Watch(std::vector<Timing>& timings, std::size_t actions) : timings_(timings) {
    timings_.assign(actions, {});
    for (std::size_t i = 0; i < actions; ++i) {
        timings_[i].action = static_cast<std::int32_t>(i);
        timings_[i].began = std::chrono::duration<double>(began_.time_since_epoch()).count();
    }
    items_.reserve(actions);
}

double Watch::now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

// ---- what blocks -------------------------------------------------------------------------------

void Watch::begin(std::int32_t action) { of(action).submitted = of(action).start = now(); }

void Watch::end(std::int32_t action) {
    of(action).end = now();
    of(action).known = true;
}

void Watch::skip(std::int32_t action) {
    begin(action);
    of(action).end = of(action).start;
    of(action).skipped = of(action).known = true;
}

// ---- what works in the background --------------------------------------------------------------

Result<> Watch::before(std::int32_t action, const Runner& runner, Stream& stream) {
    current_ = Item{action, make_mark(runner), make_mark(runner), question_of(runner)};
    const bool has_events = current_.begin.event != nullptr && current_.end.event != nullptr;
    if (current_.ask != nullptr && has_events) {
        of(action).submitted = now();
        return set(current_.begin, stream);
    }
    current_.ask = nullptr;
    HEDDLE_TRY(heddle::finish(stream));
    begin(action);
    return ok();
}

Result<> Watch::after(std::int32_t action, Stream& stream) {
    if (current_.ask == nullptr) {
        HEDDLE_TRY(heddle::finish(stream));
        end(action);
        return ok();
    }
    HEDDLE_TRY(set(current_.end, stream));
    items_.push_back(std::move(current_));
    return ok();
}

void Watch::ask_for(const Item& item) noexcept {
    double begin = 0, end = 0;
    if (!item.ask(item.begin.event.get(), item.end.event.get(), &begin, &end)) return;
    const double zero = std::chrono::duration<double>(began_.time_since_epoch()).count();
    Timing& timing = of(item.action);
    timing.start = std::max(timing.submitted, begin - zero);  // nothing to do: when it was given
    timing.end = std::max(timing.start, end - zero);
    timing.known = true;
}

void Watch::finish() noexcept {
    for (const Item& item : items_) ask_for(item);
    items_.clear();
}

}  // namespace heddle::sched
