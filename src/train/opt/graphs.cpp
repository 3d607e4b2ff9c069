#include "train/opt/graphs.hpp"

#include <algorithm>

#include "core/closure.hpp"
#include "runtime/alloc/context_allocator.hpp"
#include "train/backward.hpp"

namespace heddle {
namespace {

bool is_marked(const Tensor& tensor, ggml_tensor_flag flag) { return (tensor.flags & flag) != 0; }

Result<> check_has_no_loss(const Graph& graph) {
    for (const Tensor* node : nodes_of(graph)) {
        if (!is_marked(*node, GGML_TENSOR_FLAG_LOSS)) continue;
        return invalid("training: node ", describe(*node),
                       " is marked as a loss already; the training makes its own");
    }
    return ok();
}

std::vector<Tensor*> parameters_of(const Graph& graph) {
    std::vector<Tensor*> found;
    for (Tensor* node : nodes_of(graph)) {
        if (is_marked(*node, GGML_TENSOR_FLAG_PARAM)) found.push_back(node);
    }
    return found;
}

constexpr std::size_t kFirstCapacity = GGML_DEFAULT_GRAPH_SIZE;
constexpr std::size_t kMostCapacity = std::size_t{1} << 24;

}  // namespace

/// One attempt with room for `capacity` nodes. How many gradients need is known when they are made.
class TrainingGraphs::Builder {
public:
    Builder(const Request& request, TrainingState& state, std::size_t capacity)
        : request_(request), state_(state), capacity_(capacity) {}

    /// `forward` is null for a fixed model.
    Result<TrainingGraphs> run(const Graph* forward, Tensor& outputs) {
        HEDDLE_TRY(make_arenas());
        HEDDLE_TRY_ASSIGN(Tensor * model_outputs,
                          forward != nullptr ? take(*forward, outputs) : copy_model(outputs));
        HEDDLE_TRY(check_has_no_loss(*made_.forward_));
        HEDDLE_TRY(add_loss(*model_outputs));
        if (request_.last >= GGML_OPT_BUILD_TYPE_GRAD) HEDDLE_TRY(add_gradients());
        if (request_.last >= GGML_OPT_BUILD_TYPE_OPT) HEDDLE_TRY(add_steps());
        list_tensors_without_memory();
        return std::move(made_);
    }

    /// Whether it was this attempt that was too small, not a device or the machine.
    bool lacks_room(const Error& error) const {
        return error.code == Errc::out_of_memory && made_.forward_ != nullptr && !is_allocating_;
    }

private:
    Result<> make_arenas() {
        constexpr std::size_t graphs = 4;  // one for each phase, and one of the model's own nodes
        HEDDLE_TRY_ASSIGN(made_.arena_, make_context(graphs * graph_overhead(capacity_, true) +
                                                         2 * capacity_ * kTensorOverhead,
                                                     nullptr, true));
        constexpr std::size_t results = 4;
        HEDDLE_TRY_ASSIGN(made_.results_, make_context(results * kTensorOverhead, nullptr, true));
        HEDDLE_TRY_ASSIGN(made_.forward_, new_graph(*made_.arena_, capacity_, true));
        return ok();
    }

    Result<Tensor*> take(const Graph& forward, Tensor& outputs) {
        made_.forward_->order = forward.order;
        for (Tensor* node : nodes_of(forward)) {
            HEDDLE_TRY(expand(*made_.forward_, *node, is_marked(*node, GGML_TENSOR_FLAG_COMPUTE)));
        }
        HEDDLE_TRY(expand(*made_.forward_, outputs, true));
        return &outputs;
    }

    Result<Tensor*> copy_model(Tensor& outputs) {
        HEDDLE_TRY_ASSIGN(Graph * model, new_graph(*made_.arena_, capacity_, false));
        HEDDLE_TRY(expand(*model, outputs, true));  // gives names, and marks what is computed
        HEDDLE_TRY_ASSIGN(const Closure closure, closure_of(*model));
        for (const Tensor* tensor : closure.tensors) HEDDLE_TRY(copy_tensor(*tensor));
        Tensor* copy = made_.copies_.at(&outputs);
        HEDDLE_TRY(expand(*made_.forward_, *copy, true));
        return copy;
    }

    /// With the memory that the original has. What it depends on has been copied before.
    Result<> copy_tensor(const Tensor& original) {
        HEDDLE_TRY_ASSIGN(Tensor * copy, new_tensor(*made_.arena_, TensorSpec::like(original)));
        *copy = original;
        made_.copies_[&original] = copy;  // casts are a source of themselves
        const auto copy_of = [&](const Tensor* tensor) {
            return tensor == nullptr ? nullptr : made_.copies_.at(tensor);
        };
        std::ranges::transform(original.src, copy->src, copy_of);
        copy->view_src = copy_of(original.view_src);
        return ok();
    }

