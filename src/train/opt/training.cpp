#include "train/opt/training.hpp"

#include "runtime/transfer.hpp"

using namespace heddle;

namespace {

Result<> check_build(Phase phase) {
    for (const Phase known :
         {GGML_OPT_BUILD_TYPE_FORWARD, GGML_OPT_BUILD_TYPE_GRAD, GGML_OPT_BUILD_TYPE_OPT}) {
        if (phase == known) return ok();
    }
    return invalid("training: there is no build type ", static_cast<int>(phase));
}

Result<> check_model(const TrainingParams& params) {
    const bool is_fixed = params.ctx_compute != nullptr;
    if (!is_fixed && (params.inputs != nullptr || params.outputs != nullptr)) {
        return invalid(
            "training: inputs and outputs are given without the context of a fixed "
            "model; models that change are given for each evaluation");
    }
    if (!is_fixed) return ok();
    if (params.inputs == nullptr) return invalid("training: a fixed model has no inputs");
    if (params.outputs == nullptr) return invalid("training: a fixed model has no outputs");
    if (params.inputs->data != nullptr || is_empty(*params.inputs)) return ok();
    return invalid("training: the inputs ", describe(*params.inputs), " have no memory");
}

Result<> check_params(const TrainingParams& params) {
    if (params.backend_sched == nullptr) return invalid("training: the scheduler is NULL");
    HEDDLE_TRY(check_loss(params.loss_type));
    HEDDLE_TRY(check_build(params.build_type));
    HEDDLE_TRY(check_optimizer(params.optimizer));
    if (params.opt_period < 1) {
        return invalid("training: a period of ", params.opt_period, " batches, not 1 or more");
    }
    if (params.build_type == GGML_OPT_BUILD_TYPE_OPT && params.get_opt_pars == nullptr) {
        return invalid("training: there is no function that gives the parameters of the optimiser");
    }
    return check_model(params);
}

void mark_ends(Tensor& inputs, Tensor& outputs) {
    inputs.flags |= GGML_TENSOR_FLAG_INPUT;
    // A view that is kept keeps the tensor it is a view of.
    for (Tensor* tensor = &outputs; tensor != nullptr; tensor = tensor->view_src) {
        tensor->flags |= GGML_TENSOR_FLAG_OUTPUT;
    }
}

template <class T>
Result<T> read_value(const Tensor& tensor) {
    T value{};
    HEDDLE_TRY(read_tensor(tensor, &value, 0, sizeof value));
    return value;
}

}  // namespace

Result<std::unique_ptr<Training>> ggml_opt_context::make(const TrainingParams& params) {
    HEDDLE_TRY(check_params(params));
    const bool steps = params.build_type == GGML_OPT_BUILD_TYPE_OPT;
    // A step after each batch takes the gradient as it is.
    const bool accumulates =
        params.build_type == GGML_OPT_BUILD_TYPE_GRAD || (steps && params.opt_period > 1);
    HEDDLE_TRY_ASSIGN(auto state, TrainingState::make(*params.backend_sched,
                                                      {accumulates, steps, params.optimizer}));
    std::unique_ptr<Training> made(new Training(params, std::move(state)));
    if (!made->is_fixed()) return made;
    mark_ends(*params.inputs, *params.outputs);
    auto request = made->request_for(params.build_type);
    request.results = params.backend_sched->team()[0].type;
    HEDDLE_TRY_ASSIGN(made->graphs_,
                      TrainingGraphs::of_fixed(*params.outputs, request, made->state_));
    made->inputs_ = params.inputs;
    made->outputs_ = params.outputs;
    return made;
}

TrainingGraphs::Request ggml_opt_context::request_for(Phase last) const {
    return {.loss = params_.loss_type,
            .period = params_.opt_period,
            .last = last,
            .optimizer = params_.optimizer};
}

Result<> ggml_opt_context::prepare(const Graph& forward, Tensor& inputs, Tensor& outputs) {
    if (is_fixed()) return invalid("training: the model is fixed and cannot be given anew");
    if (is_ready_) return invalid("training: what was allocated has not been evaluated yet");
    prepared_ = &forward;
    inputs_ = &inputs;
    outputs_ = &outputs;
    return ok();
}

// ---- evaluating --------------------------------------------------------------------------------

Result<Phase> ggml_opt_context::next_phase(bool backward) const {
    if (!backward) return GGML_OPT_BUILD_TYPE_FORWARD;
    if (params_.build_type == GGML_OPT_BUILD_TYPE_FORWARD) {
        return invalid("training: gradients are wanted, but it was made for forward evaluations");
    }
    const bool is_due = (place_ + 1) % params_.opt_period == 0;
    return is_due ? params_.build_type : GGML_OPT_BUILD_TYPE_GRAD;
}

