#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

/// Gradients that are ops of their own. Those of ops with parameters stand beside their op.
namespace heddle::ops {

/// Both take the gradient of the result first and the op's operand second, and look like the first.
struct OperandGradient {
    static constexpr std::array sources{"dy", "x"};
    static constexpr bool may_reuse_source = true;

    static Result<TensorSpec> result(Sources src) { return TensorSpec::like(src[0]); }
};

struct SiluBack : OperandGradient {
    static constexpr Op id = GGML_OP_SILU_BACK;
    static constexpr std::string_view name = "SILU_BACK";
    static constexpr std::string_view symbol = "silu_back(x)";
    static constexpr std::string_view summary =
        "dy * s * (1 + x * (1 - s)), where s is the sigmoid of x.";
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) { return result(src); }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, kTranscendental + 5, out);
    }
};

struct RmsNormBack : OperandGradient {
    static constexpr Op id = GGML_OP_RMS_NORM_BACK;
    static constexpr std::string_view name = "RMS_NORM_BACK";
    static constexpr std::string_view symbol = "rms_norm_back(x)";
    static constexpr std::string_view summary =
        "(dy - x * sum(x * dy) / (sum(x * x) + n * eps)) / sqrt(mean(x * x) + eps), for each row.";
    struct Params {
        float eps;
    };
    static constexpr std::array fields{ParamField{"eps", 0, ParamField::Kind::f32}};

    static Result<TensorSpec> infer(const Params&, Sources src) { return result(src); }

    /// Two dot products and the update.
    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 7, out);
    }
};

}  // namespace heddle::ops
