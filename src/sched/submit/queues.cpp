#include "sched/submit/queues.hpp"

#include <array>
#include <utility>

#include "runtime/device.hpp"

namespace heddle::sched {
namespace {

constexpr std::array kCopyQueues{Queue::upload, Queue::download, Queue::exchange};
constexpr std::array kAllQueues{Queue::compute, Queue::upload, Queue::download, Queue::exchange};

}  // namespace

// ---- marks -------------------------------------------------------------------------------------

Mark make_mark(const Runner& runner) {
    Mark mark;
    if (runner.is_async && runner.has_events) mark.event = make_event(*runner.device);
    return mark;
}

Result<> set(Mark& mark, Stream& stream) {
    mark.stream = &stream;
    if (mark.event == nullptr) return ok();
    return record(*mark.event, stream);
}

Result<> wait_on_host(const Mark& mark) {
    if (mark.stream == nullptr) return ok();
    if (mark.event == nullptr) return finish(*mark.stream);
    return synchronize(*mark.event);
}

Result<> wait_in(Stream& stream, const Mark& mark) {
    if (mark.stream == nullptr || mark.stream == &stream) return ok();
    if (mark.event == nullptr || stream.iface.event_wait == nullptr || stream.device == nullptr ||
        stream.device->iface.event_new != mark.event->device->iface.event_new) {
        return wait_on_host(mark);
    }
    return wait_for(stream, *mark.event);
}

bool take_old_failure(Stream& stream) {
    Graph nothing{};
    const auto taken = compute(stream, nothing);
    return !taken && taken.error().code == Errc::aborted;
}

// ---- queues -------------------------------------------------------------------------------------

Queues::Queues(const Team& team) : team_(team), states_(team.size() * kQueues) {}

Stream& Queues::stream(RunnerId runner, Queue queue) {
    State& state = states_[number_of(runner, queue)];
    if (state.stream == nullptr) {
        const Runner& owner = team_[runner];
        state.stream = owner.stream;
        if (queue != Queue::compute && owner.is_async && owner.has_events) {
            // Without a stream of its own the queue is slower, not wrong.
            if (auto started = start_stream(*owner.device, nullptr)) {
                state.started = *std::move(started);
                state.stream = state.started.get();
            }
        }
    }
    state.is_busy = true;
    return *state.stream;
}

Result<> Queues::wait(RunnerId runner, Queue queue, const Mark& mark) {
    if (blocks(runner)) return wait_on_host(mark);
    return wait_in(stream(runner, queue), mark);
}

Result<> Queues::begin_run(const std::vector<std::uint8_t>& used, int slot, RunnerId& culprit) {
    while (slot_tails_.size() <= static_cast<std::size_t>(slot)) {
        std::vector<Mark> tails;  // kept when there is one for each: memory may run out before
        for (const Runner& runner : team_.runners()) tails.push_back(make_mark(runner));
        slot_tails_.push_back(std::move(tails));
    }
    for (RunnerId id = 0; id < static_cast<RunnerId>(team_.size()); ++id) {
        for (const Queue queue : kAllQueues) {
            State& state = states_[number_of(id, queue)];
            state.is_used = false;
            if (blocks(id)) continue;
            const bool is_own = queue == Queue::compute && used[static_cast<std::size_t>(id)] != 0;
            if (!state.is_busy && !is_own) {
                state.tail.stream = nullptr;
                continue;
            }
            // Here and not when the stream is started: two threads may be submitting then.
            if (state.tail.event == nullptr) state.tail = make_mark(team_[id]);
            culprit = id;
            HEDDLE_TRY(set(state.tail, stream(id, queue)));
        }
    }
    culprit = kNoRunner;
    return ok();
}

bool Queues::enter(RunnerId runner, Queue queue) {
    State& state = states_[number_of(runner, queue)];
    if (state.is_used) return false;
    state.is_used = true;
    return true;
}

Result<> Queues::wait_for_all(RunnerId runner, Queue queue) {
    const std::size_t own = number_of(runner, queue);
    for (std::size_t i = 0; i < states_.size(); ++i) {
        if (i != own) HEDDLE_TRY(wait(runner, queue, states_[i].tail));
    }
    return ok();
}

Result<> Queues::wait_for_own(RunnerId runner, Queue queue, RunnerId other) {
    return wait(runner, queue, states_[number_of(other, Queue::compute)].tail);
}

Result<> Queues::wait_for_slot(RunnerId runner, Queue queue, RunnerId reader, int slot) {
    const auto index = static_cast<std::size_t>(slot);
    if (index >= slot_tails_.size()) return ok();
    return wait(runner, queue, slot_tails_[index][static_cast<std::size_t>(reader)]);
}

bool Queues::is_new_to(RunnerId runner, Queue queue, std::uint64_t serial) {
    return std::exchange(states_[number_of(runner, queue)].serial, serial) != serial;
}

Result<> Queues::wait_for_conflicts(RunnerId runner, Queue queue, const Footprint& own) {
    if (!knows_touched_) return wait_for_all(runner, queue);
    const std::size_t itself = number_of(runner, queue);
    for (std::size_t i = 0; i < states_.size(); ++i) {
        const Footprint& touched = states_[i].touched;
        // Callers may have queued something on streams of theirs since all was waited for.
        const bool is_callers = touched.empty() && i % kQueues == 0;
        if (i == itself || (!is_callers && !conflict(own, touched))) continue;
        HEDDLE_TRY(wait(runner, queue, states_[i].tail));
    }
    return ok();
}

void Queues::note_touched(const std::vector<Footprint>& footprints) {
    if (footprints.empty()) knows_touched_ = false;
    for (std::size_t i = 0; i < footprints.size(); ++i) merge(states_[i].touched, footprints[i]);
}

Result<> Queues::end_run(int slot, RunnerId& culprit) {
    const auto index = static_cast<std::size_t>(slot);
    for (RunnerId id = 0; id < static_cast<RunnerId>(team_.size()); ++id) {
        const State& state = states_[number_of(id, Queue::compute)];
        if (blocks(id) || !state.is_used) continue;
        culprit = id;
        HEDDLE_TRY(set(slot_tails_[index][static_cast<std::size_t>(id)], *state.stream));
    }
    culprit = kNoRunner;
    return ok();
}

bool Queues::take_old_failures() {
    bool was_stopped = false;
    for (RunnerId id = 0; id < static_cast<RunnerId>(team_.size()); ++id) {
        if (blocks(id) || !team_[id].available) continue;
        was_stopped |= take_old_failure(*team_[id].stream);
        for (const Queue queue : kCopyQueues) {
            const State& state = states_[number_of(id, queue)];
            if (state.started != nullptr) was_stopped |= take_old_failure(*state.started);
        }
    }
    return was_stopped;
}

void Queues::forget_refusals() {
    for (RunnerId id = 0; id < static_cast<RunnerId>(team_.size()); ++id) {
        for (const Queue queue : kCopyQueues) {
            State& state = states_[number_of(id, queue)];
            if (state.started == nullptr) state.stream = nullptr;
        }
    }
}

Result<> Queues::finish_all(bool own, RunnerId& culprit) {
    Result<> outcome = ok();
    knows_touched_ = true;
    for (RunnerId id = 0; id < static_cast<RunnerId>(team_.size()); ++id) {
        for (const Queue queue : kAllQueues) {
            State& state = states_[number_of(id, queue)];
            const bool is_wanted = state.is_busy || (own && queue == Queue::compute);
            state.is_busy = false;
            state.tail.stream = nullptr;
            state.touched.clear();
            if (!is_wanted) continue;
            Stream& stream = state.stream != nullptr ? *state.stream : *team_[id].stream;
            auto finished = finish(stream);
            if (finished || !outcome) continue;
            culprit = id;
            outcome = std::move(finished).error().within(team_[id].name);
        }
    }
    return outcome;
}

}  // namespace heddle::sched
