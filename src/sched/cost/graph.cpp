#include "sched/cost/graph.hpp"

#include <algorithm>

#include "runtime/buffer.hpp"

namespace heddle::sched {

/// Reads a graph into a CostGraph, node by node.
class CostGraphReader {
public:
    CostGraphReader(CostGraph& graph, Abilities& abilities, const Placement& placement)
        : g_(graph),
          index_(abilities.index()),
          team_(abilities.team()),
          placement_(placement),
          unit_of_(index_.size(), kNoUnit),
          last_writer_(index_.size(), kNoUnit),
          value_of_(index_.size(), -1),
          leaf_of_(index_.size(), -1),
          written_(index_.size(), 0),
          seen_(index_.size(), 0) {}

    void read() {
        for (std::size_t i = 0; i < team_.size(); ++i) {
            types_.push_back(team_[static_cast<RunnerId>(i)].type);
            add_row(*types_.back());
        }
        for (const TensorId id : index_.nodes()) {
            if (index_.writes_root(id)) written_[at(index_.root(id))] = 1;
        }
        const auto nodes = index_.nodes();
        g_.units.reserve(nodes.size());
        g_.reads.reserve(2 * nodes.size());
        g_.values.reserve(2 * nodes.size());
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            const TensorId id = nodes[i];
            if (index_.is_view(id) || seen_[at(id)] != 0) continue;
            seen_[at(id)] = 1;
            add_unit(id, static_cast<std::int32_t>(i));
        }
        for (CostGraph::Unit& unit : g_.units) {
            const bool is_result = (index_.facts(unit.node).flags & GGML_TENSOR_FLAG_OUTPUT) != 0;
            if (unit.last_use == kNoUnit || is_result) unit.last_use = g_.unit_count() - 1;
        }
    }

private:
    static std::size_t at(TensorId id) { return static_cast<std::size_t>(id); }

    bool is_still_to_come(TensorId tensor) const {
        const TensorId root = index_.root(tensor);
        return index_.is_node(root) && unit_of_[at(root)] == kNoUnit &&
               index_.facts(root).buffer == nullptr;
    }

    void add_row(BufferType& type) {
        for (std::size_t i = 0; i < team_.size(); ++i) {
            g_.reach_.push_back(team_.can_use(static_cast<RunnerId>(i), type) ? 1 : 0);
        }
    }

    std::int32_t row_of(BufferType& type) {
        const auto found = std::find(types_.begin(), types_.end(), &type);
        const auto row = static_cast<std::int32_t>(found - types_.begin());
        if (found == types_.end()) {
            types_.push_back(&type);
            add_row(type);
        }
        return row;
    }

    /// The version of `tensor` that `reader` sees.
    std::int32_t value_for(TensorId tensor, UnitId reader) {
        const TensorId root = index_.root(tensor);
        const UnitId writer = last_writer_[at(root)];
        std::int32_t& known = value_of_[at(tensor)];
        if (known >= 0 && g_.value(known).writer == writer) return known;
        CostGraph::Value value{.bytes = byte_size(index_[tensor]), .writer = writer};
        if (const Buffer* buffer = index_.facts(root).buffer; buffer != nullptr) {
            value.memory = row_of(*buffer->buft);
            value.place = placement_[root].home;
            value.is_constant = written_[at(root)] == 0 && unit_of_[at(root)] == kNoUnit &&
                                buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
        } else if (unit_of_[at(root)] != kNoUnit) {
            value.holder = g_.unit(unit_of_[at(root)]).leader;
        } else {
            place_leaf(value, root, reader);
        }
        g_.values.push_back(value);
        return known = static_cast<std::int32_t>(g_.values.size()) - 1;
    }

    /// Leafs without memory are where `placement` says if a rule speaks of them; others go where
    /// they are read first.
    void place_leaf(CostGraph::Value& value, TensorId root, UnitId reader) {
        const Choice& choice = placement_[root];
        const bool is_input = (index_.facts(root).flags & GGML_TENSOR_FLAG_INPUT) != 0;
        if (const std::int32_t known = leaf_of_[at(root)]; known >= 0) {
            const CostGraph::Leaf& leaf = g_.leafs[at(known)];
            value.holder = leaf.holder;
            value.place = leaf.place;
            value.memory = leaf.place;
            return;
        }
        leaf_of_[at(root)] = static_cast<std::int32_t>(g_.leafs.size());
        if (is_input || choice.rule == Rule::pinned || choice.rule == Rule::input) {
            value.place = choice.runner == kNoRunner ? team_.last() : choice.runner;
            value.memory = value.place;
        } else {
            value.holder = g_.unit(reader).leader;
        }
        g_.leafs.push_back({.bytes = byte_size(index_[root]),
                            .tensor = root,
                            .holder = value.holder,
                            .place = value.place});
    }

