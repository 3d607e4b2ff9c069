#include <algorithm>
#include <limits>

#include "sched/cost/search.hpp"

namespace heddle::sched {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// For each unit and runner it keeps the cheapest way there, and of that way the last kMemory
/// runners.
class LineSearch {
public:
    LineSearch(const CostGraph& graph, const CostModel& model, const Assignment& rules)
        : graph_(graph),
          model_(model),
          rules_(rules),
          runners_(graph.runner_count()),
          totals_(runners_, 0),
          recent_(runners_ * kMemory, 0),
          from_(static_cast<std::size_t>(graph.unit_count()) * runners_, 0) {}

    Assignment run() {
        std::vector<double> totals(runners_);
        std::vector<RunnerId> recent(recent_.size());
        for (UnitId id = 0; id < graph_.unit_count(); ++id) {
            for (std::size_t i = 0; i < runners_; ++i) {
                const auto runner = static_cast<RunnerId>(i);
                const std::size_t from = step(id, runner, totals[i]);
                from_[static_cast<std::size_t>(id) * runners_ + i] = static_cast<RunnerId>(from);
                std::copy_n(recent_.begin() + static_cast<std::ptrdiff_t>(from * kMemory), kMemory,
                            recent.begin() + static_cast<std::ptrdiff_t>(i * kMemory));
                recent[i * kMemory + static_cast<std::size_t>(id) % kMemory] = runner;
            }
            totals_.swap(totals);
            recent_.swap(recent);
        }
        return trace();
    }

private:
    static constexpr std::size_t kMemory = 64;

    bool may_run(UnitId id, RunnerId runner) const {
        const UnitId leader = graph_.unit(id).leader;
        return graph_.can_lead(leader, runner) || rules_[id] == runner;
    }

    /// Where the way `way` has put a unit; those long ago are taken to be where rules put them.
    RunnerId runner_on(std::size_t way, UnitId unit, UnitId now) const {
        if (now - unit > static_cast<UnitId>(kMemory)) return rules_[unit];
        return recent_[way * kMemory + static_cast<std::size_t>(unit) % kMemory];
    }

    double copies(std::size_t way, UnitId id, RunnerId runner) const {
        const CostGraph::Unit& unit = graph_.unit(id);
        double seconds = 0;
        for (std::uint32_t i = unit.first_read; i < unit.last_read; ++i) {
            const CostGraph::Value& value = graph_.value(graph_.reads[i]);
            if (value.holder == id) continue;
            const bool is_held = value.holder != kNoUnit;
            const RunnerId place = is_held ? runner_on(way, value.holder, id) : value.place;
            if (graph_.reaches(runner, is_held ? place : value.memory)) continue;
            if (value.is_constant && value.bytes <= model_.kept_constants(runner)) continue;
            seconds += model_.copy_seconds(value.bytes, place, runner);
        }
        return seconds;
    }

    /// The best way that leads to `id` on `runner`, and its time.
    std::size_t step(UnitId id, RunnerId runner, double& total) const {
        std::size_t best = 0;
        total = kInfinity;
        if (!may_run(id, runner)) return best;
        const double own = graph_.seconds(id, runner);
        for (std::size_t way = 0; way < runners_; ++way) {
            if (totals_[way] + own >= total) continue;
            const double with_copies = totals_[way] + own + copies(way, id, runner);
            if (with_copies >= total) continue;
            total = with_copies;
            best = way;
        }
        return best;
    }

    Assignment trace() const {
        Assignment made = rules_;
        auto way = static_cast<std::size_t>(std::min_element(totals_.begin(), totals_.end()) -
                                            totals_.begin());
        for (UnitId id = graph_.unit_count() - 1; id >= 0; --id) {
            const auto runner = static_cast<RunnerId>(way);
            if (graph_.unit(id).leader == id && graph_.can_lead(id, runner)) made.set(id, runner);
            way = static_cast<std::size_t>(from_[static_cast<std::size_t>(id) * runners_ + way]);
        }
        return made;
    }

    const CostGraph& graph_;
    const CostModel& model_;
    const Assignment& rules_;
    const std::size_t runners_;
    std::vector<double> totals_;
    std::vector<RunnerId> recent_;  ///< of each way: a ring of runners by unit
    std::vector<RunnerId> from_;    ///< of each unit and runner: the way before
};

}  // namespace

Assignment best_in_line(const CostGraph& graph, const CostModel& model, const Assignment& rules) {
    return LineSearch(graph, model, rules).run();
}

}  // namespace heddle::sched
