#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct Glu {
    static constexpr Op id = GGML_OP_GLU;
    static constexpr std::string_view name = "GLU";
    static constexpr std::string_view symbol = "glu(x)";
    static constexpr std::string_view summary =
        "y = f(a) * b, where f is one of the functions of ggml_glu_op; without b, the two halves "
        "of "
        "each row of a.";
    static constexpr std::array sources{"a", "b?"};

    /// alpha and limit are SWIGLU_OAI's alone, and 0 for all others.
    struct Params {
        std::int32_t function = 0;
        std::int32_t swapped = 0;  ///< without b: the second half of a row goes through f
        float alpha = 0, limit = 0;
    };
    static constexpr std::array fields{ParamField{"function", 0}, ParamField{"swapped", 1},
                                       ParamField{"alpha", 2, ParamField::Kind::f32},
                                       ParamField{"limit", 3, ParamField::Kind::f32}};

    /// Names of the functions by number; empty for numbers that name none.
    static constexpr std::string_view function_name(ggml_glu_op function) {
        constexpr std::array<std::string_view, GGML_GLU_OP_COUNT> names{
            "REGLU", "GEGLU", "SWIGLU", "SWIGLU_OAI", "GEGLU_ERF", "GEGLU_QUICK"};
        const auto number = static_cast<std::size_t>(function);
        return number < names.size() ? names[number] : "";
    }

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        if (params.function < 0 || params.function >= GGML_GLU_OP_COUNT) {
            return invalid("function ", params.function, " is not below ",
                           static_cast<int>(GGML_GLU_OP_COUNT));
        }
        const Tensor& a = src[0];
        HEDDLE_TRY(check_rows("a", a));
        if (src.has(1)) {
            const Tensor& b = src[1];
            HEDDLE_TRY(check_rows("b", b));
            HEDDLE_TRY(need_same_shape("b", b, "a", a));
            HEDDLE_TRY(need_type("b", b, a.type));
            return TensorSpec::like(a);
        }
        Extents extent = extents_of(a);
        extent[0] /= 2;  // of an odd row the last element is left out
        return TensorSpec::dense(a.type, extent);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, kTranscendental + 1, out);
    }

    static Result<> gradient(Backward& backward, Tensor& node);

private:
    static Result<> check_rows(std::string_view role, const Tensor& x) {
        if (is_contiguous(x, 1)) return ok();
        return invalid("rows of ", role, " ", describe(x), " are not dense and evenly spaced");
    }
};

}  // namespace heddle::ops
