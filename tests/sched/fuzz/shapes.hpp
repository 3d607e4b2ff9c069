#pragma once

#include <algorithm>

#include "ggml/ops.h"
#include "recipe.hpp"
#include "runtime/objects.hpp"

/// Bends any values into shapes that an op takes. All of it passes null on: builders give null for
/// operands that do not fit.
namespace heddle::fuzz {

using Operands = std::span<Tensor* const>;

inline Tensor* floats(ggml_context* context, Tensor* x) {
    if (x == nullptr || x->type == GGML_TYPE_F32) return x;
    return ggml_cast(context, x, GGML_TYPE_F32);
}

inline Tensor* dense(ggml_context* context, Tensor* x) {
    x = floats(context, x);
    return x == nullptr || ggml_is_contiguous(x) ? x : ggml_cont(context, x);
}

/// Something that may be written over: computed, or a state.
inline Tensor* own(ggml_context* context, Tensor* x) {
    x = floats(context, x);
    if (x == nullptr) return x;
    const Tensor* root = x->view_src != nullptr ? x->view_src : x;
    return root->op == GGML_OP_NONE ? ggml_dup(context, x) : x;
}

/// `x`, in other memory than `written`: what is read while it is written over has no value.
inline Tensor* apart(ggml_context* context, Tensor* x, const Tensor* written) {
    if (x == nullptr || written == nullptr) return nullptr;
    const auto root = [](const Tensor* t) { return t->view_src != nullptr ? t->view_src : t; };
    return root(x) == root(written) ? ggml_cont(context, x) : x;
}

/// The first `n` elements, again and again if there are fewer.
inline Tensor* line(ggml_context* context, Tensor* x, std::int64_t n) {
    x = dense(context, x);
    if (x == nullptr) return x;
    const std::int64_t have = ggml_nelements(x);
    if (have < n) {
        Tensor* flat = ggml_reshape_1d(context, x, have);
        x = ggml_repeat_4d(context, flat, have * ((n + have - 1) / have), 1, 1, 1);
    }
    return x == nullptr ? x : ggml_view_1d(context, x, n, 0);
}

inline Tensor* matrix(ggml_context* context, Tensor* x, std::int64_t width, std::int64_t rows) {
    x = line(context, x, width * rows);
    return x == nullptr ? x : ggml_reshape_2d(context, x, width, rows);
}
inline Tensor* cube(ggml_context* context, Tensor* x, std::int64_t n0, std::int64_t n1,
                    std::int64_t n2) {
    x = line(context, x, n0 * n1 * n2);
    return x == nullptr ? x : ggml_reshape_3d(context, x, n0, n1, n2);
}

inline Tensor* block(ggml_context* context, Tensor* x, std::int64_t n0, std::int64_t n1,
                     std::int64_t n2, std::int64_t n3) {
    x = line(context, x, n0 * n1 * n2 * n3);
    return x == nullptr ? x : ggml_reshape_4d(context, x, n0, n1, n2, n3);
}
/// In the shape of `like`.
inline Tensor* shaped(ggml_context* context, Tensor* x, const Tensor* like) {
    if (like == nullptr) return nullptr;
    return block(context, x, like->ne[0], like->ne[1], like->ne[2], like->ne[3]);
}

/// Rows of this length, as many as there are.
inline Tensor* rows_of(ggml_context* context, Tensor* x, std::int64_t width) {
    if (x == nullptr) return x;
    const std::int64_t rows = std::clamp<std::int64_t>(ggml_nelements(x) / width, 1, 16);
    return matrix(context, x, width, rows);
}

/// Something that is added to, or multiplied with, every element of `like`.
inline Tensor* matching(ggml_context* context, Tensor* x, Tensor* like) {
    x = floats(context, x);
    if (x == nullptr || like == nullptr || ggml_can_repeat(x, like)) return x;
    if (like->ne[0] <= ggml_nelements(x)) return line(context, x, like->ne[0]);
    return line(context, x, 1);
}

/// Between -1 and 1, so that what is made of it stays small.
inline Tensor* tame(ggml_context* context, Tensor* x) {
    return ggml_tanh(context, dense(context, x));
}

/// Between 0 and 1.
inline Tensor* share(ggml_context* context, Tensor* x) {
    return ggml_sigmoid(context, dense(context, x));
}

/// `count` numbers below kIds: those of an operand that has numbers, or the order of some values.
inline Tensor* some_ids(ggml_context* context, Operands operands, Tensor* values,
                        std::int64_t count) {
    for (Tensor* each : operands) {
        const bool fits = each->type == GGML_TYPE_I32 && each->ne[0] >= count && each->ne[1] == 1;
        if (fits) return ggml_view_1d(context, each, count, 0);
    }
    if (count > kIds) return nullptr;
    Tensor* order = ggml_argsort(context, line(context, values, kIds), GGML_SORT_ORDER_ASC);
    return order == nullptr ? order : ggml_view_1d(context, order, count, 0);
}

inline bool is_state(const Tensor* x) {
    return x->op == GGML_OP_NONE && x->view_src == nullptr && x->type == GGML_TYPE_F32 &&
           x->ne[1] == kIds && (x->flags & GGML_TENSOR_FLAG_INPUT) == 0 && x->buffer != nullptr &&
           x->buffer->usage != GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

/// One of the operands that is a state; null if none is.
inline Tensor* state_of(Operands x) {
    for (Tensor* each : x) {
        if (is_state(each)) return each;
    }
    return nullptr;
}

}  // namespace heddle::fuzz
