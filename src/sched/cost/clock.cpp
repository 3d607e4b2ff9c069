#include <algorithm>
#include <limits>

#include "sched/cost/graph.hpp"

namespace heddle::sched {

Clock::Clock(const CostGraph& graph, const CostModel& model)
    : graph_(graph),
      model_(model),
      runners_(graph.runner_count()),
      starts_(graph.units.size()),
      ends_(graph.units.size()),
      arrivals_(graph.values.size() * runners_, -1) {
    restart();
}

void Clock::restart() {
    free_.assign(runners_ + runners_ * runners_, 0);
    room_.resize(runners_);
    for (std::size_t i = 0; i < runners_; ++i) {
        room_[i] = static_cast<double>(model_.kept_constants(static_cast<RunnerId>(i)));
    }
    for (const std::size_t place : made_) arrivals_[place] = -1;
    made_.clear();
    latest_ = 0;
}

void Clock::save(Mark& mark) const {
    mark.free.assign(free_.begin(), free_.end());
    mark.room.assign(room_.begin(), room_.end());
    mark.arrivals = made_.size();
    mark.latest = latest_;
}

void Clock::restore(const Mark& mark) {
    std::copy(mark.free.begin(), mark.free.end(), free_.begin());
    std::copy(mark.room.begin(), mark.room.end(), room_.begin());
    for (; made_.size() > mark.arrivals; made_.pop_back()) arrivals_[made_.back()] = -1;
    latest_ = mark.latest;
}

double Clock::free_sum() const {
    double sum = 0;
    for (std::size_t i = 0; i < runners_; ++i) sum += free_[i];
    return sum;
}

double& Clock::link_free(RunnerId from, RunnerId to) {
    const std::size_t source = from == kNoRunner ? runners_ - 1 : static_cast<std::size_t>(from);
    const std::size_t target = to == kNoRunner ? runners_ - 1 : static_cast<std::size_t>(to);
    return free_[runners_ + source * runners_ + target];
}

double Clock::send(std::size_t bytes, RunnerId from, RunnerId to, double ready) {
    double& link = link_free(from, to);
    return link = std::max(link, ready) + model_.copy_seconds(bytes, from, to);
}

double Clock::arrival(std::int32_t id, RunnerId reader, const Assignment& assignment) {
    const CostGraph::Value& value = graph_.value(id);
    const double ready =
        value.writer == kNoUnit ? 0 : ends_[static_cast<std::size_t>(value.writer)];
    const RunnerId place = value.holder == kNoUnit ? value.place : assignment[value.holder];
    if (place == reader && value.holder != kNoUnit) return ready;
    const std::int32_t memory = value.holder == kNoUnit ? value.memory : place;
    if (graph_.reaches(reader, memory)) return ready;
    const std::size_t copy =
        static_cast<std::size_t>(id) * runners_ + static_cast<std::size_t>(reader);
    if (arrivals_[copy] >= 0) return arrivals_[copy];
    made_.push_back(copy);
    double& room = room_[static_cast<std::size_t>(reader)];
    if (value.is_constant && static_cast<double>(value.bytes) <= room) {
        room -= static_cast<double>(value.bytes);
        return arrivals_[copy] = 0;
    }
    return arrivals_[copy] = send(value.bytes, place, reader, ready);
}

double Clock::run(UnitId id, const Assignment& assignment) {
    const CostGraph::Unit& unit = graph_.unit(id);
    const RunnerId runner = assignment[id];
    double start = free_[static_cast<std::size_t>(runner)];
    for (std::uint32_t i = unit.first_read; i < unit.last_read; ++i) {
        start = std::max(start, arrival(graph_.reads[i], runner, assignment));
    }
    double end = start + graph_.seconds(id, runner);
    free_[static_cast<std::size_t>(runner)] = end;
    if (graph_.is_away(id, assignment)) {
        end = send(unit.bytes, runner, graph_.target_of(id, assignment), end);
    }
    starts_[static_cast<std::size_t>(id)] = start;
    ends_[static_cast<std::size_t>(id)] = end;
    latest_ = std::max(latest_, end);
    return end;
}

double Clock::run(UnitId begin, UnitId end, const Assignment& assignment, double limit) {
    for (UnitId id = begin; id < end; ++id) {
        run(id, assignment);
        if (latest_ > limit) return std::numeric_limits<double>::infinity();
    }
    return latest_;
}

// ---- memory ------------------------------------------------------------------------------------

namespace {

/// Bytes that come and go, for each runner.
class MemoryCurve {
public:
    MemoryCurve(std::size_t runners, UnitId units)
        : runners_(runners),
          steps_(static_cast<std::size_t>(units) + 1),
          changes_(runners_ * steps_) {}

