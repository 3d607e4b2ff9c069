#pragma once

#include <memory>
#include <optional>
#include <random>

#include "runtime/in_use.hpp"
#include "train/opt/graphs.hpp"
#include "train/opt/outcome.hpp"

/// A training in progress. For each batch: allocate, write inputs and labels, evaluate. Whatever
/// fails leaves the weights, the moments and the sums of gradients as they were, and the training
/// can go on; only a device that fails in the middle of an evaluation may have made some of the
/// steps. A batch that failed ends its period: sums of gradients begin anew with the next.
///
/// The model is fixed, or given anew for each evaluation. Scheduler, model and weights are
/// borrowed.
struct ggml_opt_context {
    static heddle::Result<std::unique_ptr<ggml_opt_context>> make(const ggml_opt_params& params);

    /// The model of the next evaluation, where it is not fixed. It may be gone after that.
    heddle::Result<> prepare(const heddle::Graph& forward, heddle::Tensor& inputs,
                             heddle::Tensor& outputs);

    /// Gets memory for an evaluation, with gradients if `backward`, and with a step if one is due:
    /// after the last batch of a period.
    heddle::Result<> allocate(bool backward);

    /// Adds to `outcome`, unless that is null.
    heddle::Result<> evaluate(heddle::Outcome* outcome);

    /// Forgets an allocation, if there is one.
    void cancel() { is_ready_ = false; }

    /// Sums of gradients begin anew, with `optimizer` also its moments and the count of steps.
    heddle::Result<> reset(bool optimizer);

    bool is_fixed() const { return params_.ctx_compute != nullptr; }
    heddle::Tensor* inputs() const { return inputs_; }
    heddle::Tensor* outputs() const { return outputs_; }
    heddle::LossNodes loss() const { return graphs_ ? graphs_->loss() : heddle::LossNodes{}; }
    heddle::Tensor* accumulator_of(const heddle::Tensor& node) const;
    heddle::Optimizer optimizer() const { return params_.optimizer; }

    /// For the order of data: equal calls give equal orders in every training.
    std::mt19937& random() { return random_; }

    /// Who uses it: the C API marks that, and refuses a second thread.
    heddle::InUse in_use;

private:
    ggml_opt_context(const ggml_opt_params& params, heddle::TrainingState state)
        : params_(params), state_(std::move(state)) {}

    heddle::TrainingGraphs::Request request_for(heddle::Phase last) const;
    heddle::Result<heddle::Phase> next_phase(bool backward) const;
    heddle::Result<heddle::InUse::Use> use_scheduler() const;
    heddle::Result<> set_values();
    heddle::Outcome::Kind kind() const;
    heddle::Result<> record(heddle::Outcome& outcome) const;

    ggml_opt_params params_;
    heddle::TrainingState state_;
    std::optional<heddle::TrainingGraphs> graphs_;
    heddle::Tensor *inputs_ = nullptr, *outputs_ = nullptr;
    const heddle::Graph* prepared_ = nullptr;  ///< until it is evaluated; null if fixed
    std::mt19937 random_;
    std::int64_t step_ = 1;                              ///< number of the next step
    std::int32_t place_ = 0;                             ///< of the next batch within its period
    heddle::Phase phase_ = GGML_OPT_BUILD_TYPE_FORWARD;  ///< of what is allocated
    bool is_ready_ = false;                              ///< something is
};

namespace heddle {

using Training = ::ggml_opt_context;
using TrainingParams = ::ggml_opt_params;

}  // namespace heddle
