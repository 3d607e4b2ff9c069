#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

/// A function of each element that has an op of its own. The others are functions of `Unary`.
struct Math {
    static constexpr std::array sources{"x"};
    using Params = NoParams;
    static constexpr bool can_run_in_place = true;

    static Result<TensorSpec> infer(const Params&, Sources src) { return TensorSpec::like(src[0]); }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, kTranscendental, out);
    }
};

struct Sqr : Math {
    static constexpr Op id = GGML_OP_SQR;
    static constexpr std::string_view name = "SQR";
    static constexpr std::string_view symbol = "x^2";
    static constexpr std::string_view summary = "y = x * x.";
    static constexpr bool may_reuse_source = true;

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 1, out);
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Sqrt : Math {
    static constexpr Op id = GGML_OP_SQRT;
    static constexpr std::string_view name = "SQRT";
    static constexpr std::string_view symbol = "√x";
    static constexpr std::string_view summary = "y = the square root of x.";
    static constexpr bool may_reuse_source = true;

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Log : Math {
    static constexpr Op id = GGML_OP_LOG;
    static constexpr std::string_view name = "LOG";
    static constexpr std::string_view symbol = "log(x)";
    static constexpr std::string_view summary = "y = the natural logarithm of x.";
    static constexpr bool may_reuse_source = true;

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Sin : Math {
    static constexpr Op id = GGML_OP_SIN;
    static constexpr std::string_view name = "SIN";
    static constexpr std::string_view symbol = "sin(x)";
    static constexpr std::string_view summary = "y = the sine of x.";

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Cos : Math {
    static constexpr Op id = GGML_OP_COS;
    static constexpr std::string_view name = "COS";
    static constexpr std::string_view symbol = "cos(x)";
    static constexpr std::string_view summary = "y = the cosine of x.";

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