    Result<> add_loss(Tensor& outputs) {
        Context& arena = *made_.arena_;
        const bool is_kept = request_.results != nullptr;
        HEDDLE_TRY_ASSIGN(made_.loss_, build_loss({is_kept ? *made_.results_ : arena, arena},
                                                  request_.loss, outputs, request_.period));
        if (is_kept) {
            is_allocating_ = true;
            HEDDLE_TRY_ASSIGN(made_.results_memory_,
                              allocate_context(*made_.results_, *request_.results));
            is_allocating_ = false;
        }
        return expand_loss(*made_.forward_, made_.loss_);
    }

    Result<> add_gradients() {
        const auto nodes = nodes_of(*made_.forward_);
        is_allocating_ = true;
        HEDDLE_TRY(state_.provide(parameters_of(*made_.forward_)));
        is_allocating_ = false;
        std::vector<Tensor*> accumulators(nodes.size());
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            const Tensor& node = *nodes[i];
            if (&node == made_.loss_.loss) accumulators[i] = &state_.loss_gradient();
            if (!is_marked(node, GGML_TENSOR_FLAG_PARAM)) continue;
            accumulators[i] = state_.slot_of(node).accumulator;
        }
        HEDDLE_TRY_ASSIGN(made_.gradients_, duplicate_graph(*made_.arena_, *made_.forward_, true));
        return build_backward(*made_.arena_, *made_.gradients_, accumulators);
    }

    Result<> add_steps() {
        Context& arena = *made_.arena_;
        HEDDLE_TRY_ASSIGN(made_.steps_, duplicate_graph(arena, *made_.gradients_, true));
        std::vector<Tensor*> parameters = parameters_of(*made_.forward_);
        std::ranges::reverse(parameters);
        for (Tensor* parameter : parameters) {
            Tensor* gradient = gradient_of(*made_.steps_, *parameter);
            if (gradient == nullptr) continue;
            const TrainingState::Slot& slot = state_.slot_of(*parameter);
            HEDDLE_TRY_ASSIGN(Tensor * step, build_step(arena, request_.optimizer, *parameter,
                                                        {gradient, slot.first_moment,
                                                         slot.second_moment, state_.values()}));
            HEDDLE_TRY(expand(*made_.steps_, *step, true));
        }
        return ok();
    }

    void list_tensors_without_memory() {
        for (Tensor* t = first_tensor(*made_.arena_); t != nullptr; t = next_tensor(*t)) {
            if (t->data == nullptr) made_.without_memory_.push_back(t);
        }
    }

    const Request& request_;
    TrainingState& state_;
    const std::size_t capacity_;
    bool is_allocating_ = false;
    TrainingGraphs made_;
};

/// Attempts with more and more room until that is not what they lack.
Result<TrainingGraphs> TrainingGraphs::build(const Graph* forward, Tensor& outputs,
                                             const Request& request, TrainingState& state) {
    std::size_t capacity = kFirstCapacity;
    if (forward != nullptr) capacity = std::max(capacity, 4 * nodes_of(*forward).size());
    while (true) {
        Builder builder(request, state, capacity);
        auto made = builder.run(forward, outputs);
        if (made || !builder.lacks_room(made.error()) || capacity > kMostCapacity) return made;
        capacity *= 4;
    }
}

Result<TrainingGraphs> TrainingGraphs::of_fixed(Tensor& outputs, const Request& request,
                                                TrainingState& state) {
    return build(nullptr, outputs, request, state);
}

Result<TrainingGraphs> TrainingGraphs::of_one(const Graph& forward, Tensor& outputs,
                                              const Request& request, TrainingState& state) {
    return build(&forward, outputs, request, state);
}

Graph& TrainingGraphs::graph_for(Phase phase) const {
    if (phase == GGML_OPT_BUILD_TYPE_FORWARD) return *forward_;
    return phase == GGML_OPT_BUILD_TYPE_GRAD ? *gradients_ : *steps_;
}

Tensor* TrainingGraphs::accumulator_of(const Tensor& node) const {
    if (gradients_ == nullptr) return nullptr;
    const auto copy = copies_.find(&node);
    return heddle::accumulator_of(*gradients_, copy != copies_.end() ? *copy->second : node);
}

void TrainingGraphs::release_memory() {
    for (Tensor* tensor : without_memory_) {
        tensor->data = nullptr;
        tensor->buffer = nullptr;
    }
}

}  // namespace heddle
