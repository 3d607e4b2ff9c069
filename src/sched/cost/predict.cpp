#include "sched/cost/cost.hpp"
#include "sched/cost/graph.hpp"

namespace heddle::sched {

Prediction predict(Abilities& abilities, const Placement& placement, const CostModel& model) {
    const CostGraph graph(abilities, placement, model);
    const Assignment assignment(graph, placement);
    Clock clock(graph, model);
    const GraphIndex& index = abilities.index();
    Prediction made;
    made.start.resize(index.nodes().size());
    made.end.resize(index.nodes().size());
    made.busy.resize(graph.runner_count());
    for (UnitId id = 0; id < graph.unit_count(); ++id) {
        clock.run(id, assignment);
        const RunnerId runner = assignment[id];
        made.busy[static_cast<std::size_t>(runner)] += graph.seconds(id, runner);
    }
    made.seconds = clock.now();

    // Nodes that only look are there with what they look at.
    std::vector<double> ready(index.size(), 0);
    UnitId unit = 0;
    for (std::size_t i = 0; i < index.nodes().size(); ++i) {
        const auto root = static_cast<std::size_t>(index.root(index.nodes()[i]));
        if (unit < graph.unit_count() &&
            graph.unit(unit).position == static_cast<std::int32_t>(i)) {
            made.start[i] = clock.start_of(unit);
            made.end[i] = ready[root] = clock.end_of(unit++);
        } else {
            made.start[i] = made.end[i] = ready[root];
        }
    }
    made.resident = find_peaks(graph, model, assignment).bytes;
    return made;
}

}  // namespace heddle::sched
