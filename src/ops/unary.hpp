#pragma once

#include <cmath>

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct Unary {
    static constexpr Op id = GGML_OP_UNARY;
    static constexpr std::string_view name = "UNARY";
    static constexpr std::string_view symbol = "unary(x)";
    static constexpr std::string_view summary =
        "y = f(x) element by element, where f is one of the functions of ggml_unary_op.";
    static constexpr std::array sources{"x"};

    /// The numbers after the function are xIELU's alone, and 0 for all others.
    struct Params {
        std::int32_t function = 0;
        float alpha_n = 0, alpha_p = 0, beta = 0, eps = 0;
    };
    static constexpr std::array fields{
        ParamField{"function", 0}, ParamField{"alpha_n", 1, ParamField::Kind::f32},
        ParamField{"alpha_p", 2, ParamField::Kind::f32},
        ParamField{"beta", 3, ParamField::Kind::f32}, ParamField{"eps", 4, ParamField::Kind::f32}};
    static constexpr bool can_run_in_place = true;
    static constexpr bool may_reuse_source = true;

    /// Names of the functions by number; empty for numbers that name none.
    static constexpr std::string_view function_name(ggml_unary_op function) {
        constexpr std::array<std::string_view, GGML_UNARY_OP_COUNT> names{
            "ABS",         "SGN",     "NEG",   "STEP",       "TANH",     "ELU",
            "RELU",        "SIGMOID", "GELU",  "GELU_QUICK", "SILU",     "HARDSWISH",
            "HARDSIGMOID", "EXP",     "EXPM1", "SOFTPLUS",   "GELU_ERF", "XIELU",
            "FLOOR",       "CEIL",    "ROUND", "TRUNC"};
        const auto number = static_cast<std::size_t>(function);
        return number < names.size() ? names[number] : "";
    }

    static Params of(ggml_unary_op function) {
        return {.function = static_cast<std::int32_t>(function)};
    }

    /// xIELU by the weights a model stores. The node keeps what the formula needs.
    static Params xielu(float alpha_n, float alpha_p, float beta, float eps) {
        const auto softplus = [](float x) { return x > 20 ? x : std::log(1 + std::exp(x)); };
        return {.function = GGML_UNARY_OP_XIELU,
                .alpha_n = beta + softplus(alpha_n),
                .alpha_p = softplus(alpha_p),
                .beta = beta,
                .eps = eps};
    }

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        if (params.function < 0 || params.function >= GGML_UNARY_OP_COUNT) {
            return invalid("function ", params.function, " is not below ",
                           static_cast<int>(GGML_UNARY_OP_COUNT));
        }
        if (params.function != GGML_UNARY_OP_XIELU) HEDDLE_TRY(need_dense_rows("x", src[0]));
        return TensorSpec::like(src[0]);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, kTranscendental, out);
    }

    /// Steps are flat wherever they have a slope at all.
    static bool carries_gradient(const Tensor& node, std::size_t) {
        const std::int32_t function = unpack<Params>(node).function;
        return function != GGML_UNARY_OP_SGN && function != GGML_UNARY_OP_STEP;
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
