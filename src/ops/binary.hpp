#pragma once

#include <optional>

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

/// a ∘ b, with b tiled to the extents of a, never the reverse. Computed in f32.
struct Binary {
    static constexpr std::array sources{"a", "b"};
    using Params = NoParams;
    static constexpr bool can_run_in_place = true;
    static constexpr bool may_reuse_source = true;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        if (!can_repeat(src[1], src[0])) {
            return invalid("b ", describe(src[1]), " cannot be repeated to fill a ",
                           describe(src[0]));
        }
        return TensorSpec::like(src[0]);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 1, out);
    }
};

struct Add : Binary {
    static constexpr Op id = GGML_OP_ADD;
    static constexpr std::string_view name = "ADD";
    static constexpr std::string_view symbol = "x+y";
    static constexpr std::string_view summary = "y = a + b, with b repeated to the extents of a.";

    struct Args {
        Params params{};
        std::optional<Type> type{};  ///< of the result; that of a unless given
    };

    static Args recover(const Tensor& node) {
        if (node.type == node.src[0]->type) return {};
        return {.type = node.type};
    }

    /// A type of its own is for results of low precision a only, and rows are not tiled then.
    static Result<TensorSpec> infer(const Args& args, Sources src) {
        if (!args.type) return Binary::infer(args.params, src);
        const Tensor &a = src[0], &b = src[1];
        if (!can_repeat_rows(b, a)) {
            return invalid("rows of b ", describe(b), " cannot be repeated to fill a ",
                           describe(a));
        }
        if (!type_info(a.type).is_quantized && a.type != GGML_TYPE_F16 &&
            a.type != GGML_TYPE_BF16) {
            return invalid("a ", describe(a),
                           " is not quantized, f16 or bf16, so the result cannot be ",
                           name_of(*args.type));
        }
        return TensorSpec::dense(*args.type, extents_of(a));
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Sub : Binary {
    static constexpr Op id = GGML_OP_SUB;
    static constexpr std::string_view name = "SUB";
    static constexpr std::string_view symbol = "x-y";
    static constexpr std::string_view summary = "y = a - b, with b repeated to the extents of a.";

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Mul : Binary {
    static constexpr Op id = GGML_OP_MUL;
    static constexpr std::string_view name = "MUL";
    static constexpr std::string_view symbol = "x*y";
    static constexpr std::string_view summary =
        "y = a * b element by element, with b repeated to the extents of a.";

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Div : Binary {
    static constexpr Op id = GGML_OP_DIV;
    static constexpr std::string_view name = "DIV";
    static constexpr std::string_view symbol = "x/y";
    static constexpr std::string_view summary = "y = a / b, with b repeated to the extents of a.";

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
