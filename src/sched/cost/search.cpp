#include "sched/cost/search.hpp"

#include <algorithm>
#include <limits>

namespace heddle::sched {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSame = 1e-9;  // differences below this share are rounding

/// Up to this many units every move is timed to the end of the graph.
constexpr UnitId kWholeUnits = 192;
/// Beyond, so many units after the moved ones tell whether it helped.
constexpr UnitId kTail = 64;
/// Up to this many units all assignments are tried, as far as the effort allows.
constexpr UnitId kExhaustiveUnits = 20;
constexpr int kSweeps = 6;
constexpr std::size_t kStarts = 3;

bool is_smaller(double a, double b) { return a < b * (1 - kSame); }

}  // namespace

bool Score::better_than(const Score& other) const {
    if (overflow != other.overflow) return overflow < other.overflow;
    if (is_smaller(seconds, other.seconds)) return true;
    if (is_smaller(other.seconds, seconds)) return false;
    return is_smaller(busy, other.busy);
}

CostSearch::CostSearch(const CostGraph& graph, const CostModel& model, std::vector<double> limits)
    : graph_(graph),
      model_(model),
      limits_(std::move(limits)),
      is_limited_(std::any_of(limits_.begin(), limits_.end(),
                              [](double limit) { return limit != kInfinity; })),
      units_(graph.unit_count()),
      runners_(graph.runner_count()),
      clock_(graph, model),
      steps_left_(400'000 + std::int64_t{250} * units_ * static_cast<std::int64_t>(runners_ - 1)) {}

double CostSearch::overflow(const Assignment& assignment) {
    if (!is_limited_) return 0;
    steps_left_ -= units_;
    const Peaks peaks = find_peaks(graph_, model_, assignment);
    double bytes = 0;
    for (std::size_t i = 0; i < runners_; ++i) {
        bytes += std::max(0.0, static_cast<double>(peaks.bytes[i]) - limits_[i]);
    }
    return bytes;
}

Score CostSearch::score(const Assignment& assignment) {
    clock_.restart();
    steps_left_ -= units_;
    clock_.run(0, units_, assignment, kInfinity);
    return {.overflow = overflow(assignment), .seconds = clock_.now(), .busy = clock_.free_sum()};
}

void CostSearch::consider(const Assignment& assignment) {
    candidates_.push_back({assignment, score(assignment)});
}

Assignment CostSearch::run(const Assignment& rules) {
    consider(rules);
    const Candidate by_rules = candidates_.front();
    for (std::size_t i = 0; i < runners_; ++i) consider(all_on(runner_at(i), rules));
    consider(earliest_ends(rules));
    consider(best_in_line(graph_, model_, rules));
    std::stable_sort(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.score.better_than(b.score); });
    candidates_.resize(std::min(candidates_.size(), units_ > kWholeUnits ? 1 : kStarts));
    for (Candidate& candidate : candidates_) {
        if (candidate.score.overflow > 0) repair(candidate);
        improve(candidate);
    }
    Candidate best = by_rules;
    for (const Candidate& candidate : candidates_) {
        if (candidate.score.better_than(best.score)) best = candidate;
    }
    if (units_ <= kExhaustiveUnits) try_all(best);
    return best.assignment;
}

// ---- beginnings --------------------------------------------------------------------------------

Assignment CostSearch::all_on(RunnerId runner, const Assignment& rules) const {
    Assignment made = rules;
    for (UnitId id = 0; id < units_; ++id) {
        if (graph_.unit(id).leader == id && graph_.can_lead(id, runner)) made.set(id, runner);
    }
    return made;
}

/// Each unit goes where it ends first, given those before it.
Assignment CostSearch::earliest_ends(const Assignment& rules) {
    Assignment made = rules;
    clock_.restart();
    steps_left_ -= units_ * static_cast<std::int64_t>(runners_);
    Clock::Mark mark;
    for (UnitId id = 0; id < units_; ++id) {
        RunnerId best = made[id];
        if (graph_.unit(id).leader == id) {
            double least = kInfinity;
            clock_.save(mark);
            for (std::size_t i = 0; i < runners_; ++i) {
                if (!graph_.can_lead(id, runner_at(i))) continue;
                made.set(id, runner_at(i));
                const double end = clock_.run(id, made);
                clock_.restore(mark);
                if (!is_smaller(end, least)) continue;
                least = end;
                best = runner_at(i);
            }
            made.set(id, best);
        }
        clock_.run(id, made);
    }
    return made;
}

// ---- moves -------------------------------------------------------------------------------------

