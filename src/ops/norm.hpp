#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

/// Brings each row to a common size.
struct RowNorm {
    static constexpr std::array sources{"x"};

    struct Params {
        float eps = 0;
    };
    static constexpr std::array fields{ParamField{"eps", 0, ParamField::Kind::f32}};
    static constexpr bool can_run_in_place = true;

    static Result<TensorSpec> infer(const Params&, Sources src) { return TensorSpec::like(src[0]); }
};

struct Norm : RowNorm {
    static constexpr Op id = GGML_OP_NORM;
    static constexpr std::string_view name = "NORM";
    static constexpr std::string_view symbol = "norm(x)";
    static constexpr std::string_view summary =
        "y = (x - mean) / sqrt(variance + eps), mean and variance of each row.";

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 6, out);
    }
};

struct RmsNorm : RowNorm {
    static constexpr Op id = GGML_OP_RMS_NORM;
    static constexpr std::string_view name = "RMS_NORM";
    static constexpr std::string_view symbol = "rms_norm(x)";
    static constexpr std::string_view summary =
        "y = x / sqrt(mean of x * x + eps), the mean of each row.";
    static constexpr bool may_reuse_source = true;

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 4, out);
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct L2Norm : RowNorm {
    static constexpr Op id = GGML_OP_L2_NORM;
    static constexpr std::string_view name = "L2_NORM";
    static constexpr std::string_view symbol = "l2_norm(x)";
    static constexpr std::string_view summary =
        "y = x / max(sqrt(sum of x * x), eps), the sum of each row.";

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 3, out);
    }
};

struct GroupNorm {
    static constexpr Op id = GGML_OP_GROUP_NORM;
    static constexpr std::string_view name = "GROUP_NORM";
    static constexpr std::string_view symbol = "group_norm(x)";
    static constexpr std::string_view summary =
        "y = (x - mean) / sqrt(variance + eps), mean and variance of each of n_groups groups of "
        "channels; channels are dimension 2.";
    static constexpr std::array sources{"x"};

    struct Params {
        std::int32_t n_groups = 1;
        float eps = 0;
    };
    static constexpr std::array fields{ParamField{"n_groups", 0},
                                       ParamField{"eps", 1, ParamField::Kind::f32}};
    static constexpr bool can_run_in_place = true;

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        HEDDLE_TRY(need_at_least("n_groups", params.n_groups, 1));
        if (params.n_groups > src[0].ne[2] && !is_empty(src[0])) {
            return invalid("n_groups ", params.n_groups, " is above the number of channels of x ",
                           describe(src[0]));
        }
        return TensorSpec::like(src[0]);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 6, out);
    }
};

}  // namespace heddle::ops
