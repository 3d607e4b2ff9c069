#include "sched/submit/run.hpp"

#include <exception>

#include "heddle/exception.hpp"
#include "runtime/buffer.hpp"

namespace heddle::sched {

Run::Run(RunState& state, const Team& team, const GraphIndex& index, Splits& splits,
         const Program& program, const RunOptions& options)
    : state_(state),
      team_(team),
      index_(index),
      splits_(splits),
      program_(program),
      options_(options) {}

// ---- beginning and end -------------------------------------------------------------------------

Result<> Run::begin() {
    HEDDLE_TRY_ASSIGN(wired_, wire(index_, splits_, options_.slot));
    overlaps_ = program_.overlaps_runs && splits_.detours.empty();
    Prepared& prepared = state_.prepared;
    if (prepared.serial != program_.serial) {
        prepared = prepare(index_, splits_, program_, team_, std::move(prepared));
    }
    if (overlaps_ && prepared.memory_serial != program_.memory_serial) {
        prepared.footprints = footprints_of(index_, splits_, program_, team_, *wired_);
        prepared.memory_serial = program_.memory_serial;
    }
    by_two_ = prepared.can_use_threads && options_.observer == nullptr && !options_.synchronous;
    state_.experts.begin_run();
    if (options_.timings != nullptr) {
        watch_.emplace(*options_.timings, program_.actions.size());
    }
    RunnerId culprit = kNoRunner;
    auto begun = state_.queues.begin_run(prepared.used, options_.slot, culprit);
    if (!begun) fail(begun.error(), culprit);
    return begun;
}

Result<> Run::submit() {
    HEDDLE_TRY(begin());
    if (by_two_) {
        submit_by_two();
    } else {
        submit_all_of(Side::both);
    }
    state_.queues.note_touched(state_.prepared.footprints);
    if (!failure_) {
        if (auto finished = finish(); !finished) fail(std::move(finished).error(), kNoRunner);
    }
    for (Buffer* const buffer : wired_->written()) note_write(*buffer);
    if (failure_) return failure_->error;
    return ok();
}

Result<> Run::finish() {
    for (const std::int32_t taker : state_.prepared.takers) {
        const auto i = static_cast<std::size_t>(taker);
        if (auto taken = wait_on_host(state_.prepared.marks[i]); !taken) {
            fail(taken.error(), program_.actions[i].runner);
            return taken;
        }
    }
    RunnerId culprit = kNoRunner;
    auto ended = state_.queues.end_run(options_.slot, culprit);
    if (!ended) fail(ended.error(), culprit);
    if (watch_) watch_->finish();
    return ended;
}

void Run::fail(Error error, RunnerId culprit, RunnerId suspect) {
    const std::lock_guard guard(lock_);
    if (!failure_) failure_ = Failure{std::move(error), culprit, suspect};
}

/// The runner a copy comes from, if it works in the background as well.
RunnerId Run::other_end(const Action& action) const {
    if (action.kind != Action::Kind::copy) return kNoRunner;
    const RunnerId from = splits_.copies[static_cast<std::size_t>(action.index)].from;
    if (from == kNoRunner || from == action.runner || state_.queues.blocks(from)) return kNoRunner;
    return from;
}

// ---- one after the other -----------------------------------------------------------------------

void Run::submit_by_two() {
    state_.progress.begin(program_.actions.size());
    try {
        state_.helper.begin([this] { submit_all_of(Side::blocking); });
    } catch (const std::exception&) {
        return submit_all_of(Side::both);  // there is no thread to be had: slower, not wrong
    }
    submit_all_of(Side::background);
    state_.helper.join();
}

/// Lets no exception out: the other thread has to be told, and what is under way waited for.
void Run::submit_all_of(Side side) {
    try {
        submit_side(side);
    } catch (...) {
        fail(current_exception_as_error(), kNoRunner);
        state_.progress.stop();
    }
}

void Run::submit_side(Side side) {
    const auto count = static_cast<std::int32_t>(program_.actions.size());
    for (std::int32_t i = 0; i < count; ++i) {
        const Action& action = program_.actions[static_cast<std::size_t>(i)];
        if (side != Side::both) {
            if (blocks(action) != (side == Side::blocking)) continue;
            if (!take_turn(action)) return;
        }
        if (auto done = perform(i); !done) {
            fail(std::move(done).error(), action.runner, other_end(action));
            if (side != Side::both) state_.progress.stop();
            return;
        }
        if (side != Side::both && (action.awaited || blocks(action))) state_.progress.done(i);
    }
}

/// Until the other thread has done what the action waits for; false if it stopped.
bool Run::take_turn(const Action& action) {
    for (std::uint32_t w = action.first_wait; w < action.last_wait; ++w) {
        const Action& other = program_.actions[static_cast<std::size_t>(waits()[w])];
        if (blocks(other) != blocks(action) && !state_.progress.wait(waits()[w])) return false;
    }
    return true;
}

Result<> Run::perform(std::int32_t number) {
    const Action& action = program_.actions[static_cast<std::size_t>(number)];
    if (action.kind == Action::Kind::copy && is_up_to_date(action)) return skip(number, action);
    if (state_.queues.enter(action.runner, action.queue)) {
        HEDDLE_TRY(wait_for_last_run(action.runner, action.queue));
    }
    HEDDLE_TRY(wait_for_others(action, action.runner, action.queue));
    const bool is_blocking = blocks(action);
    if (watch_ && is_blocking) {
        watch_->begin(number);
    } else if (watch_) {
        HEDDLE_TRY(watch_->before(number, team_[action.runner], stream_of(action)));
    }
    HEDDLE_TRY(do_it(action));
    if (is_blocking) {
        if (watch_) watch_->end(number);
        return ok();
    }
    if (watch_) HEDDLE_TRY(watch_->after(number, stream_of(action)));
    const auto i = static_cast<std::size_t>(number);
    if (state_.prepared.is_marked[i] != 0) {
        HEDDLE_TRY(set(state_.prepared.marks[i], stream_of(action)));
    }
    if (options_.synchronous) return heddle::finish(stream_of(action));
    return ok();
}

/// For a copy whose bytes are in place. What waits for it relies on what it waits for as well,
/// and on what comes before it in its queue.
Result<> Run::skip(std::int32_t number, const Action& action) {
    ++state_.copies_skipped;
    if (watch_) watch_->skip(number);
    const auto i = static_cast<std::size_t>(number);
    const bool has_waits = action.first_wait != action.last_wait;
    if (!has_waits && !state_.queues.has_entered(action.runner, action.queue)) return ok();
    HEDDLE_TRY(wait_for_others(action, action.runner, action.queue));
    if (state_.prepared.is_marked[i] == 0 || blocks(action)) return ok();
    return set(state_.prepared.marks[i], stream_of(action));
}

Result<> Run::do_it(const Action& action) {
    switch (action.kind) {
        case Action::Kind::copy:
            return copy(action);
        case Action::Kind::compute:
            return compute(action);
        case Action::Kind::write_back:
            return write_back(action);
    }
    return ok();
}

// ---- waiting -----------------------------------------------------------------------------------

Result<> Run::wait_for_others(const Action& action, RunnerId runner, Queue queue) {
    for (std::uint32_t w = action.first_wait; w < action.last_wait; ++w) {
        const auto i = static_cast<std::size_t>(waits()[w]);
        if (blocks(program_.actions[i])) continue;  // it was done when it was submitted
        HEDDLE_TRY(state_.queues.wait(runner, queue, state_.prepared.marks[i]));
    }
    return ok();
}

/// For the first action of a queue.
Result<> Run::wait_for_last_run(RunnerId runner, Queue queue) {
    if (!overlaps_) return state_.queues.wait_for_all(runner, queue);
    if (state_.queues.is_new_to(runner, queue, program_.serial)) {
        const Footprint& own = state_.prepared.footprints[number_of(runner, queue)];
        return state_.queues.wait_for_conflicts(runner, queue, own);
    }
    if (queue == Queue::compute) {
        // It writes what the last run's copies may still be reading.
        for (const Prepared::CopyOut& out : state_.prepared.copies_out) {
            if (out.runner != runner) continue;
            const auto i = static_cast<std::size_t>(out.action);
            HEDDLE_TRY(state_.queues.wait(runner, queue, state_.prepared.marks[i]));
        }
    }
    if (queue == Queue::upload || queue == Queue::exchange) {
        return state_.queues.wait_for_slot(runner, queue, runner, options_.slot);
    }
    return ok();
}

}  // namespace heddle::sched
