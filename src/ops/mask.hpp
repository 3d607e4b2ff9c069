#pragma once

#include "ggml/op_list.h"
#include "ops/descriptor.hpp"

namespace heddle::ops {

/// What the two masks share: they replace x[i0, i1] wherever i0 > n_past + i1.
struct DiagMask {
    static constexpr std::array sources{"x"};
    struct Params {
        std::int32_t n_past;
    };
    static constexpr std::array fields{ParamField{"n_past", 0}};
    static constexpr bool can_run_in_place = true;
    static constexpr bool may_reuse_source = true;

    static Result<TensorSpec> infer(const Params&, Sources src) { return TensorSpec::like(src[0]); }
};

struct DiagMaskInf : DiagMask {
    static constexpr Op id = GGML_OP_DIAG_MASK_INF;
    static constexpr std::string_view name = "DIAG_MASK_INF";
    static constexpr std::string_view symbol = "diag_mask_inf(x)";
    static constexpr std::string_view summary =
        "x with minus infinity above the diagonal that starts at column n_past.";

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct DiagMaskZero : DiagMask {
    static constexpr Op id = GGML_OP_DIAG_MASK_ZERO;
    static constexpr std::string_view name = "DIAG_MASK_ZERO";
    static constexpr std::string_view symbol = "diag_mask_zero(x)";
    static constexpr std::string_view summary =
        "x with zero above the diagonal that starts at column n_past.";

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
