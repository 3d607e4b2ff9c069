// Gradients of ops that work element by element. dy is the gradient of the node.

#include "ops/add1.hpp"
#include "ops/backward.hpp"
#include "ops/backward_builder.hpp"
#include "ops/binary.hpp"
#include "ops/glu.hpp"
#include "ops/math.hpp"
#include "ops/reduce.hpp"
#include "ops/scale.hpp"
#include "ops/unary.hpp"

namespace heddle::ops {
namespace {

/// f(x) for a function of UNARY.
Result<Tensor*> map(Backward& backward, ggml_unary_op function, Tensor* x) {
    return backward.make<Unary>(Unary::of(function), {x});
}

/// dy * f. The gradient comes first: the product has its type.
Result<Tensor*> times(Backward& backward, Tensor* dy, Result<Tensor*> f) {
    if (!f) return f;
    return backward.make<Mul>({}, {dy, *f});
}

}  // namespace

// ---- two operands ------------------------------------------------------------------------------

Result<> Add::gradient(Backward& backward, Tensor& node) {
    Tensor &a = *node.src[0], &b = *node.src[1];
    Tensor* dy = backward.gradient(node);
    if (backward.wants(a)) HEDDLE_TRY(backward.add(a, dy));
    if (backward.wants(b)) HEDDLE_TRY(backward.add(b, backward.sum_of_tiles(dy, b)));
    return ok();
}

Result<> Sub::gradient(Backward& backward, Tensor& node) {
    Tensor &a = *node.src[0], &b = *node.src[1];
    Tensor* dy = backward.gradient(node);
    if (backward.wants(a)) HEDDLE_TRY(backward.add(a, dy));
    if (backward.wants(b)) HEDDLE_TRY(backward.subtract(b, backward.sum_of_tiles(dy, b)));
    return ok();
}

Result<> Mul::gradient(Backward& backward, Tensor& node) {
    Tensor &a = *node.src[0], &b = *node.src[1];
    Tensor* dy = backward.gradient(node);
    if (backward.wants(a)) HEDDLE_TRY(backward.add(a, times(backward, dy, &b)));
    if (backward.wants(b)) {
        HEDDLE_TRY(backward.add(b, backward.sum_of_tiles(times(backward, dy, &a), b)));
    }
    return ok();
}

/// d(a / b) = da / b - db * y / b.
Result<> Div::gradient(Backward& backward, Tensor& node) {
    Tensor &a = *node.src[0], &b = *node.src[1];
    Tensor* dy = backward.gradient(node);
    if (backward.wants(a)) HEDDLE_TRY(backward.add(a, backward.make<Div>({}, {dy, &b})));
    if (backward.wants(b)) {
        auto slope = times(backward, dy, backward.make<Div>({}, {&node, &b}));
        HEDDLE_TRY(backward.subtract(b, backward.sum_of_tiles(std::move(slope), b)));
    }
    return ok();
}

Result<> Add1::gradient(Backward& backward, Tensor& node) {
    Tensor &a = *node.src[0], &b = *node.src[1];
    Tensor* dy = backward.gradient(node);
    if (backward.wants(a)) HEDDLE_TRY(backward.add(a, dy));
    if (backward.wants(b)) HEDDLE_TRY(backward.add(b, backward.make<Sum>({}, {dy})));
    return ok();
}

// ---- one operand -------------------------------------------------------------------------------

/// The bias moves all results alike and drops out.
Result<> Scale::gradient(Backward& backward, Tensor& node) {
    const float factor = unpack<Params>(node).scale;
    return backward.add(*node.src[0], backward.scaled(backward.gradient(node), factor));
}

Result<> Sqr::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    return backward.add(x, backward.scaled(times(backward, backward.gradient(node), &x), 2));
}

/// The slope is 1 / (2 y).
Result<> Sqrt::gradient(Backward& backward, Tensor& node) {
    auto ratio = backward.make<Div>({}, {backward.gradient(node), &node});
    return backward.add(*node.src[0], backward.scaled(std::move(ratio), 0.5F));
}

Result<> Log::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    return backward.add(x, backward.make<Div>({}, {backward.gradient(node), &x}));
}

Result<> Sin::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    return backward.add(x, times(backward, backward.gradient(node), backward.make<Cos>({}, {&x})));
}

Result<> Cos::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    return backward.subtract(
        x, times(backward, backward.gradient(node), backward.make<Sin>({}, {&x})));
}

/// Functions that are not listed have no rule. Those that are flat never come here.
Result<> Unary::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    Tensor* dy = backward.gradient(node);
    const auto slope_is = [&](ggml_unary_op function) {
        return backward.add(x, times(backward, dy, map(backward, function, &x)));
    };
    switch (static_cast<ggml_unary_op>(unpack<Params>(node).function)) {
        case GGML_UNARY_OP_ABS:
            return slope_is(GGML_UNARY_OP_SGN);
        case GGML_UNARY_OP_NEG:
            return backward.subtract(x, dy);
        case GGML_UNARY_OP_RELU:
            return slope_is(GGML_UNARY_OP_STEP);
        case GGML_UNARY_OP_SILU:
            return backward.add(x, backward.make<SiluBack>({}, {dy, &x}));
        case GGML_UNARY_OP_EXP:
            return backward.add(x, times(backward, dy, &node));
        case GGML_UNARY_OP_EXPM1:
            return slope_is(GGML_UNARY_OP_EXP);
        case GGML_UNARY_OP_SOFTPLUS:
            return slope_is(GGML_UNARY_OP_SIGMOID);
        default:
            return Backward::no_rule(node);
    }
}

/// Only silu(a) * b with an operand each: halves of one tensor have no rule.
Result<> Glu::gradient(Backward& backward, Tensor& node) {
    if (unpack<Params>(node).function != GGML_GLU_OP_SWIGLU || node.src[1] == nullptr) {
        return Backward::no_rule(node);
    }
    Tensor &a = *node.src[0], &b = *node.src[1];
    Tensor* dy = backward.gradient(node);
    if (backward.wants(a)) {
        HEDDLE_TRY_ASSIGN(Tensor * dsilu, times(backward, dy, &b));
        HEDDLE_TRY(backward.add(a, backward.make<SiluBack>({}, {dsilu, &a})));
    }
    if (backward.wants(b)) {
        HEDDLE_TRY(backward.add(b, times(backward, dy, map(backward, GGML_UNARY_OP_SILU, &a))));
    }
    return ok();
}

}  // namespace heddle::ops
