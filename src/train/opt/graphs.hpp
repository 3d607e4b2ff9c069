#pragma once

#include <unordered_map>

#include "train/opt/loss.hpp"
#include "train/opt/state.hpp"

namespace heddle {

/// How far an evaluation goes; each includes those before it.
using Phase = ::ggml_opt_build_type;

/// The graphs of a training, with all that was made for them.
class TrainingGraphs {
public:
    struct Request {
        LossKind loss;
        std::int32_t period;
        Phase last;  ///< what to build up to
        Optimizer optimizer;
        BufferType* results = nullptr;  ///< memory for what is to outlast all evaluations
    };

    /// For a model that is evaluated many times. Works on a copy of the model's nodes, so that
    /// those themselves never get memory. Labels, loss and predictions have memory from the start.
    static Result<TrainingGraphs> of_fixed(Tensor& outputs, const Request& request,
                                           TrainingState& state);

    /// For one evaluation of `forward`, whose nodes will get memory.
    static Result<TrainingGraphs> of_one(const Graph& forward, Tensor& outputs,
                                         const Request& request, TrainingState& state);

    Graph& graph_for(Phase phase) const;  ///< one of those that were built
    const LossNodes& loss() const { return loss_; }

    /// Where the gradient of `node`, one of the model's, is summed up; null where it is not.
    Tensor* accumulator_of(const Tensor& node) const;

    /// Takes back the memory that a scheduler gave.
    void release_memory();

private:
    class Builder;
    static Result<TrainingGraphs> build(const Graph* forward, Tensor& outputs,
                                        const Request& request, TrainingState& state);

    OwnedContext arena_, results_;
    OwnedBuffer results_memory_;
    Graph *forward_ = nullptr, *gradients_ = nullptr, *steps_ = nullptr;
    LossNodes loss_;
    std::unordered_map<const Tensor*, Tensor*> copies_;  ///< of the model's tensors; may be empty
    std::vector<Tensor*> without_memory_;
};

}  // namespace heddle
