#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct SolveTri {
    static constexpr Op id = GGML_OP_SOLVE_TRI;
    static constexpr std::string_view name = "SOLVE_TRI";
    static constexpr std::string_view symbol = "A X = B, A triangular, solve X";
    static constexpr std::string_view summary =
        "Solves A X = B for X, where A [n,n] is lower triangular and B [k,n] has k right-hand "
        "sides.";
    static constexpr std::array sources{"a", "b"};
    using Params = NoParams;
    struct Args {
        Params params;
        bool left = true;
        bool lower = true;
        bool unit_diagonal = false;
    };

    /// The one form there is.
    static Args recover(const Tensor&) { return {}; }

    /// f32 with the extents of b.
    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor &a = src[0], &b = src[1];
        HEDDLE_TRY(need_type("a", a, GGML_TYPE_F32));
        HEDDLE_TRY(need_type("b", b, GGML_TYPE_F32));
        HEDDLE_TRY(need_extents("a", a, {b.ne[1], b.ne[1], b.ne[2], b.ne[3]}));
        HEDDLE_TRY(need_contiguous("a", a));
        HEDDLE_TRY(need_contiguous("b", b));
        if (!args.left) return invalid("only A X = B can be solved, not X A = B");
        if (!args.lower) return invalid("only lower triangular matrices are supported");
        if (args.unit_diagonal) return invalid("the diagonal cannot be taken as ones");
        return TensorSpec::like(b);
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cost_per_element(out, static_cast<double>(src[0].ne[0] + 1), out);
    }
};

}  // namespace heddle::ops
