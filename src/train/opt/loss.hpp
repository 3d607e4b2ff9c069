#pragma once

#include "core/graph.hpp"
#include "ggml-opt.h"

namespace heddle {

using LossKind = ::ggml_opt_loss_type;

Result<> check_loss(LossKind kind);

/// Whether a loss is a mean over points. Such a loss is divided by the batches of a period, so that
/// gradients added up over them are those of their mean.
bool is_per_point(LossKind kind);

/// What is made from the outputs of a model.
struct LossNodes {
    Tensor* labels = nullptr;  ///< to compare with; null for losses without
    Tensor* loss = nullptr;    ///< a single f32
    Tensor *predictions = nullptr, *correct = nullptr;  ///< of classes; null for other losses
};

/// Where loss nodes are made.
struct LossContexts {
    Context& kept;   ///< the four above
    Context& inner;  ///< those between
};

/// Makes the loss of `outputs` and marks it as one. Fails if it would not be a single f32.
Result<LossNodes> build_loss(LossContexts contexts, LossKind kind, Tensor& outputs,
                             std::int32_t period);

/// Adds them to the graph that computes the outputs.
Result<> expand_loss(Graph& graph, const LossNodes& nodes);

}  // namespace heddle
