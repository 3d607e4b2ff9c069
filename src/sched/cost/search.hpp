#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/cost/graph.hpp"

namespace heddle::sched {

/// How good an assignment is: less is better, the first that differs decides.
struct Score {
    double overflow = 0;  ///< bytes above the limits
    double seconds = 0;
    double busy = 0;  ///< when each runner is free again, added up: tells equals apart

    bool better_than(const Score& other) const;
};

/// Looks for the assignment that is done first. Begins with several simple ones, then moves runs of
/// units from runner to runner as long as that helps; for small graphs it tries all that could be
/// better. The effort is bounded, in proportion to the size of the graph.
class CostSearch {
public:
    /// `limits` are bytes for each runner, infinity where there is none.
    CostSearch(const CostGraph& graph, const CostModel& model, std::vector<double> limits);

    /// The best that was found, at least as good as `rules`.
    Assignment run(const Assignment& rules);

    Score score(const Assignment& assignment);

private:
    struct Candidate {
        Assignment assignment;
        Score score;
    };
    /// Units [begin, end) go to `runner`, as far as they can.
    struct Move {
        UnitId begin = 0, end = 0;
        RunnerId runner = kNoRunner;
    };

    void consider(const Assignment& assignment);
    double overflow(const Assignment& assignment);
    RunnerId runner_at(std::size_t i) const { return static_cast<RunnerId>(i); }

    Assignment all_on(RunnerId runner, const Assignment& rules) const;
    Assignment earliest_ends(const Assignment& rules);

    bool apply(Assignment& assignment, const Move& move);
    void undo(Assignment& assignment);
    void improve(Candidate& candidate);
    bool sweep_large(Candidate& candidate);
    bool sweep(Candidate& candidate);
    bool try_whole(Candidate& candidate, const Move& move, const Clock::Mark& mark);
    bool try_nearby(Candidate& candidate, const Move& move, const Clock::Mark& mark);
    void look_ahead(const Assignment& assignment, UnitId begin, UnitId end);
    void repair(Candidate& candidate);
    void try_all(Candidate& best);
    void try_from(UnitId unit, Candidate& best, Assignment& assignment);
    void find_tails();

    const CostGraph& graph_;
    const CostModel& model_;
    const std::vector<double> limits_;
    const bool is_limited_;
    const UnitId units_;
    const std::size_t runners_;
    Clock clock_;
    std::vector<Candidate> candidates_;
    std::vector<std::pair<UnitId, RunnerId>> undo_;
    std::int64_t steps_left_;  ///< units that may still be run on the clock

    struct Ahead {
        double latest, busy;
    };
    std::vector<Ahead> ahead_;  ///< after each unit from `ahead_begin_` on, as things are
    UnitId ahead_begin_ = 0;

    std::vector<double> tails_;       ///< least time from the end of a unit to that of all
    std::vector<double> least_work_;  ///< least work of a unit and all after it
    std::vector<Clock::Mark> marks_;
};

/// The least time if one thing is done after the other: best for chains.
Assignment best_in_line(const CostGraph& graph, const CostModel& model, const Assignment& rules);

}  // namespace heddle::sched
