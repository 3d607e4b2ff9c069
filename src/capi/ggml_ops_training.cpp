// Losses, gradients that are ops of their own, and optimiser steps.

#include "capi/boundary.hpp"
#include "ggml.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "ggml/ops_train.h"
#include "ops/backward.hpp"
#include "ops/loss.hpp"
#include "ops/optimizer.hpp"

using namespace heddle;
using capi::node;

ggml_tensor* ggml_silu_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::SiluBack>(ctx, {}, {a, b});
}

ggml_tensor* ggml_rms_norm_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, float eps) {
    return node<ops::RmsNormBack>(ctx, {eps}, {a, b});
}

ggml_tensor* ggml_cross_entropy_loss(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::CrossEntropyLoss>(ctx, {}, {a, b});
}

ggml_tensor* ggml_cross_entropy_loss_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b,
                                          ggml_tensor* c) {
    return node<ops::CrossEntropyLossBack>(ctx, {}, {a, b, c});
}

ggml_tensor* ggml_opt_step_adamw(ggml_context* ctx, ggml_tensor* a, ggml_tensor* grad,
                                 ggml_tensor* m, ggml_tensor* v, ggml_tensor* adamw_params) {
    return node<ops::OptStepAdamw>(ctx, {}, {a, grad, m, v, adamw_params});
}

ggml_tensor* ggml_opt_step_sgd(ggml_context* ctx, ggml_tensor* a, ggml_tensor* grad,
                               ggml_tensor* sgd_params) {
    return node<ops::OptStepSgd>(ctx, {}, {a, grad, sgd_params});
}
