#include "runtime/meta/plan.hpp"

#include <algorithm>

#include "core/hash_set.hpp"
#include "ggml/op_list.h"
#include "heddle/backend/nodes.hpp"
#include "ops/catalogue.hpp"
#include "ops/generate.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/meta/buffer.hpp"
#include "runtime/placement.hpp"

namespace heddle::meta {
namespace {

/// Counts how often each tensor is used: backends that fuse nodes look it up.
void count_uses(Graph& graph) {
    for (Tensor* node : nodes_of(graph)) {
        for (Tensor* source : node->src) {
            if (source == nullptr) continue;
            const std::size_t slot = probe(graph.visited_hash_set, source);
            if (slot == kNoSlot) return;  // they count on less, and fuse less
            if (!is_used(graph.visited_hash_set, slot)) {
                occupy(graph.visited_hash_set, slot, source);
                graph.use_counts[slot] = 0;
            }
            ++graph.use_counts[slot];
        }
    }
}

/// Makes the slice zero, whatever is in its memory.
void make_zero(Tensor& slice) {
    slice.op = GGML_OP_FILL;
    std::ranges::fill(slice.src, nullptr);
    const ops::Fill::Params zero{};
    set_params(slice, &zero, sizeof zero);
    slice.src[0] = &slice;
}

}  // namespace

// ---- slices ------------------------------------------------------------------------------------

/// The number of the tensor among the slices of every device; they are made where they are not yet.
Result<Plan::Index> Plan::slice(const Tensor& tensor) {
    if (const auto found = index_.find(&tensor); found != index_.end()) return found->second;
    HEDDLE_TRY_ASSIGN(const Split split, states_.of(tensor));
    if (tensor.view_src != nullptr) {
        HEDDLE_TRY_ASSIGN(const Index root, slice(*tensor.view_src));
        HEDDLE_TRY(slice_view(tensor, split, root));
    } else {
        HEDDLE_TRY(slice_root(tensor, split));
    }
    const Index number = slices_[0].size() - 1;
    index_[&tensor] = number;
    return number;
}

Result<> Plan::slice_root(const Tensor& tensor, const Split& split) {
    JoinedBuffer* const buffer = tensor.data != nullptr ? joined(tensor.buffer) : nullptr;
    if (buffer == nullptr || !buffer->device().is_over_same_devices(device_)) {
        return invalid("computing with ", heddle::describe(tensor), ": it has no memory of '",
                       device_.name(), '\'');
    }
    HEDDLE_TRY_ASSIGN(Parts parts, buffer->parts_of(tensor, split));
    for (std::size_t j = 0; j < slices_.size(); ++j) slices_[j].push_back(parts.slices[j]);
    return ok();
}

Result<> Plan::slice_view(const Tensor& tensor, const Split& split, Index root) {
    HEDDLE_TRY_ASSIGN(const Split root_split, states_.of(*tensor.view_src));
    CutView cut;
    const bool is_cut = root_split.is_cut() && split.is_cut();
    if (is_cut) {
        HEDDLE_TRY_ASSIGN(
            cut, cut_view(*tensor.view_src, root_split, tensor, static_cast<int>(split.dim())));
    }
    std::vector<Tensor> made;
    for (std::size_t j = 0; j < slices_.size(); ++j) {
        Tensor view{};
        view.type = tensor.type;
        std::ranges::copy(tensor.ne, view.ne);
        std::ranges::copy(tensor.nb, view.nb);
        set_name(view, heddle::name_of(tensor));
        view.view_src = &slices_[j][root];
        view.view_offs = tensor.view_offs;
        if (is_cut) {
            view.ne[split.dim()] = total_share(split, j);
            std::ranges::copy(cut.devices[j].stride, view.nb);
            view.view_offs = cut.devices[j].offset;
        }
        // A device without any part of anything has no memory to show.
        if (view.view_src->buffer != nullptr) HEDDLE_TRY(place_view(view));
        made.push_back(view);
    }
    for (std::size_t j = 0; j < slices_.size(); ++j) slices_[j].push_back(made[j]);
    return ok();
}

// ---- nodes -------------------------------------------------------------------------------------

/// Whether a device has nothing to do for a node: nothing of it, or nothing to compute it from.
bool Plan::is_absent(const Tensor& node, const Sums& sums, std::size_t device) {
    for (const Tensor* source : node.src) {
        if (source == nullptr) continue;
        const Tensor& slice = slices_[device][index_.at(source)];
        if (is_empty(slice) && !is_empty(*source)) return true;
        if (sums.pending.contains(source) && absent_.contains(&slice)) return true;
    }
    return false;
}

Result<> Plan::check_support(const Tensor& slice, std::size_t device) const {
    if (!plugin::wants_computing(slice) || supports_op(device_.device(device), slice)) return ok();
    return failure(Errc::unsupported, "node ", heddle::describe(slice), ", ", describe_op_of(slice),
                   ": device '", heddle::name_of(device_.device(device)),
                   "' cannot compute its part");
}

Result<> Plan::make_node(const Tensor& node, const Sums& sums, bool is_zeroed_if_absent) {
    HEDDLE_TRY_ASSIGN(const Index number, slice(node));
    for (const Tensor* source : node.src) {
        if (source != nullptr) HEDDLE_TRY(slice(*source));
    }
    for (std::size_t j = 0; j < slices_.size(); ++j) {
        Tensor& own = slices_[j][number];
        own.op = node.op;
        own.flags = node.flags;
        set_params(own, node.op_params, sizeof node.op_params);
        for (std::size_t i = 0; i < kMaxSources; ++i) {
            own.src[i] = node.src[i] != nullptr ? &slices_[j][index_.at(node.src[i])] : nullptr;
        }
        if (is_absent(node, sums, j)) {
            if (is_zeroed_if_absent) {
                make_zero(own);
            } else {
                own.flags &= ~GGML_TENSOR_FLAG_COMPUTE;
                absent_.insert(&own);
            }
        }
        HEDDLE_TRY(check_support(own, j));
    }
    return ok();
}

Result<> Plan::make_graphs(const Graph& graph) {
    for (std::size_t j = 0; j < slices_.size(); ++j) {
        const std::size_t capacity =
            std::max<std::size_t>(slices_[j].size(), nodes_of(graph).size());
        HEDDLE_TRY_ASSIGN(OwnedContext context,
                          make_context(graph_overhead(capacity + 1, false) + 64, nullptr, true));
        HEDDLE_TRY_ASSIGN(Graph* const own, new_graph(*context, capacity + 1, false));
        contexts_.push_back(std::move(context));
        for (const Tensor* node : nodes_of(graph)) {
            HEDDLE_TRY(append_node(*own, slices_[j][index_.at(node)]));
        }
        count_uses(*own);
        graphs_.push_back(own);
    }
    return ok();
}

Result<> Plan::make_steps(const Graph& graph, const Sums& sums) {
    std::size_t begin = 0;
    const auto add_step = [&](std::size_t end) {
        Step step;
        for (Graph* own : graphs_) {
            step.graphs.push_back(
                heddle::slice(*own, static_cast<int>(begin), static_cast<int>(end)));
            step.graphs.back().uid = next_graph_uid();
        }
        begin = end;
        steps_.push_back(std::move(step));
    };
    for (const Sum& sum : sums.all) {
        add_step(sum.last + 1);
        const Tensor& node = *nodes_of(graph)[sum.last];
        if (slices_.size() < 2 || !plugin::wants_computing(node)) continue;
        std::vector<Tensor*> tensors;
        for (auto& own : slices_) tensors.push_back(&own[index_.at(&node)]);
        steps_.back().reduction = std::make_unique<Reduction>(device_, std::move(tensors));
        scratch_.need(steps_.back().reduction->scratch_size());
    }
    if (begin < nodes_of(graph).size()) add_step(nodes_of(graph).size());
    HEDDLE_TRY(scratch_.allocate());
    for (Step& step : steps_) {
        if (step.reduction != nullptr) HEDDLE_TRY(step.reduction->build(scratch_));
    }
    return ok();
}

Result<std::unique_ptr<Plan>> Plan::make(JoinedDevice& device, const Graph& graph) {
    std::unique_ptr<Plan> plan(new Plan(device, graph.uid));
    const auto nodes = nodes_of(graph);
    HEDDLE_TRY_ASSIGN(const Sums sums, find_sums(graph, plan->states_));
    auto sum = sums.all.begin();
    for (std::size_t at = 0; at < nodes.size(); ++at) {
        while (sum != sums.all.end() && sum->last < at) ++sum;
        const bool begins_sum = sum != sums.all.end() && sum->first == at;
        HEDDLE_TRY(plan->make_node(*nodes[at], sums, begins_sum && sum->has_addend));
    }
    HEDDLE_TRY(plan->make_graphs(graph));
    HEDDLE_TRY(plan->make_steps(graph, sums));
    for (Tensor* node : nodes) {
        if (node->view_src != nullptr) continue;
        HEDDLE_TRY_ASSIGN(const Split split, plan->states_.of(*node));
        joined(node->buffer)->remember(*node, split);
    }
    return plan;
}

// ---- running -----------------------------------------------------------------------------------

Result<> Plan::run_step(Step& step, StreamGroup& group) {
    for (const std::size_t j : group.order()) HEDDLE_TRY(compute_async(group[j], step.graphs[j]));
    if (step.reduction != nullptr) HEDDLE_TRY(step.reduction->run(group));
    return ok();
}

Result<> Plan::run(StreamGroup& group) {
    for (Step& step : steps_) {
        auto done = run_step(step, group);
        if (done) continue;
        // The others have work that will not be continued.
        static_cast<void>(group.finish_all());
        return done;
    }
    return ok();
}

}  // namespace heddle::meta
