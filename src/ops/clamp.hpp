#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct Clamp {
    static constexpr Op id = GGML_OP_CLAMP;
    static constexpr std::string_view name = "CLAMP";
    static constexpr std::string_view symbol = "clamp(x)";
    static constexpr std::string_view summary = "x = max(min(x, max), min), always in place.";
    static constexpr std::array sources{"x"};

    struct Params {
        float min = 0;
        float max = 0;
    };
    static constexpr std::array fields{ParamField{"min", 0, ParamField::Kind::f32},
                                       ParamField{"max", 1, ParamField::Kind::f32}};

    static Result<TensorSpec> infer(const Params&, Sources src) {
        return TensorSpec::view(src[0], 0);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 2, out);
    }
};

}  // namespace heddle::ops