    void hold(RunnerId runner, UnitId first, UnitId last, std::size_t bytes) {
        const auto row = static_cast<std::size_t>(runner) * steps_;
        changes_[row + static_cast<std::size_t>(first)] += static_cast<std::int64_t>(bytes);
        changes_[row + static_cast<std::size_t>(last) + 1] -= static_cast<std::int64_t>(bytes);
    }

    Peaks peaks() const {
        Peaks found{std::vector<std::size_t>(runners_), std::vector<UnitId>(runners_)};
        for (std::size_t runner = 0; runner < runners_; ++runner) {
            std::int64_t bytes = 0, most = 0;
            for (std::size_t step = 0; step < steps_; ++step) {
                bytes += changes_[runner * steps_ + step];
                if (bytes <= most) continue;
                most = bytes;
                found.unit[runner] = static_cast<UnitId>(step);
            }
            found.bytes[runner] = static_cast<std::size_t>(most);
        }
        return found;
    }

private:
    std::size_t runners_, steps_;
    std::vector<std::int64_t> changes_;  ///< of each runner, before each unit
};

}  // namespace

Peaks find_peaks(const CostGraph& graph, const CostModel& model, const Assignment& assignment) {
    const std::size_t runners = graph.runner_count();
    const UnitId units = graph.unit_count();
    MemoryCurve curve(runners, units);
    if (units == 0) return curve.peaks();
    struct Life {
        UnitId first = kNoUnit, last = kNoUnit;
    };
    std::vector<Life> copies(graph.values.size() * runners);
    std::vector<std::size_t> room(runners);
    for (std::size_t i = 0; i < runners; ++i) {
        room[i] = model.kept_constants(static_cast<RunnerId>(i));
    }
    for (UnitId id = 0; id < units; ++id) {
        const CostGraph::Unit& unit = graph.unit(id);
        const RunnerId runner = assignment[id];
        if (unit.makes_memory) curve.hold(runner, id, unit.last_use, unit.bytes);
        if (graph.is_away(id, assignment)) curve.hold(runner, id, id, unit.bytes);
        for (std::uint32_t i = unit.first_read; i < unit.last_read; ++i) {
            const auto value_id = static_cast<std::size_t>(graph.reads[i]);
            const CostGraph::Value& value = graph.values[value_id];
            const std::int32_t memory =
                value.holder == kNoUnit ? value.memory : assignment[value.holder];
            if (graph.reaches(runner, memory)) continue;
            Life& life = copies[value_id * runners + static_cast<std::size_t>(runner)];
            if (life.first == kNoUnit) {
                life.first = id;
                std::size_t& left = room[static_cast<std::size_t>(runner)];
                if (value.is_constant && value.bytes <= left) {  // kept: there all the time
                    left -= value.bytes;
                    curve.hold(runner, 0, units - 1, value.bytes);
                    life.last = kNoUnit;
                    continue;
                }
                life.last = id;
            }
            if (life.last != kNoUnit) life.last = id;
        }
    }
    for (std::size_t value = 0; value < graph.values.size(); ++value) {
        for (std::size_t runner = 0; runner < runners; ++runner) {
            const auto& life = copies[value * runners + runner];
            if (life.last == kNoUnit) continue;
            curve.hold(static_cast<RunnerId>(runner), life.first, life.last,
                       graph.values[value].bytes);
        }
    }
    for (const CostGraph::Leaf& leaf : graph.leafs) {
        const RunnerId runner = leaf.holder == kNoUnit ? leaf.place : assignment[leaf.holder];
        curve.hold(runner, 0, units - 1, leaf.bytes);
    }
    return curve.peaks();
}

}  // namespace heddle::sched