/// False, and nothing done, if it would change nothing.
bool CostSearch::apply(Assignment& assignment, const Move& move) {
    undo_.clear();
    for (UnitId id = move.begin; id < move.end; ++id) {
        if (graph_.unit(id).leader != id || !graph_.can_lead(id, move.runner)) continue;
        if (assignment[id] == move.runner) continue;
        undo_.emplace_back(id, assignment[id]);
        assignment.set(id, move.runner);
    }
    return !undo_.empty();
}

void CostSearch::undo(Assignment& assignment) {
    for (const auto& [id, runner] : undo_) assignment.set(id, runner);
    undo_.clear();
}

/// Makes the move if the whole graph ends sooner; the clock stands at its beginning, as in `mark`.
bool CostSearch::try_whole(Candidate& candidate, const Move& move, const Clock::Mark& mark) {
    if (!apply(candidate.assignment, move)) return false;
    steps_left_ -= units_ - move.begin;
    const double limit =
        candidate.score.overflow > 0 ? kInfinity : candidate.score.seconds * (1 + kSame);
    Score moved;
    moved.seconds = clock_.run(move.begin, units_, candidate.assignment, limit);
    moved.busy = clock_.free_sum();
    clock_.restore(mark);
    moved.overflow = candidate.score.overflow;
    bool helps = candidate.score.overflow > 0 || moved.better_than(candidate.score);
    if (helps && is_limited_) {
        moved.overflow = overflow(candidate.assignment);
        helps = moved.better_than(candidate.score);
    }
    if (helps) {
        candidate.score = moved;
    } else {
        undo(candidate.assignment);
    }
    return helps;
}

/// Times of the units from `begin` on if nothing changes.
void CostSearch::look_ahead(const Assignment& assignment, UnitId begin, UnitId end) {
    ahead_.clear();
    ahead_begin_ = begin;
    steps_left_ -= end - begin;
    for (UnitId id = begin; id < end; ++id) {
        clock_.run(id, assignment);
        ahead_.push_back({clock_.now(), clock_.free_sum()});
    }
}

/// Makes the move if the units soon after it end sooner, by what `look_ahead` has found.
bool CostSearch::try_nearby(Candidate& candidate, const Move& move, const Clock::Mark& mark) {
    if (!apply(candidate.assignment, move)) return false;
    const UnitId end = std::min(units_, move.end + kTail);
    const Ahead& before = ahead_[static_cast<std::size_t>(end - 1 - ahead_begin_)];
    steps_left_ -= end - move.begin;
    Score moved;
    moved.seconds = clock_.run(move.begin, end, candidate.assignment, before.latest * (1 + kSame));
    moved.busy = clock_.free_sum();
    clock_.restore(mark);
    const bool helps = moved.better_than({.seconds = before.latest, .busy = before.busy}) &&
                       (!is_limited_ || overflow(candidate.assignment) <= candidate.score.overflow);
    if (!helps) undo(candidate.assignment);
    return helps;
}

/// Parts of the graph that are large for its size.
bool CostSearch::sweep_large(Candidate& candidate) {
    bool helped = false;
    Clock::Mark mark;
    const UnitId smallest = std::max(kTail, units_ / 32);
    for (UnitId length = units_ / 2; length >= smallest; length /= 2) {
        clock_.restart();
        for (UnitId begin = 0; begin + length <= units_ && steps_left_ > 0; begin += length) {
            clock_.save(mark);
            for (std::size_t i = 0; i < runners_; ++i) {
                helped |= try_whole(candidate, {begin, begin + length, runner_at(i)}, mark);
            }
            clock_.run(begin, begin + length, candidate.assignment, kInfinity);
        }
    }
    return helped;
}

/// Runs of units, from single ones to some dozens; in small graphs all there are.
bool CostSearch::sweep(Candidate& candidate) {
    bool helped = false;
    const bool is_small = units_ <= kWholeUnits;
    const bool is_tiny = units_ <= 2 * kExhaustiveUnits;
    Clock::Mark mark;
    clock_.restart();
    for (UnitId begin = 0; begin < units_ && steps_left_ > 0; ++begin) {
        clock_.save(mark);
        UnitId longest = 1;
        while (longest < kTail && begin % (2 * longest) == 0) longest *= 2;
        if (is_small) longest = units_ - begin;
        const auto look = [&] {
            if (is_small) return;
            look_ahead(candidate.assignment, begin, std::min(units_, begin + longest + kTail));
            clock_.restore(mark);
        };
        look();
        for (UnitId length = 1; length <= longest && begin + length <= units_;
             length += is_tiny ? 1 : length) {
            for (std::size_t i = 0; i < runners_; ++i) {
                const Move move{begin, begin + length, runner_at(i)};
                const bool helps =
                    is_small ? try_whole(candidate, move, mark) : try_nearby(candidate, move, mark);
                if (!helps) continue;
                helped = true;
                look();
            }
        }
        clock_.run(begin, candidate.assignment);
    }
    return helped;
}

