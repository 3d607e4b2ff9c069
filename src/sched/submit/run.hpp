#pragma once

#include <memory>
#include <optional>

#include "sched/submit/run_state.hpp"
#include "sched/submit/submit.hpp"
#include "sched/submit/watch.hpp"

namespace heddle::sched {

/// One run of a program: every action once.
class Run {
public:
    Run(RunState& state, const Team& team, const GraphIndex& index, Splits& splits,
        const Program& program, const RunOptions& options);

    /// Submits everything; stops at the first failure, with work still under way.
    Result<> submit();

    /// Whose device failed, if one did.
    RunnerId culprit() const { return failure_ ? failure_->culprit : kNoRunner; }

    /// Who else could have been the one: a copy has two ends.
    RunnerId suspect() const { return failure_ ? failure_->suspect : kNoRunner; }

private:
    struct Failure {
        Error error;
        RunnerId culprit;
        RunnerId suspect;
    };
    enum class Side { both, background, blocking };

    // ---- run.cpp -------------------------------------------------------------------------------
    Result<> begin();
    Result<> finish();
    void submit_side(Side side);
    void submit_by_two();
    void submit_all_of(Side side);
    void fail(Error error, RunnerId culprit, RunnerId suspect = kNoRunner);
    RunnerId other_end(const Action& action) const;
    Result<> perform(std::int32_t number);
    Result<> skip(std::int32_t number, const Action& action);
    Result<> do_it(const Action& action);
    Result<> wait_for_others(const Action& action, RunnerId runner, Queue queue);
    Result<> wait_for_last_run(RunnerId runner, Queue queue);
    bool take_turn(const Action& action);

    // ---- run_compute.cpp -----------------------------------------------------------------------
    Result<> compute(const Action& action);
    Result<> compute_part(const Action& action, Graph& part);
    Result<bool> ask_observer(Tensor& node, bool ask) const;
    Result<> observe(const Action& action, const Split& split);
    Result<> write_back_now(const Split& split, std::int32_t position);
    Result<> fetch(const Split& split);

    // ---- run_copy.cpp --------------------------------------------------------------------------
    bool is_up_to_date(const Action& action) const;
    std::uint64_t generation_of(const Tensor& constant) const;
    Result<> copy(const Action& action);
    Result<> copy_into(const Action& action, const Copy& copy, const Tensor& source,
                       Tensor& target);
    Result<> copy_experts(const Action& action, const Tensor& source, Tensor& target,
                          const Prepared::Choosing& choosing);
    Result<> write_back(const Action& action);

    bool blocks(const Action& action) const { return state_.queues.blocks(action.runner); }
    Stream& stream_of(const Action& action) {
        return state_.queues.stream(action.runner, action.queue);
    }
    const std::vector<std::int32_t>& waits() const { return program_.waits; }

    RunState& state_;
    const Team& team_;
    const GraphIndex& index_;
    Splits& splits_;
    const Program& program_;
    const RunOptions& options_;
    WiredGraph* wired_ = nullptr;  ///< what backends are given
    bool overlaps_ = false;        ///< the last run may still go on
    bool by_two_ = false;          ///< blocking runners have a thread of their own
    std::optional<Watch> watch_;
    std::mutex lock_;  ///< of the failure
    std::optional<Failure> failure_;
};

}  // namespace heddle::sched
