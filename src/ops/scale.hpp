#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct Scale {
    static constexpr Op id = GGML_OP_SCALE;
    static constexpr std::string_view name = "SCALE";
    static constexpr std::string_view symbol = "x*v";
    static constexpr std::string_view summary = "y = scale * x + bias.";
    static constexpr std::array sources{"x"};

    struct Params {
        float scale = 1;
        float bias = 0;
    };
    static constexpr std::array fields{ParamField{"scale", 0, ParamField::Kind::f32},
                                       ParamField{"bias", 1, ParamField::Kind::f32}};
    static constexpr bool can_run_in_place = true;
    static constexpr bool may_reuse_source = true;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(need_padded_rows("x", src[0]));
        return TensorSpec::like(src[0]);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 2, out);
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
