#include "core/graph_plan.hpp"

#include <algorithm>

#include "core/hash_set.hpp"

namespace heddle {

Result<std::unique_ptr<GraphPlan>> GraphPlan::make(const Graph& graph) {
    std::unique_ptr<GraphPlan> plan(new GraphPlan);
    HEDDLE_TRY(plan->update(graph));
    return plan;
}

Result<> GraphPlan::update(const Graph& graph) {
    HEDDLE_TRY_ASSIGN(const Closure closure, closure_of(graph));
    GraphPlan fresh;
    fresh.copy_tensors(closure);
    fresh.copy_lists(graph, closure);
    fresh.copy_use_counts(graph, closure);
    *this = std::move(fresh);  // vectors keep their addresses when they are moved
    return ok();
}

void GraphPlan::copy_tensors(const Closure& closure) {
    tensors_.reserve(closure.tensors.size());
    for (const Tensor* tensor : closure.tensors) tensors_.push_back(*tensor);
    const auto redirect = [&](Tensor*& pointer) {
        if (pointer != nullptr) pointer = &tensors_[closure.index_of.at(pointer)];
    };
    for (Tensor& tensor : tensors_) {
        std::for_each(tensor.src, tensor.src + kMaxSources, redirect);
        redirect(tensor.view_src);
    }
}

void GraphPlan::copy_lists(const Graph& graph, const Closure& closure) {
    const auto copies = [&](std::span<Tensor* const> list) {
        std::vector<Tensor*> copy;
        copy.reserve(list.size());
        for (const Tensor* tensor : list) copy.push_back(&tensors_[closure.index_of.at(tensor)]);
        return copy;
    };
    nodes_ = copies(nodes_of(graph));
    leafs_ = copies(leafs_of(graph));
    graph_.size = std::max(graph.n_nodes, graph.n_leafs);
    graph_.n_nodes = graph.n_nodes;
    graph_.n_leafs = graph.n_leafs;
    graph_.nodes = nodes_.data();
    graph_.leafs = leafs_.data();
    graph_.order = graph.order;
    graph_.uid = next_graph_uid();
}

void GraphPlan::copy_use_counts(const Graph& graph, const Closure& closure) {
    const std::size_t slots = hash_capacity(tensors_.size() * 2);
    keys_.resize(slots);
    used_.resize(bitset_words(slots));
    use_counts_.resize(slots);
    graph_.visited_hash_set = {.size = slots, .used = used_.data(), .keys = keys_.data()};
    graph_.use_counts = use_counts_.data();
    if (graph.use_counts == nullptr) return;
    const HashSet& known = graph.visited_hash_set;  // of the whole graph, if this is a slice of one
    for (std::size_t slot = 0; slot < known.size; ++slot) {
        if (!is_used(known, slot)) continue;
        const auto found = closure.index_of.find(known.keys[slot]);
        if (found == closure.index_of.end()) continue;
        Tensor* copy = &tensors_[found->second];
        const std::size_t own = probe(graph_.visited_hash_set, copy);
        occupy(graph_.visited_hash_set, own, copy);
        use_counts_[own] = graph.use_counts[slot];
    }
}

}  // namespace heddle
