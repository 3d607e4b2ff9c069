#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct LeakyRelu {
    static constexpr Op id = GGML_OP_LEAKY_RELU;
    static constexpr std::string_view name = "LEAKY_RELU";
    static constexpr std::string_view symbol = "leaky_relu(x)";
    static constexpr std::string_view summary = "y = x where x > 0, slope * x elsewhere.";
    static constexpr std::array sources{"x"};

    struct Params {
        float slope = 0;
    };
    static constexpr std::array fields{ParamField{"slope", 0, ParamField::Kind::f32}};
    static constexpr bool can_run_in_place = true;

    static Result<TensorSpec> infer(const Params&, Sources src) { return TensorSpec::like(src[0]); }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 2, out);
    }
};

}  // namespace heddle::ops
