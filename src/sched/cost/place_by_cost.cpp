#include <algorithm>
#include <limits>

#include "runtime/device.hpp"
#include "sched/cost/cost.hpp"
#include "sched/cost/graph.hpp"
#include "sched/cost/search.hpp"

namespace heddle::sched {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::vector<double> limits_of(const Budgets& budgets, const Team& team) {
    std::vector<double> limits(team.size(), kNoLimit);
    for (std::size_t i = 0; i < std::min(budgets.size(), limits.size()); ++i) {
        if (budgets[i].kind == Budget::Kind::free_share) continue;
        Device* device = team[static_cast<RunnerId>(i)].device;
        const DeviceMemory memory = device == nullptr ? DeviceMemory{} : memory_of(*device);
        limits[i] = static_cast<double>(budgets[i].limit(memory, 0));
    }
    return limits;
}

/// Fails if the assignment needs more than a limit allows.
Result<> check_limits(const CostGraph& graph, const CostModel& model, const Assignment& assignment,
                      const std::vector<double>& limits, const Team& team) {
    if (std::all_of(limits.begin(), limits.end(), [](double l) { return l == kNoLimit; })) {
        return ok();
    }
    const Peaks peaks = find_peaks(graph, model, assignment);
    for (std::size_t i = 0; i < limits.size(); ++i) {
        if (static_cast<double>(peaks.bytes[i]) <= limits[i]) continue;
        return failure(Errc::out_of_memory, "the graph needs ", peaks.bytes[i], " bytes on ",
                       team[static_cast<RunnerId>(i)].name, ", whose budget is ",
                       static_cast<std::size_t>(limits[i]),
                       " bytes, and no placement within the budgets was found");
    }
    return ok();
}

/// Views are where what they look at is, leafs without memory where they are read first.
void follow(Placement& placement, const GraphIndex& index, const CostGraph& graph,
            const Assignment& assignment) {
    for (const CostGraph::Leaf& leaf : graph.leafs) {
        if (leaf.holder == kNoUnit) continue;
        Choice& choice = placement[leaf.tensor];
        const RunnerId runner = assignment[leaf.holder];
        if (choice.runner == runner) continue;
        choice.runner = runner;
        choice.rule = Rule::reader;
        choice.because = graph.unit(leaf.holder).node;
    }
    for (std::size_t i = 0; i < index.size(); ++i) {
        const auto id = static_cast<TensorId>(i);
        const TensorId root = index.root(id);
        Choice& choice = placement[id];
        const bool shows_root = root != id && (index.is_view(id) || !index.is_node(id));
        if (!shows_root || choice.runner == placement[root].runner) continue;
        if (choice.rule == Rule::pinned || index[root].buffer != nullptr) continue;
        choice.runner = placement[root].runner;
        choice.rule = Rule::view;
        choice.because = root;
    }
}

}  // namespace

Result<Placement> place_by_cost(Abilities& abilities, const Pins& pins, const CostModel& model,
                                const Budgets& budgets) {
    HEDDLE_TRY_ASSIGN(Placement placement, place(abilities, pins));
    const Team& team = abilities.team();
    CostGraph graph(abilities, placement, model);
    for (CostGraph::Unit& unit : graph.units) {
        // Not by the rule alone: it is `away` for pinned nodes whose memory is elsewhere.
        if (!pins.empty() && pins.contains(&abilities.index()[unit.node])) unit.is_fixed = true;
    }
    graph.ask_abilities(abilities);
    const std::vector<double> limits = limits_of(budgets, team);
    CostSearch search(graph, model, limits);
    const Assignment found = search.run(Assignment(graph, placement));
    HEDDLE_TRY(check_limits(graph, model, found, limits, team));
    for (UnitId id = 0; id < graph.unit_count(); ++id) {
        Choice& choice = placement[graph.unit(id).node];
        const bool is_moved = choice.runner != found[id];
        choice.runner = found[id];
        if (graph.is_away(id, found)) {
            choice.rule = Rule::away;
            choice.because = abilities.index().root(graph.unit(id).node);
            choice.home = graph.target_of(id, found);
        } else if (is_moved) {
            choice.rule = Rule::cost;
            choice.because = kNoTensor;
        }
    }
    follow(placement, abilities.index(), graph, found);
    return placement;
}

}  // namespace heddle::sched
