#pragma once

#include "ggml/op_list.h"
#include "ops/attention.hpp"

namespace heddle::ops {

/// What SOFT_MAX and its gradient store.
struct SoftMaxParams {
    float scale = 1;
    float max_bias = 0;  ///< above 0: the mask of head h is multiplied by its ALiBi slope
};
inline constexpr std::array kSoftMaxFields{ParamField{"scale", 0, ParamField::Kind::f32},
                                           ParamField{"max_bias", 1, ParamField::Kind::f32}};

struct SoftMax {
    static constexpr Op id = GGML_OP_SOFT_MAX;
    static constexpr std::string_view name = "SOFT_MAX";
    static constexpr std::string_view symbol = "soft_max(x)";
    static constexpr std::string_view summary =
        "Softmax of scale * x + slope * mask along rows; sinks enlarge the denominator.";
    static constexpr std::array sources{"x", "mask?", "sinks?"};
    using Params = SoftMaxParams;
    static constexpr auto fields = kSoftMaxFields;
    static constexpr bool can_run_in_place = true;
    static constexpr bool may_reuse_source = true;

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        if (!is_contiguous(x)) return invalid(describe(x), " is not contiguous");
        HEDDLE_TRY(check_attention_mask(x, src.has(1) ? &src[1] : nullptr, params.max_bias));
        if (src.has(1)) HEDDLE_TRY(check_mask(x, src[1]));
        if (src.has(2)) HEDDLE_TRY(check_sinks(x, src[2]));
        return TensorSpec::like(x);
    }

    static Cost cost(const Params&, Sources src, const Tensor& y) {
        return {.flops = static_cast<double>(element_count(src[0])) * (kTranscendental + 4),
                .bytes = bytes_touched(y)};
    }

    static Result<> gradient(Backward& backward, Tensor& node);

private:
    static Result<> check_mask(const Tensor& x, const Tensor& mask) {
        if (mask.type != GGML_TYPE_F16 && mask.type != GGML_TYPE_F32) {
            return invalid("mask ", describe(mask), " is neither F16 nor F32");
        }
        if (mask.ne[0] != x.ne[0] || mask.ne[1] < x.ne[1]) {
            return invalid("mask ", describe(mask), " does not cover the rows of ", describe(x));
        }
        return ok();
    }
};

struct SoftMaxBack {
    static constexpr Op id = GGML_OP_SOFT_MAX_BACK;
    static constexpr std::string_view name = "SOFT_MAX_BACK";
    static constexpr std::string_view symbol = "soft_max_back(x)";
    static constexpr std::string_view summary =
        "scale * y * (dy - sum(y * dy)) along rows: gradient of SOFT_MAX, from its result y.";
    static constexpr std::array sources{"dy", "y"};
    using Params = SoftMaxParams;
    static constexpr auto fields = kSoftMaxFields;
    static constexpr bool can_run_in_place = true;
    static constexpr bool may_reuse_source = true;

    static Result<TensorSpec> infer(const Params&, Sources src) { return TensorSpec::like(src[0]); }

    /// Two passes of a product and a sum each.
    static Cost cost(const Params&, Sources src, const Tensor& dx) {
        return {.flops = 4.0 * static_cast<double>(element_count(src[0])),
                .bytes = bytes_touched(dx)};
    }
};

}  // namespace heddle::ops
