#pragma once

#include <cstdint>
#include <vector>

#include "runtime/event.hpp"
#include "runtime/stream.hpp"
#include "sched/submit/footprint.hpp"

/// The streams behind the queues, and how one waits for another.
namespace heddle::sched {

/// A place in a stream that others wait for. Set again it only moves on in the same stream.
struct Mark {
    OwnedEvent event;          ///< null where the device has none: the whole stream is waited for
    Stream* stream = nullptr;  ///< where it was set; null: never, and nothing waits
};

/// A mark for streams of `runner`, not set yet.
Mark make_mark(const Runner& runner);

/// At the end of what is queued on `stream` now.
Result<> set(Mark& mark, Stream& stream);

/// Returns when the mark is reached. Any thread may call it if the mark has an event.
Result<> wait_on_host(const Mark& mark);

/// Lets later work of `stream` wait. The host waits instead where the two know nothing of each
/// other.
Result<> wait_in(Stream& stream, const Mark& mark);

/// Takes from the backend what it keeps to itself until it is next given a graph: a failure that
/// could not be told. It belongs to a run that has failed already. Says whether the stream was told
/// to stop.
bool take_old_failure(Stream& stream);

/// `kQueues` for each runner; those for copies are started when they are first needed.
class Queues {
public:
    explicit Queues(const Team& team);

    std::size_t count() const { return states_.size(); }

    /// What is given to the runner is done when the call returns.
    bool blocks(RunnerId runner) const { return !team_[runner].is_async; }

    /// Where actions of the queue go: to the runner's own stream where it has no other. Something
    /// is going to be queued there.
    Stream& stream(RunnerId runner, Queue queue);

    /// Lets the queue's next action wait for the mark.
    Result<> wait(RunnerId runner, Queue queue, const Mark& mark);

    // ---- from run to run -----------------------------------------------------------------------

    /// Notes how far everything has come that was queued so far, also by others on the runners'
    /// own streams. `used` has one flag for each runner: the others are not looked at unless they
    /// were given something before. Takes what memory the end of the run needs, so that no run
    /// fails that is done.
    Result<> begin_run(const std::vector<std::uint8_t>& used, int slot, RunnerId& culprit);

    /// Whether it is the first time in this run.
    bool enter(RunnerId runner, Queue queue);
    bool has_entered(RunnerId runner, Queue queue) const {
        return states_[number_of(runner, queue)].is_used;
    }

    /// Lets the queue wait for all that was queued before this run.
    Result<> wait_for_all(RunnerId runner, Queue queue);

    /// Lets the queue wait for what was queued on the own stream of `other` before this run.
    Result<> wait_for_own(RunnerId runner, Queue queue, RunnerId other);

    /// Lets the queue wait for the last run that used `slot` on `reader`.
    Result<> wait_for_slot(RunnerId runner, Queue queue, RunnerId reader, int slot);

    /// Whether nothing of the program with this serial has waited in the queue for other programs'
    /// runs; from here on something has.
    bool is_new_to(RunnerId runner, Queue queue, std::uint64_t serial);

    /// Lets the queue wait for those that were given something before this run which touches the
    /// same memory as `own`, or may.
    Result<> wait_for_conflicts(RunnerId runner, Queue queue, const Footprint& own);

    /// Notes what the run that is submitted touches, by number of the queue; nothing: it may be
    /// anything.
    void note_touched(const std::vector<Footprint>& footprints);

    /// Notes that the run ends here that began with `slot`.
    Result<> end_run(int slot, RunnerId& culprit);

    /// Waits for all queues, even if one fails: the first failure is returned. With `own`, also for
    /// the streams of runners that were given nothing.
    Result<> finish_all(bool own, RunnerId& culprit);

    /// Of all streams of runners that take part. A stream for copies is given no graph, and would
    /// keep its failure for ever. Says whether one was told to stop.
    bool take_old_failures();

    /// Tries again to start streams that could not be had.
    void forget_refusals();

private:
    struct State {
        Stream* stream = nullptr;
        OwnedStream started;
        Mark tail;                 ///< where it stood when the run began
        bool is_used = false;      ///< in this run
        bool is_busy = false;      ///< given something since it was last waited for
        Footprint touched;         ///< by all that is under way
        std::uint64_t serial = 0;  ///< of the last program that waited for others
    };

    const Team& team_;
    std::vector<State> states_;
    std::vector<std::vector<Mark>> slot_tails_;  ///< of each slot and runner
    bool knows_touched_ = true;                  ///< `touched` is known of all that is under way
};

}  // namespace heddle::sched