    void add_unit(TensorId id, std::int32_t position) {
        const auto unit = g_.unit_count();
        const TensorId root = index_.root(id);
        // What is not computed writes nothing.
        const bool computes = (index_.facts(id).flags & GGML_TENSOR_FLAG_COMPUTE) != 0;
        const Buffer* given = index_.facts(root).buffer;
        g_.units.push_back({.node = id,
                            .position = position,
                            .leader = unit,
                            .bytes = byte_size(index_[id]),
                            .makes_memory = root == id && given == nullptr});
        CostGraph::Unit& added = g_.units.back();
        if (root != id && unit_of_[at(root)] != kNoUnit) {
            if (given == nullptr && computes) added.target = unit_of_[at(root)];
            const UnitId leader = g_.unit(unit_of_[at(root)]).leader;
            if (placement_[g_.unit(leader).node].runner == placement_[id].runner) {
                added.leader = leader;
            }
        }
        const Choice& choice = placement_[id];
        if (given != nullptr && computes) {
            added.memory = row_of(*given->buft);
            added.place = placement_[root].home;
        }
        // Inputs are written by the caller, through addresses of the host.
        added.is_fixed = choice.rule == Rule::pinned || choice.rule == Rule::input ||
                         (given != nullptr && choice.rule != Rule::away);
        added.first_read = static_cast<std::uint32_t>(g_.reads.size());
        for (const GraphIndex::Source& source : index_.sources(id)) {
            // Casts name themselves as what they write: that has not been computed before.
            if (source.tensor == id || is_still_to_come(source.tensor)) continue;
            const std::int32_t value = value_for(source.tensor, unit);
            g_.reads.push_back(value);
            const UnitId holder = unit_of_[at(index_.root(source.tensor))];
            if (holder != kNoUnit) g_.units[at(holder)].last_use = unit;
        }
        g_.units.back().last_read = static_cast<std::uint32_t>(g_.reads.size());
        if (given == nullptr && root != id && leaf_of_[at(root)] >= 0) follow_leaf(unit, root);
        unit_of_[at(id)] = unit;
        last_writer_[at(root)] = unit;
    }

    /// A unit that changes a leaf without memory stays where the leaf is.
    void follow_leaf(UnitId id, TensorId root) {
        const CostGraph::Leaf& leaf = g_.leafs[at(leaf_of_[at(root)])];
        CostGraph::Unit& unit = g_.units[at(id)];
        if (leaf.holder == kNoUnit) {
            unit.is_fixed = true;
        } else if (placement_[g_.unit(leaf.holder).node].runner == placement_[unit.node].runner) {
            unit.leader = leaf.holder;
        }
    }

    CostGraph& g_;
    const GraphIndex& index_;
    Team& team_;
    const Placement& placement_;
    std::vector<BufferType*> types_;  ///< of each row
    std::vector<UnitId> unit_of_, last_writer_;
    std::vector<std::int32_t> value_of_, leaf_of_;
    std::vector<std::uint8_t> written_, seen_;
};

CostGraph::CostGraph(Abilities& abilities, const Placement& placement, const CostModel& model)
    : runners_(abilities.team().size()) {
    CostGraphReader(*this, abilities, placement).read();
    seconds_.reserve(units.size() * runners_);
    for (const Unit& unit : units) {
        const Tensor& node = abilities.index()[unit.node];
        const bool computes = (node.flags & GGML_TENSOR_FLAG_COMPUTE) != 0;
        for (std::size_t i = 0; i < runners_; ++i) {
            const auto runner = static_cast<RunnerId>(i);
            seconds_.push_back(computes ? model.node_seconds(node, runner) : 0);
        }
    }
}

void CostGraph::ask_abilities(Abilities& abilities) {
    able_.assign(units.size() * runners_, 1);
    for (UnitId id = 0; id < unit_count(); ++id) {
        for (std::size_t i = 0; i < runners_; ++i) {
            const auto runner = static_cast<RunnerId>(i);
            std::uint8_t& able = able_[cell(unit(id).leader, runner)];
            if (unit(id).is_fixed || !abilities.can_run(runner, unit(id).node)) able = 0;
        }
    }
}

Assignment::Assignment(const CostGraph& graph, const Placement& placement) {
    runners_.reserve(graph.units.size());
    leaders_.reserve(graph.units.size());
    for (const CostGraph::Unit& unit : graph.units) {
        runners_.push_back(placement[unit.node].runner);
        leaders_.push_back(unit.leader);
    }
}

RunnerId CostGraph::target_of(UnitId id, const Assignment& assignment) const {
    const Unit& its = unit(id);
    if (its.memory >= 0) return its.place;
    return its.target == kNoUnit ? assignment[id] : assignment[its.target];
}

bool CostGraph::is_away(UnitId id, const Assignment& assignment) const {
    const Unit& its = unit(id);
    if (its.memory >= 0) return !reaches(assignment[id], its.memory);
    return its.target != kNoUnit && !reaches(assignment[id], assignment[its.target]);
}

}  // namespace heddle::sched
