// Gradients of ops along rows, of attention and of losses. dy is the gradient of the node.

#include "ops/backward.hpp"
#include "ops/backward_builder.hpp"
#include "ops/copy_builders.hpp"
#include "ops/loss.hpp"
#include "ops/mask.hpp"
#include "ops/norm.hpp"
#include "ops/reduce.hpp"
#include "ops/rope.hpp"
#include "ops/soft_max.hpp"

namespace heddle::ops {

Result<> Sum::gradient(Backward& backward, Tensor& node) {
    return backward.add_to_all(*node.src[0], backward.gradient(node));
}

Result<> SumRows::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    return backward.add(x, repeat_like(backward.context(), backward.gradient(node), &x));
}

Result<> Mean::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    HEDDLE_TRY_ASSIGN(Tensor * share,
                      backward.scaled(backward.gradient(node), 1 / static_cast<float>(x.ne[0])));
    return backward.add(x, repeat_like(backward.context(), share, &x));
}

Result<> RmsNorm::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    const float eps = unpack<Params>(node).eps;
    return backward.add(x, backward.make<RmsNormBack>({eps}, {backward.gradient(node), &x}));
}

// ---- attention ---------------------------------------------------------------------------------

namespace {

/// Masked elements are constants.
Result<> pass_unmasked(Backward& backward, Tensor& node) {
    const auto params = unpack<DiagMask::Params>(node);
    return backward.add(*node.src[0],
                        backward.make<DiagMaskZero>(params, {backward.gradient(node)}));
}

}  // namespace

Result<> DiagMaskInf::gradient(Backward& backward, Tensor& node) {
    return pass_unmasked(backward, node);
}
Result<> DiagMaskZero::gradient(Backward& backward, Tensor& node) {
    return pass_unmasked(backward, node);
}

/// From the result alone, which the mask and its slopes are part of. Neither mask nor sinks get a
/// gradient.
Result<> SoftMax::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    if (!backward.wants(x)) return ok();
    const float scale = unpack<Params>(node).scale;
    return backward.add(x, backward.make<SoftMaxBack>({.scale = scale, .max_bias = 0},
                                                      {backward.gradient(node), &node}));
}

/// Turned back by the same angles; the factors of the frequencies get no gradient.
Result<> Rope::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    if (!backward.wants(x)) return ok();
    return backward.add(
        x, backward.make<RopeBack>(unpack<Params>(node),
                                   {backward.gradient(node), node.src[1], node.src[2]}));
}

// ---- losses ------------------------------------------------------------------------------------

/// The labels get no gradient.
Result<> CrossEntropyLoss::gradient(Backward& backward, Tensor& node) {
    Tensor &logits = *node.src[0], &labels = *node.src[1];
    if (!backward.wants(logits)) return ok();
    return backward.add(logits, backward.make<CrossEntropyLossBack>(
                                    {}, {backward.gradient(node), &logits, &labels}));
}

}  // namespace heddle::ops
