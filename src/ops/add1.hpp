#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct Add1 {
    static constexpr Op id = GGML_OP_ADD1;
    static constexpr std::string_view name = "ADD1";
    static constexpr std::string_view symbol = "x+y";
    static constexpr std::string_view summary = "y = a + b, where b is a single value.";
    static constexpr std::array sources{"a", "b"};
    using Params = NoParams;
    static constexpr bool can_run_in_place = true;
    static constexpr bool may_reuse_source = true;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        if (!is_scalar(src[1])) return invalid("b ", describe(src[1]), " is not a single value");
        HEDDLE_TRY(need_padded_rows("a", src[0]));
        return TensorSpec::like(src[0]);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 1, out);
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
