// Gradients of products of matrices, and of the ops on images that lead to them. dy is the gradient
// of the node.

#include "ops/backward_builder.hpp"
#include "ops/copy_builders.hpp"
#include "ops/im2col.hpp"
#include "ops/matmul.hpp"
#include "ops/pool.hpp"
#include "ops/repeat.hpp"
#include "ops/view_builders.hpp"

namespace heddle::ops {
namespace {

/// `x` with dense rows that follow each other, as the first operand of OUT_PROD needs it.
Result<Tensor*> with_dense_rows(Backward& backward, Tensor& x) {
    if (has_dense_rows(x) && !is_transposed(x)) return &x;
    return backward.make<Cont>({.params = {}}, {&x});
}

/// Adds up the matrices of `t` that one matrix of `a` has served. They are neighbours, so in each
/// of dimensions 2 and 3 a group is folded into a dimension of its own and summed there.
Result<Tensor*> sum_of_groups(Backward& backward, Result<Tensor*> t, const Tensor& a) {
    if (!t || same_shape(**t, a)) return t;
    Context& context = backward.context();
    const std::int64_t matrix = a.ne[0] * a.ne[1], planes = (*t)->ne[3];
    if ((*t)->ne[2] != a.ne[2]) {
        const std::int64_t group = (*t)->ne[2] / a.ne[2];
        HEDDLE_TRY_ASSIGN(Tensor * folded,
                          reshape_nd(context, *t, {matrix, group, a.ne[2], planes}));
        t = backward.make<RepeatBack>({.params = {}, .extent = {matrix, 1, a.ne[2], planes}},
                                      {folded});
        if (!t) return t;
    }
    if (planes != a.ne[3]) {
        const std::int64_t plane = matrix * a.ne[2];
        HEDDLE_TRY_ASSIGN(Tensor * folded,
                          reshape_nd(context, *t, {plane, planes / a.ne[3], a.ne[3]}));
        t = backward.make<RepeatBack>({.params = {}, .extent = {plane, 1, a.ne[3], 1}}, {folded});
    }
    return backward.reshaped(std::move(t), a);
}

/// a as an operand that OUT_PROD can repeat: only plain floats can be.
Result<Tensor*> repeatable(Backward& backward, Tensor& a, const Tensor& b) {
    const bool repeats = a.ne[2] != b.ne[2] || a.ne[3] != b.ne[3];
    if (repeats && a.type != GGML_TYPE_F32) return cast(backward.context(), &a, GGML_TYPE_F32);
    return with_dense_rows(backward, a);
}

}  // namespace

/// y = a' b, so da = b dy' and db = a dy.
Result<> MulMat::gradient(Backward& backward, Tensor& node) {
    Tensor &a = *node.src[0], &b = *node.src[1];
    Tensor* dy = backward.gradient(node);
    if (backward.wants(a)) {
        HEDDLE_TRY_ASSIGN(Tensor * rows, with_dense_rows(backward, b));
        auto product = backward.make<OutProd>({}, {rows, dy});
        HEDDLE_TRY(backward.add(a, sum_of_groups(backward, std::move(product), a)));
    }
    if (backward.wants(b)) {
        HEDDLE_TRY_ASSIGN(Tensor * rows, repeatable(backward, a, b));
        HEDDLE_TRY_ASSIGN(Tensor * columns, backward.make<Transpose>({}, {dy}));
        HEDDLE_TRY(backward.add(b, backward.make<OutProd>({}, {rows, columns})));
    }
    return ok();
}

Result<> Im2col::gradient(Backward& backward, Tensor& node) {
    Tensor &kernel = *node.src[0], &x = *node.src[1];
    return backward.add(
        x, backward.make<Im2colBack>({.params = unpack<Params>(node), .extent = extents_of(x)},
                                     {backward.gradient(node), &kernel}));
}

Result<> Pool2d::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    return backward.add(
        x, backward.make<Pool2dBack>(Pool2dBack::recover(node), {backward.gradient(node), &x}));
}

}  // namespace heddle::ops
