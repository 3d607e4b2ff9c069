#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "sched/fingerprint.hpp"
#include "sched/plan/plan.hpp"

/// Where the time of scheduling goes: each stage on its own.
namespace heddle::bench {

class StageTimes {
public:
    /// Stages in the order they run; those after `plan` are for a graph that is the last one again.
    enum Stage { read, place, split, plan, remember, compare, rebind, place_again, count };

    /// Runs all stages once; `clock` gives nanoseconds.
    template <class Clock>
    Result<> run(std::span<ggml_backend_t const> streams, Graph& graph, const Clock& clock) {
        if (!memory_) HEDDLE_TRY(prepare(streams));
        double last = clock();
        const auto done = [&](Stage stage) {
            const double now = clock();
            times_[stage] = std::min(times_[stage], now - last);
            last = clock();
        };
        sched::Unplaced unplaced(graph, *memory_);
        last = clock();
        HEDDLE_TRY(index_.read(graph));
        done(read);
        sched::Abilities abilities(index_, *team_);
        HEDDLE_TRY_ASSIGN(const sched::Placement placement, sched::place(abilities, {}));
        done(place);
        HEDDLE_TRY_ASSIGN(sched::Splits splits, sched::split(abilities, placement, 1));
        done(split);
        HEDDLE_TRY_ASSIGN(
            const sched::Program program,
            sched::plan(index_, placement, splits, *team_, *memory_, *constants_, {}));
        done(plan);
        unplaced.keep();
        std::vector<const Buffer*> own;
        for (int id = 0; id < static_cast<int>(team_->size()); ++id) {
            for (const OwnedBuffer& chunk : memory_->chunks(id)) own.push_back(chunk.get());
        }
        last = clock();
        fingerprint_.take(index_, own);
        done(remember);
        if (!fingerprint_.matches(graph, own)) return invalid("a graph is not like itself");
        done(compare);
        index_.rebind(graph);
        sched::rebind(splits, index_);
        done(rebind);
        HEDDLE_TRY(sched::place_again(program, index_));
        done(place_again);
        nodes_ = nodes_of(graph).size();
        return ok();
    }

    static void print_title() {
        std::printf("\nstages: nanoseconds per node\n%-24s %8s", "graph", "nodes");
        for (const char* name :
             {"read", "place", "split", "plan", "remember", "| compare", "rebind", "place again"}) {
            std::printf(" %11s", name);
        }
        std::printf("\n");
    }
    void print(const std::string& name) const {
        std::printf("%-24s %8zu", name.c_str(), nodes_);
        for (const double time : times_) {
            std::printf(" %11.1f", time / static_cast<double>(nodes_));
        }
        std::printf("\n");
        std::fflush(stdout);
    }

private:
    Result<> prepare(std::span<ggml_backend_t const> streams) {
        HEDDLE_TRY_ASSIGN(sched::Team team, sched::Team::make(streams, {}, false));
        team_ = std::make_unique<sched::Team>(std::move(team));
        std::vector<BufferType*> types;
        for (const sched::Runner& runner : team_->runners()) types.push_back(runner.type);
        HEDDLE_TRY_ASSIGN(memory_, GraphAllocator::make(types));
        constants_ = std::make_unique<sched::ConstantCache>(*team_);
        times_.fill(1e300);
        return ok();
    }

    std::unique_ptr<sched::Team> team_;
    std::unique_ptr<GraphAllocator> memory_;
    std::unique_ptr<sched::ConstantCache> constants_;
    sched::GraphIndex index_;
    sched::Fingerprint fingerprint_;
    std::array<double, count> times_{};
    std::size_t nodes_ = 0;
};

}  // namespace heddle::bench
