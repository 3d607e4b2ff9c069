#include "sched/submit/lanes.hpp"

#include "runtime/device.hpp"

namespace heddle::sched {

// ---- marks -------------------------------------------------------------------------------------

Mark make_mark(const Runner& runner) {
    Mark mark;
    if (runner.is_async && runner.has_events) mark.event.reset(make_event(*runner.device));
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

// ---- lanes -------------------------------------------------------------------------------------

Lanes::Lanes(const Team& team) : team_(team), queues_(team.size() * 3) {}

Stream& Lanes::stream(RunnerId runner, Lane lane) {
    Queue& queue = queues_[number(runner, lane)];
    if (queue.stream == nullptr) {
        const Runner& owner = team_[runner];
        queue.stream = owner.stream;
        if (lane != Lane::compute && owner.is_async && owner.has_events) {
            // Without a stream of its own the lane is slower, not wrong.
            if (auto started = start_stream(*owner.device, nullptr)) {
                queue.started.reset(*started);
                queue.stream = *started;
            }
        }
    }
    queue.is_busy = true;
    return *queue.stream;
}

Result<> Lanes::wait(RunnerId runner, Lane lane, const Mark& mark) {
    if (blocks(runner)) return wait_on_host(mark);
    return wait_in(stream(runner, lane), mark);
}

Result<> Lanes::begin_run(const std::vector<std::uint8_t>& used, int slot, RunnerId& culprit) {
    while (slot_tails_.size() <= static_cast<std::size_t>(slot)) {
        std::vector<Mark> tails;  // kept when there is one for each: memory may run out before
        for (const Runner& runner : team_.runners()) tails.push_back(make_mark(runner));
        slot_tails_.push_back(std::move(tails));
    }
    for (RunnerId id = 0; id < static_cast<RunnerId>(team_.size()); ++id) {
        for (const Lane lane : {Lane::compute, Lane::upload, Lane::download}) {
            Queue& queue = queues_[number(id, lane)];
            queue.is_used = false;
            if (blocks(id)) continue;
            const bool is_own = lane == Lane::compute && used[static_cast<std::size_t>(id)] != 0;
            if (!queue.is_busy && !is_own) {
                queue.tail.stream = nullptr;
                continue;
            }
            // Here and not when the stream is started: two threads may be submitting then.
            if (queue.tail.event == nullptr) queue.tail = make_mark(team_[id]);
            culprit = id;
            HEDDLE_TRY(set(queue.tail, stream(id, lane)));
        }
    }
    culprit = kNobody;
    return ok();
}

bool Lanes::enter(RunnerId runner, Lane lane) {
    Queue& queue = queues_[number(runner, lane)];
    if (queue.is_used) return false;
    queue.is_used = true;
    return true;
}

Result<> Lanes::wait_for_all(RunnerId runner, Lane lane) {
    const std::size_t own = number(runner, lane);
    for (std::size_t i = 0; i < queues_.size(); ++i) {
        if (i != own) HEDDLE_TRY(wait(runner, lane, queues_[i].tail));
    }
    return ok();
}

Result<> Lanes::wait_for_own(RunnerId runner, Lane lane, RunnerId other) {
    return wait(runner, lane, queues_[number(other, Lane::compute)].tail);
}

Result<> Lanes::wait_for_slot(RunnerId runner, Lane lane, RunnerId reader, int slot) {
    const auto index = static_cast<std::size_t>(slot);
    if (index >= slot_tails_.size()) return ok();
    return wait(runner, lane, slot_tails_[index][static_cast<std::size_t>(reader)]);
}

Result<> Lanes::end_run(int slot, RunnerId& culprit) {
    const auto index = static_cast<std::size_t>(slot);
    for (RunnerId id = 0; id < static_cast<RunnerId>(team_.size()); ++id) {
        const Queue& queue = queues_[number(id, Lane::compute)];
        if (blocks(id) || !queue.is_used) continue;
        culprit = id;
        HEDDLE_TRY(set(slot_tails_[index][static_cast<std::size_t>(id)], *queue.stream));
    }
    culprit = kNobody;
    return ok();
}

void Lanes::forget_refusals() {
    for (RunnerId id = 0; id < static_cast<RunnerId>(team_.size()); ++id) {
        for (const Lane lane : {Lane::upload, Lane::download}) {
            Queue& queue = queues_[number(id, lane)];
            if (queue.started == nullptr) queue.stream = nullptr;
        }
    }
}

Result<> Lanes::finish_all(bool own, RunnerId& culprit) {
    Result<> outcome = ok();
    for (RunnerId id = 0; id < static_cast<RunnerId>(team_.size()); ++id) {
        for (const Lane lane : {Lane::compute, Lane::upload, Lane::download}) {
            Queue& queue = queues_[number(id, lane)];
            const bool is_wanted = queue.is_busy || (own && lane == Lane::compute);
            queue.is_busy = false;
            queue.tail.stream = nullptr;
            if (!is_wanted) continue;
            Stream& stream = queue.stream != nullptr ? *queue.stream : *team_[id].stream;
            auto finished = finish(stream);
            if (finished || !outcome) continue;
            culprit = id;
            outcome = std::move(finished).error().within(team_[id].name);
        }
    }
    return outcome;
}

}  // namespace heddle::sched