void CostSearch::improve(Candidate& candidate) {
    for (int i = 0; i < kSweeps && steps_left_ > 0; ++i) {
        Candidate next = candidate;
        bool helped = units_ > kWholeUnits && sweep_large(next);
        helped |= sweep(next);
        if (!helped) return;
        next.score = score(next.assignment);
        if (!next.score.better_than(candidate.score)) return;
        candidate = next;
    }
}

/// Moves units away from where memory is short, most at its worst time, until it fits or nothing
/// helps.
void CostSearch::repair(Candidate& candidate) {
    Clock::Mark start;
    clock_.restart();
    clock_.save(start);
    for (int round = 0; round < 64 && candidate.score.overflow > 0; ++round) {
        const Peaks peaks = find_peaks(graph_, model_, candidate.assignment);
        Candidate best = candidate;
        for (std::size_t from = 0; from < runners_; ++from) {
            if (static_cast<double>(peaks.bytes[from]) <= limits_[from]) continue;
            const UnitId worst = std::min(peaks.unit[from], units_ - 1);
            for (UnitId length = 1; length < 2 * units_; length *= 2) {
                for (const UnitId begin : {worst, worst - length / 2, worst - length + 1}) {
                    const Move range{std::max(0, begin), std::min(units_, begin + length), 0};
                    for (std::size_t to = 0; to < runners_; ++to) {
                        if (to == from) continue;
                        Candidate next = candidate;
                        if (!apply(next.assignment, {range.begin, range.end, runner_at(to)})) {
                            continue;
                        }
                        next.score = score(next.assignment);
                        if (next.score.better_than(best.score)) best = std::move(next);
                    }
                }
            }
        }
        if (!best.score.better_than(candidate.score)) return;
        candidate = std::move(best);
    }
}

// ---- all there are -----------------------------------------------------------------------------

void CostSearch::find_tails() {
    tails_.assign(static_cast<std::size_t>(units_), 0);
    least_work_.assign(static_cast<std::size_t>(units_) + 1, 0);
    for (UnitId id = units_ - 1; id >= 0; --id) {
        const auto at = static_cast<std::size_t>(id);
        double least = kInfinity;
        for (std::size_t i = 0; i < runners_; ++i) {
            least = std::min(least, graph_.seconds(id, runner_at(i)));
        }
        least_work_[at] = least_work_[at + 1] + least;
        const CostGraph::Unit& unit = graph_.unit(id);
        for (std::uint32_t i = unit.first_read; i < unit.last_read; ++i) {
            const UnitId writer = graph_.value(graph_.reads[i]).writer;
            if (writer == kNoUnit) continue;
            double& tail = tails_[static_cast<std::size_t>(writer)];
            tail = std::max(tail, least + tails_[at]);
        }
    }
}

void CostSearch::try_all(Candidate& best) {
    if (units_ == 0) return;
    find_tails();
    marks_.resize(static_cast<std::size_t>(units_));
    steps_left_ = std::max<std::int64_t>(steps_left_, 200'000);
    Assignment assignment = best.assignment;
    clock_.restart();
    try_from(0, best, assignment);
}

/// Every way to run `unit` and those after it that may beat the best so far.
void CostSearch::try_from(UnitId unit, Candidate& best, Assignment& assignment) {
    if (unit == units_) {
        Score reached{.overflow = 0, .seconds = clock_.now(), .busy = clock_.free_sum()};
        if (best.score.overflow == 0 && !reached.better_than(best.score)) return;
        reached.overflow = overflow(assignment);
        if (reached.better_than(best.score)) best = {assignment, reached};
        return;
    }
    Clock::Mark& mark = marks_[static_cast<std::size_t>(unit)];
    clock_.save(mark);
    const RunnerId given = assignment[unit];
    const bool is_free = graph_.unit(unit).leader == unit && graph_.can_lead(unit, given);
    for (std::size_t i = 0; i < runners_ && steps_left_ > 0; ++i) {
        const RunnerId runner = runner_at(i);
        if (is_free ? !graph_.can_lead(unit, runner) : runner != given) continue;
        if (is_free) assignment.set(unit, runner);
        --steps_left_;
        const double end = clock_.run(unit, assignment);
        const double work = (clock_.free_sum() + least_work_[static_cast<std::size_t>(unit) + 1]) /
                            static_cast<double>(runners_);
        const double bound =
            std::max({clock_.now(), work, end + tails_[static_cast<std::size_t>(unit)]});
        if (best.score.overflow > 0 || is_smaller(bound, best.score.seconds)) {
            try_from(unit + 1, best, assignment);
        }
        clock_.restore(mark);
    }
    if (is_free) assignment.set(unit, given);
}

}  // namespace heddle::sched
