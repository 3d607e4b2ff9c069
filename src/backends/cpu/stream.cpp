#include "backends/cpu/stream.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "backends/cpu/fusion.hpp"
#include "backends/cpu/isa.hpp"

namespace heddle::cpu {
namespace {

Result<> run(const Plan& plan, const Settings& settings, Scratch& scratch) {
    HEDDLE_TRY_ASSIGN(std::byte* const memory, scratch.reserve(plan.scratch));
    return execute(plan, {.pool = settings.pool,
                          .scratch = memory,
                          .abort = settings.abort,
                          .plain = settings.plain});
}

}  // namespace

int planned_threads(int asked, const ThreadPool* pool) {
    if (asked <= 0) return pool != nullptr ? pool->size() : GGML_DEFAULT_N_THREADS;
    return pool != nullptr ? std::min(asked, pool->size()) : asked;
}

Result<> find_fused(const Graph& graph, const Settings& settings, int* with) {
    const int threads = planned_threads(settings.threads, settings.pool);
    Plan plan;
    HEDDLE_TRY(make_plan(graph, threads, Memory::unchecked, plan, settings.planned_fusion()));
    std::unordered_map<const Tensor*, int> numbers;
    for (int i = graph.n_nodes - 1; i >= 0; --i) numbers[graph.nodes[i]] = i;
    std::iota(with, with + graph.n_nodes, 0);
    for (std::span<const Step> left = plan.steps; !left.empty();) {
        const auto together = left.first(region_size(left));
        const auto first =
            std::ranges::min(together, {}, [&](const Step& step) { return numbers[step.node]; });
        for (const Step& step : together) with[numbers[step.node]] = numbers[first.node];
        left = left.subspan(together.size());
    }
    return ok();
}

// ---- plans -------------------------------------------------------------------------------------

Result<const Plan*> KeptPlans::plan_for(const Graph& graph, const Settings& settings) {
    const Circumstances now{.nodes = graph.nodes,
                            .count = graph.n_nodes,
                            .threads = planned_threads(settings.threads, settings.pool),
                            .fusion = settings.planned_fusion(),
                            .isa = isa_changes()};
    const auto make = [&](Plan& plan) {
        ++made_;
        return make_plan(graph, now.threads, Memory::checked, plan, now.fusion);
    };
    if (graph.uid == 0) {
        HEDDLE_TRY(make(plan_));
        return &plan_;
    }
    ++uses_;
    if (const auto found = kept_.find(graph.uid); found != kept_.end()) {
        if (found->second.made_in == now) {
            found->second.last_use = uses_;
            return &found->second.plan;
        }
        steps_ -= found->second.plan.steps.size();
        kept_.erase(found);
    }
    Kept fresh{.made_in = now, .plan = {}, .last_use = uses_};
    HEDDLE_TRY(make(fresh.plan));
    Kept& kept = kept_[graph.uid] = std::move(fresh);
    steps_ += kept.plan.steps.size();
    make_room();
    return &kept.plan;
}

/// The one in use stays.
void KeptPlans::make_room() {
    while (steps_ > kMostSteps && kept_.size() > 1) {
        const auto oldest = std::ranges::min_element(
            kept_, {}, [](const auto& entry) { return entry.second.last_use; });
        steps_ -= oldest->second.plan.steps.size();
        kept_.erase(oldest);
    }
}

// ---- the stream --------------------------------------------------------------------------------

Result<> CpuStream::compute(Graph& graph) {
    HEDDLE_TRY_ASSIGN(const Plan* const plan, plans_.plan_for(graph, settings));
    return run(*plan, settings, scratch_);
}

Result<std::unique_ptr<PreparedGraph>> CpuStream::plan(const Graph& graph) {
    auto prepared = std::make_unique<PreparedGraph>();
    prepared->settings = settings;
    HEDDLE_TRY_ASSIGN(prepared->graph, GraphPlan::make(graph));
    const int threads = planned_threads(settings.threads, settings.pool);
    HEDDLE_TRY(make_plan(prepared->graph->graph(), threads, Memory::checked, prepared->plan,
                         settings.planned_fusion()));
    HEDDLE_TRY(prepared->scratch.reserve(prepared->plan.scratch));
    return prepared;
}

Result<> CpuStream::compute_plan(PreparedGraph& prepared) {
    return run(prepared.plan, prepared.settings, prepared.scratch);
}

Result<> CpuStream::update_plan(PreparedGraph& prepared, const Graph& graph) {
    HEDDLE_TRY_ASSIGN(const std::unique_ptr<PreparedGraph> fresh, plan(graph));
    prepared = std::move(*fresh);
    return ok();
}

}  // namespace heddle::cpu