/// Marks the scheduler as used: other trainings may have it between two calls.
Result<InUse::Use> ggml_opt_context::use_scheduler() const {
    auto use = params_.backend_sched->in_use.enter();
    if (use) [[likely]]
        return use;
    return std::move(use).error().within("training: the scheduler");
}

Result<> ggml_opt_context::allocate(bool backward) {
    if (is_ready_) return invalid("training: what was allocated has not been evaluated yet");
    HEDDLE_TRY_ASSIGN(const InUse::Use use, use_scheduler());
    HEDDLE_TRY_ASSIGN(const Phase phase, next_phase(backward));
    if (!is_fixed()) {
        if (prepared_ == nullptr) {
            return invalid("training: no model was given for the next evaluation");
        }
        mark_ends(*inputs_, *outputs_);
        graphs_.reset();
        HEDDLE_TRY_ASSIGN(
            graphs_, TrainingGraphs::of_one(*prepared_, *outputs_, request_for(phase), state_));
    }
    // The caller may have used the scheduler meanwhile. It knows graphs that come again.
    Scheduler& scheduler = *params_.backend_sched;
    scheduler.reset();
    graphs_->release_memory();
    HEDDLE_TRY(scheduler.allocate(graphs_->graph_for(phase)));
    if (place_ == 0) HEDDLE_TRY(state_.zero_gradients());  // a period begins
    phase_ = phase;
    is_ready_ = true;
    return ok();
}

Result<> ggml_opt_context::set_values() {
    const OptimizerParams params = params_.get_opt_pars(params_.get_opt_pars_ud);
    HEDDLE_TRY_ASSIGN(const auto values, step_values(params_.optimizer, params, step_));
    return write_tensor(*state_.values(), values.data(), 0, values.size() * sizeof(float));
}

Outcome::Kind ggml_opt_context::kind() const {
    return {.per_point = is_per_point(params_.loss_type),
            .period = params_.opt_period,
            .batch = outputs_->ne[1]};
}

Result<> ggml_opt_context::evaluate(Outcome* outcome) {
    if (!is_ready_) return invalid("training: nothing is allocated to be evaluated");
    if (outcome != nullptr) HEDDLE_TRY(outcome->check(kind()));
    if (outcome != nullptr) outcome->make_room(kind());
    HEDDLE_TRY_ASSIGN(const InUse::Use use, use_scheduler());
    if (phase_ == GGML_OPT_BUILD_TYPE_OPT) HEDDLE_TRY(set_values());
    is_ready_ = false;
    prepared_ = nullptr;
    if (auto done = params_.backend_sched->compute(graphs_->graph_for(phase_)); !done) {
        place_ = 0;
        return done;
    }
    place_ = (place_ + 1) % params_.opt_period;
    if (phase_ == GGML_OPT_BUILD_TYPE_OPT) {
        ++step_;
        state_.note_step();
    }
    return outcome != nullptr ? record(*outcome) : ok();
}

Result<> ggml_opt_context::record(Outcome& outcome) const {
    const LossNodes& nodes = graphs_->loss();
    HEDDLE_TRY_ASSIGN(const float loss, read_value<float>(*nodes.loss));
    if (nodes.predictions == nullptr) {
        outcome.add(kind(), loss, {}, std::nullopt);
        return ok();
    }
    std::vector<std::int32_t> predictions(static_cast<std::size_t>(nodes.predictions->ne[0]));
    HEDDLE_TRY(read_tensor(*nodes.predictions, predictions.data(), 0,
                           predictions.size() * sizeof(std::int32_t)));
    HEDDLE_TRY_ASSIGN(const std::int64_t correct, read_value<std::int64_t>(*nodes.correct));
    outcome.add(kind(), loss, predictions, correct);
    return ok();
}

// ---- the rest ----------------------------------------------------------------------------------

Result<> ggml_opt_context::reset(bool optimizer) {
    HEDDLE_TRY(state_.zero_gradients());
    if (!optimizer) return ok();
    step_ = 1;
    return state_.zero_moments();
}

Tensor* ggml_opt_context::accumulator_of(const Tensor& node) const {
    // The graph of one evaluation is gone with it, and may have been freed.
    if (!graphs_ || (!is_fixed() && !is_ready_)) return nullptr;
    return graphs_->accumulator_of(node);
}
