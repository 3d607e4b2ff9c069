/// How any op of the C API becomes a function of tensors. Part of `heddle/heddle.hpp`.
#pragma once

#include <string>
#include <utility>

#include "context.hpp"

namespace heddle::api {

/// An operand that may be left out: an empty tensor is passed on as "none".
struct Maybe {
    const Tensor& tensor;
};

namespace detail {

/// Looks at the arguments of an op: where its result goes, and whether all operands are there.
struct Operands {
    Scope* scope = nullptr;  ///< of the first operand that is not only in a store
    int count = 0;
    std::string missing;  ///< why an operand is empty; empty if none is

    void see(const Tensor& operand) {
        ++count;
        if (operand.has_scope() && (scope == nullptr || scope->is_store)) scope = &operand.scope();
        if (operand || !missing.empty()) return;
        if (operand.has_scope()) missing = operand.scope().failure;
        if (missing.empty()) missing = text("operand ", count, " of an op is an empty tensor");
    }
    void see(const Maybe& operand) {
        if (operand.tensor) see(operand.tensor);
    }
    template <class Number>
    void see(const Number&) {}
};

inline ggml_tensor* passed(const Tensor& operand) { return operand.c(); }
inline ggml_tensor* passed(const Maybe& operand) { return operand.tensor.c(); }
template <class Number>
Number passed(const Number& number) {
    return number;
}

/// What `make` builds in `scope`; an empty tensor if it cannot, and the reason stays there.
template <class Make>
Tensor build(Scope& scope, const Make& make) {
    ggml_tensor* made = call([&] { return make(scope.context.get()); });
    if (made == nullptr) scope.keep_failure();
    return {scope, made};
}

}  // namespace detail

/// Any op of the C API: `op<ggml_ssm_conv>(x, weights)` is `ggml_ssm_conv(ctx, x, weights)`,
/// written down in the context of its operands. Those in a store (Context::make_store()) give way
/// to others.
template <auto function, class... Arguments>
Tensor op(const Arguments&... arguments) {
    detail::Operands operands;
    (operands.see(arguments), ...);
    if (operands.scope == nullptr) return {};
    if (!operands.missing.empty()) return operands.scope->refuse(std::move(operands.missing));
    return detail::build(*operands.scope, [&](ggml_context* context) {
        return function(context, detail::passed(arguments)...);
    });
}

}  // namespace heddle::api
