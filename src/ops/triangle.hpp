#pragma once

#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct Diag {
    static constexpr Op id = GGML_OP_DIAG;
    static constexpr std::string_view name = "DIAG";
    static constexpr std::string_view symbol = "diag(x)";
    static constexpr std::string_view summary =
        "A square matrix with the vector x on its diagonal and 0 elsewhere.";
    static constexpr std::array sources{"x"};
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(need_extent("x", x, 1, 1));
        return TensorSpec::dense(x.type, {x.ne[0], x.ne[0], x.ne[2], x.ne[3]});
    }
};

struct Tri {
    static constexpr Op id = GGML_OP_TRI;
    static constexpr std::string_view name = "TRI";
    static constexpr std::string_view symbol = "tri(x)";
    static constexpr std::string_view summary =
        "The part of a square matrix above (type 1) or below (3) its diagonal, with the diagonal "
        "(0 "
        "and 2), and 0 elsewhere.";
    static constexpr std::array sources{"x"};

    struct Params {
        std::int32_t type = GGML_TRI_TYPE_UPPER_DIAG;
    };
    static constexpr std::array fields{ParamField{"type", 0}};

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        if (params.type < GGML_TRI_TYPE_UPPER_DIAG || params.type > GGML_TRI_TYPE_LOWER) {
            return invalid("type ", params.type, " is not one of 0 to ",
                           static_cast<int>(GGML_TRI_TYPE_LOWER));
        }
        HEDDLE_TRY(need_type("x", x, GGML_TYPE_F32));
        HEDDLE_TRY(need_contiguous("x", x));
        if (x.ne[0] != x.ne[1]) return invalid("x ", describe(x), " is not square");
        return TensorSpec::like(x);
    }
};

}  // namespace heddle::ops
