#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

/// What the optimiser steps share: they change the weights where they lie, by a rate and other
/// values that come in a tensor, so that the graph stays the same from step to step.
struct OptimizerStep {
    using Params = NoParams;

    static Result<> check_weights(const Tensor& weights) {
        if ((weights.flags & GGML_TENSOR_FLAG_PARAM) != 0) return ok();
        return invalid("weights ", describe(weights), " are not marked as a parameter");
    }

    static Result<> check_values(const Tensor& values, std::int64_t count) {
        HEDDLE_TRY(need_type("values", values, GGML_TYPE_F32));
        if (element_count(values) == count) return ok();
        return invalid("values ", describe(values), " are not ", count);
    }
};

struct OptStepAdamw : OptimizerStep {
    static constexpr Op id = GGML_OP_OPT_STEP_ADAMW;
    static constexpr std::string_view name = "OPT_STEP_ADAMW";
    static constexpr std::string_view symbol = "adamw(x)";
    static constexpr std::string_view summary =
        "One step of AdamW; updates the weights and both moments in place.";
    static constexpr std::array sources{"weights", "gradient", "m", "v", "values"};
    static constexpr std::size_t kFirstMoment = 2, kSecondMoment = 3;  ///< slots

    /// A view of the weights. `values`: alpha, beta1, beta2, eps, weight decay, and the factors
    /// that correct the bias of both moments.
    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(check_weights(src[0]));
        for (const std::size_t slot : {1, 2, 3}) {
            HEDDLE_TRY(need_same_shape(sources[slot], src[slot], "weights", src[0]));
        }
        HEDDLE_TRY(check_values(src[4], 7));
        return TensorSpec::view(src[0], 0);
    }

    /// The moments are written as well as read.
    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const double moments = static_cast<double>(byte_size(src[2]) + byte_size(src[3]));
        return {.flops = (kTranscendental + 14) * count_of(out),
                .bytes = bytes_touched(out) + moments};
    }
};

struct OptStepSgd : OptimizerStep {
    static constexpr Op id = GGML_OP_OPT_STEP_SGD;
    static constexpr std::string_view name = "OPT_STEP_SGD";
    static constexpr std::string_view symbol = "sgd(x)";
    static constexpr std::string_view summary =
        "One step of gradient descent; updates the weights in place.";
    static constexpr std::array sources{"weights", "gradient", "values"};

    /// A view of the weights. `values`: alpha and weight decay.
    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(check_weights(src[0]));
        HEDDLE_TRY(need_same_shape("gradient", src[1], "weights", src[0]));
        HEDDLE_TRY(check_values(src[2], 2));
        return TensorSpec::view(src[0], 0);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 3, out);
    }
};

}  // namespace heddle::ops
