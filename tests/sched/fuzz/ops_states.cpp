#include "ggml/ops.h"
#include "shapes.hpp"

/// Memory that stays from run to run, as in a cache of keys.
namespace heddle::fuzz {
namespace {

using Context = ggml_context;

/// A few rows of a state are overwritten, as in a cache of keys.
Tensor* store(Context* c, Operands x, Dice& dice) {
    Tensor* state = state_of(x);
    if (state == nullptr) return nullptr;
    const int row = dice.below(kIds - 2);
    Tensor* place = ggml_view_2d(c, state, state->ne[0], 2, state->nb[1], row * state->nb[1]);
    return ggml_cpy(c, matrix(c, tame(c, x[0] == state ? x[1] : x[0]), state->ne[0], 2), place);
}
Tensor* store_rows(Context* c, Operands x, Dice&) {
    Tensor* state = state_of(x);
    if (state == nullptr) return nullptr;
    Tensor* source = tame(c, x[0] == state ? x[1] : x[0]);
    Tensor* ids = ggml_argsort(c, line(c, source, kIds), GGML_SORT_ORDER_ASC);
    for (Tensor* each : x) {
        if (each->type == GGML_TYPE_I32) ids = each;
    }
    if (ids == nullptr) return nullptr;
    // Rows that are named twice are written in any order: they get the same values.
    Tensor* rows = ggml_repeat_4d(c, line(c, source, state->ne[0]), state->ne[0], ids->ne[0], 1, 1);
    return ggml_set_rows(c, state, rows, ids);
}
/// What earlier runs did wrong stays visible.
Tensor* accumulate(Context* c, Operands x, Dice&) {
    Tensor* state = state_of(x);
    if (state == nullptr) return nullptr;
    Tensor* news = tame(c, x[0] == state ? x[1] : x[0]);
    Tensor* halved = ggml_scale_inplace(c, state, 0.5F);
    return ggml_add_inplace(c, halved, matching(c, news, state));
}
Tensor* recall(Context* c, Operands x, Dice& dice) {
    Tensor* state = state_of(x);
    if (state == nullptr) return nullptr;
    if (dice.one_in(2)) return ggml_cont(c, state);
    Tensor* some = ggml_view_2d(c, state, state->ne[0], kIds / 2, state->nb[1], state->nb[1]);
    return ggml_mul_mat(c, some, rows_of(c, tame(c, x[0]), state->ne[0]));
}

/// Attention to some rows of a state: how many and from which on is another choice in other sizes
/// of the graph. What comes of it has the same size in all of them.
Tensor* window(Context* c, Operands x, Dice& dice) {
    Tensor* state = state_of(x);
    if (state == nullptr) return nullptr;
    const int first = dice.below(kIds), rows = dice.between(1, kIds - first);
    Tensor* seen = ggml_view_2d(c, state, state->ne[0], rows, state->nb[1],
                                static_cast<std::size_t>(first) * state->nb[1]);
    Tensor* asked = matrix(c, tame(c, x[0] == state ? x[1] : x[0]), state->ne[0], 2);
    Tensor* scores = ggml_soft_max(c, ggml_mul_mat(c, seen, asked));
    return ggml_mul_mat(c, ggml_cont(c, ggml_transpose(c, seen)), scores);
}

/// The same with hardly any result: where it is read from another device, it is the copy of the
/// rows that outgrows its place.
Tensor* glance(Context* c, Operands x, Dice& dice) {
    Tensor* state = state_of(x);
    if (state == nullptr) return nullptr;
    const int first = dice.below(kIds), rows = dice.between(1, kIds - first);
    Tensor* seen = ggml_view_2d(c, state, state->ne[0], rows, state->nb[1],
                                static_cast<std::size_t>(first) * state->nb[1]);
    Tensor* asked = matrix(c, tame(c, x[0] == state ? x[1] : x[0]), state->ne[0], 1);
    return ggml_sum_rows(c, ggml_mul_mat(c, seen, asked));
}

constexpr OpRule kOps[] = {
    {"store", store, false, true},
    {"window", window, false, true},
    {"window", window, false, true},
    {"glance", glance, false, true},
    {"glance", glance, false, true},
    {"store_rows", store_rows, true},  // more often: few values are states
    {"store_rows", store_rows, true},
    {"store_rows", store_rows, true},
    {"accumulate", accumulate},
    {"recall", recall},
};

}  // namespace

std::span<const OpRule> state_ops() { return kOps; }

}  // namespace heddle::fuzz
