#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

/// A soft maximum of each element of the logits, and its logarithm or difference.
inline Cost cross_entropy_cost(const Tensor& logits, const Tensor& out) {
    return cost_per_element(logits, kTranscendental + 5, out);
}

struct CrossEntropyLoss {
    static constexpr Op id = GGML_OP_CROSS_ENTROPY_LOSS;
    static constexpr std::string_view name = "CROSS_ENTROPY_LOSS";
    static constexpr std::string_view symbol = "cross_entropy_loss(x,y)";
    static constexpr std::string_view summary =
        "Mean over rows of - sum of labels * log(soft_max(logits)).";
    static constexpr std::array sources{"logits", "labels"};
    using Params = NoParams;
    static constexpr unsigned may_be_empty = ~0u;

    /// One element of the logits' type.
    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(need_same_shape("labels", src[1], "logits", src[0]));
        return TensorSpec::dense(src[0].type, {1, 1, 1, 1});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cross_entropy_cost(src[0], out);
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct CrossEntropyLossBack {
    static constexpr Op id = GGML_OP_CROSS_ENTROPY_LOSS_BACK;
    static constexpr std::string_view name = "CROSS_ENTROPY_LOSS_BACK";
    static constexpr std::string_view symbol = "cross_entropy_loss_back(x,y)";
    static constexpr std::string_view summary = "(soft_max(logits) - labels) * dy / rows.";
    static constexpr std::array sources{"dy", "logits", "labels"};
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &dy = src[0], &logits = src[1], &labels = src[2];
        if (!is_scalar(dy)) return invalid("dy ", describe(dy), " is not a single element");
        HEDDLE_TRY(need_same_shape("labels", labels, "logits", logits));
        return TensorSpec::like(logits);
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cross_entropy_cost(src[1], out);
    }
};

}  // namespace heddle::ops
