#pragma once

#include <vector>

#include "core/context.hpp"
#include "ggml-opt.h"

/// What there is to know about the optimisers: names, numbers that steer them, and their steps.
namespace heddle {

using Optimizer = ::ggml_opt_optimizer_type;
using OptimizerParams = ::ggml_opt_optimizer_params;

const char* name_of(Optimizer optimizer);  ///< "undefined" for one that does not exist
Result<> check_optimizer(Optimizer optimizer);

OptimizerParams default_optimizer_params();

/// How many numbers the values tensor of a step holds.
std::int64_t value_count(Optimizer optimizer);

/// Those numbers for step number `iteration`, from 1. Fails if a parameter is out of its range.
Result<std::vector<float>> step_values(Optimizer optimizer, const OptimizerParams& params,
                                       std::int64_t iteration);

/// What a step works on, beside the weights; the moments are null where there are none.
struct StepOperands {
    Tensor *gradient, *first_moment, *second_moment, *values;
};

/// A step that changes `weights`, a node of `context`.
Result<Tensor*> build_step(Context& context, Optimizer optimizer, Tensor& weights,
                           const StepOperands& operands);

}  // namespace heddle
