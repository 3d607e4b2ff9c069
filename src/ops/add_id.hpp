#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct AddId {
    static constexpr Op id = GGML_OP_ADD_ID;
    static constexpr std::string_view name = "ADD_ID";
    static constexpr std::string_view symbol = "x[i]+y";
    static constexpr std::string_view summary =
        "y(i, e, t) = a(i, e, t) + b(i, ids(e, t)): to each row the row of b that ids names.";
    static constexpr std::array sources{"a", "b", "ids"};
    using Params = NoParams;
    static constexpr bool may_reuse_source = true;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &a = src[0], &b = src[1], &ids = src[2];
        HEDDLE_TRY(need_equal({"a", a, 0}, {"b", b, 0}));
        HEDDLE_TRY(need_equal({"a", a, 1}, {"ids", ids, 0}));
        HEDDLE_TRY(need_equal({"a", a, 2}, {"ids", ids, 1}));
        HEDDLE_TRY(need_type("ids", ids, GGML_TYPE_I32));
        return TensorSpec::like(a);
    }

    /// One row of b is read for each row of the result.
    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const double rows_of_b = static_cast<double>(row_count(out)) *
                                 static_cast<double>(row_size(src[1].type, src[1].ne[0]));
        const double rest = static_cast<double>(byte_size(src[0])) +
                            static_cast<double>(byte_size(src[2])) +
                            static_cast<double>(byte_size(out));
        return {.flops = count_of(out), .bytes = rest + rows_of_b};
    }
};

}  // namespace heddle::ops
