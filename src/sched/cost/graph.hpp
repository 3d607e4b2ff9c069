#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sched/cost/cost.hpp"

/// What predictions and the search for a placement work on.
namespace heddle::sched {

/// Number of a node that takes time, in the order of the graph.
using UnitId = std::int32_t;
inline constexpr UnitId kNoUnit = -1;

class Assignment;

/// A graph as the clock sees it: nodes that take time, what they read, and where that may lie.
class CostGraph {
public:
    /// One version of a tensor that a node reads.
    struct Value {
        std::size_t bytes = 0;
        UnitId writer = kNoUnit;  ///< there when it is done; kNoUnit: from the beginning
        UnitId holder = kNoUnit;  ///< it lies where this one runs; kNoUnit: at `place`
        std::int32_t memory = 0;  ///< with `place`: row for `reaches`
        RunnerId place = kNoRunner;
        bool is_constant = false;
    };
    struct Unit {
        TensorId node = kNoTensor;
        std::int32_t position = 0;                    ///< in the list of nodes
        std::uint32_t first_read = 0, last_read = 0;  ///< [first, last) of `reads`
        UnitId leader = kNoUnit;     ///< it runs where this one runs: whose memory it changes
        UnitId target = kNoUnit;     ///< in whose result it writes its own, if that is not given
        UnitId last_use = kNoUnit;   ///< of the memory that it makes
        std::int32_t memory = -1;    ///< memory that was given for its result, as in Value
        RunnerId place = kNoRunner;  ///< whose memory that is
        std::size_t bytes = 0;       ///< of its result
        bool makes_memory = false;   ///< the result has memory of its own, not given
        bool is_fixed = false;       ///< pins or memory decide where it runs
    };
    /// A leaf without memory.
    struct Leaf {
        std::size_t bytes = 0;
        TensorId tensor = kNoTensor;
        UnitId holder = kNoUnit;  ///< who reads it first; kNoUnit: it is at `place`
        RunnerId place = kNoRunner;
    };

    /// `placement` says where memory is that was given, where leafs are, and what is fixed.
    CostGraph(Abilities& abilities, const Placement& placement, const CostModel& model);

    std::size_t runner_count() const { return runners_; }
    UnitId unit_count() const { return static_cast<UnitId>(units.size()); }
    const Unit& unit(UnitId id) const { return units[static_cast<std::size_t>(id)]; }
    const Value& value(std::int32_t id) const { return values[static_cast<std::size_t>(id)]; }

    double seconds(UnitId unit, RunnerId runner) const { return seconds_[cell(unit, runner)]; }

    /// Whether the runner can work in that memory. Rows below the number of runners are theirs.
    bool reaches(RunnerId runner, std::int32_t memory) const {
        return reach_[cell(memory, runner)] != 0;
    }

    /// Whose memory the unit writes, and whether it cannot be written there: then the result is
    /// computed beside it and copied.
    RunnerId target_of(UnitId id, const Assignment& assignment) const;
    bool is_away(UnitId id, const Assignment& assignment) const;

    /// Whether the runner can run all units that this one leads. Devices are asked by the first
    /// call.
    void ask_abilities(Abilities& abilities);
    bool can_lead(UnitId unit, RunnerId runner) const { return able_[cell(unit, runner)] != 0; }

    std::vector<Unit> units;
    std::vector<Value> values;
    std::vector<std::int32_t> reads;  ///< values
    std::vector<Leaf> leafs;

private:
    friend class CostGraphReader;
    std::size_t cell(std::int32_t row, RunnerId runner) const {
        return static_cast<std::size_t>(row) * runners_ + static_cast<std::size_t>(runner);
    }

    std::size_t runners_;
    std::vector<double> seconds_;      ///< of each unit and runner
    std::vector<std::uint8_t> reach_;  ///< of each memory and runner
    std::vector<std::uint8_t> able_;   ///< of each unit and runner
};

/// The runner of each unit. Units that have a leader run where it runs.
class Assignment {
public:
    Assignment() = default;
    Assignment(const CostGraph& graph, const Placement& placement);

    RunnerId operator[](UnitId unit) const {
        return runners_[static_cast<std::size_t>(leaders_[static_cast<std::size_t>(unit)])];
    }
    void set(UnitId unit, RunnerId runner) { runners_[static_cast<std::size_t>(unit)] = runner; }

private:
    std::vector<RunnerId> runners_;
    std::vector<UnitId> leaders_;
};

/// Lets units run one after the other and keeps time. Can go back to a mark.
class Clock {
public:
    Clock(const CostGraph& graph, const CostModel& model);

    /// Runs the next unit in the order of the graph; gives its end.
    double run(UnitId unit, const Assignment& assignment);

    /// Runs [begin, end); stops early with infinity when it passes `limit`.
    double run(UnitId begin, UnitId end, const Assignment& assignment, double limit);

    double now() const { return latest_; }  ///< when all that has run so far is done
    double start_of(UnitId unit) const { return starts_[static_cast<std::size_t>(unit)]; }
    double end_of(UnitId unit) const { return ends_[static_cast<std::size_t>(unit)]; }
    double free_sum() const;  ///< of the times at which runners are free again

    struct Mark {
        std::vector<double> free;
        std::vector<double> room;
        std::size_t arrivals = 0;
        double latest = 0;
    };
    void save(Mark& mark) const;
    void restore(const Mark& mark);
    void restart();

private:
    double arrival(std::int32_t value, RunnerId reader, const Assignment& assignment);
    double send(std::size_t bytes, RunnerId from, RunnerId to, double ready);
    double& link_free(RunnerId from, RunnerId to);

    const CostGraph& graph_;
    const CostModel& model_;
    std::size_t runners_;
    std::vector<double> free_;  ///< when runners, then links are free again
    std::vector<double> room_;  ///< bytes left for constants that are kept
    std::vector<double> starts_, ends_;
    std::vector<double> arrivals_;   ///< of each value's copy on each runner; below 0: none
    std::vector<std::size_t> made_;  ///< places in `arrivals_`, in their order
    double latest_ = 0;
};

/// Memory at its worst time, for each runner.
struct Peaks {
    std::vector<std::size_t> bytes;
    std::vector<UnitId> unit;  ///< when
};
Peaks find_peaks(const CostGraph& graph, const CostModel& model, const Assignment& assignment);

}  // namespace heddle::sched
