#include "ggml/ops.h"
#include "shapes.hpp"

/// Losses, gradients of ops, steps of optimisers.
namespace heddle::fuzz {
namespace {

using Context = ggml_context;

Tensor* loss(Context* c, Operands x, Dice&) {
    return ggml_cross_entropy_loss(c, matrix(c, x[0], 8, 4),
                                   ggml_soft_max(c, matrix(c, x[1], 8, 4)));
}
Tensor* loss_back(Context* c, Operands x, Dice&) {
    return ggml_cross_entropy_loss_back(c, line(c, tame(c, x[2]), 1), matrix(c, x[0], 8, 4),
                                        ggml_soft_max(c, matrix(c, x[1], 8, 4)));
}
Tensor* silu_back(Context* c, Operands x, Dice&) {
    Tensor* a = dense(c, x[0]);
    return ggml_silu_back(c, a, shaped(c, x[1], a));
}
Tensor* norm_back(Context* c, Operands x, Dice&) {
    Tensor* a = rows_of(c, x[0], 16);
    return ggml_rms_norm_back(c, a, shaped(c, x[1], a), 0.1F);
}
Tensor* repeat_back(Context* c, Operands x, Dice&) {
    return ggml_scale(c, ggml_repeat_back(c, matrix(c, x[0], 16, 8), matrix(c, x[1], 8, 2)), 0.2F);
}
Tensor* lookup_back(Context* c, Operands x, Dice&) {
    Tensor* ids = some_ids(c, x, x[1], 4);
    return ggml_get_rows_back(c, matrix(c, x[0], 16, 4), ids, matrix(c, x[2], 16, kIds));
}
Tensor* soft_max_back(Context* c, Operands x, Dice& dice) {
    Tensor* y = ggml_soft_max(c, rows_of(c, x[0], 16));
    Tensor* dy = shaped(c, x[1], y);
    return dice.one_in(2) ? ggml_soft_max_ext_back(c, dy, y, 0.5F, 0)
                          : ggml_soft_max_ext_back_inplace(c, ggml_dup(c, dy), y, 0.5F, 0);
}
Tensor* rotate_back(Context* c, Operands x, Dice&) {
    return ggml_rope_ext_back(c, cube(c, x[0], 16, 2, 4), some_ids(c, x, x[1], 4), nullptr, 16,
                              GGML_ROPE_TYPE_NEOX, 0, 10000, 1, 0, 1, 32, 1);
}

/// Weights and both moments are rows of one state: the op writes all of them, and where it runs
/// they must be.
Tensor* adam(Context* c, Operands x, Dice&) {
    Tensor* state = state_of(x);
    if (state == nullptr) return nullptr;
    const auto rows = [&](std::size_t first) {
        return ggml_view_2d(c, state, state->ne[0], 2, state->nb[1], first * state->nb[1]);
    };
    Tensor* weights = rows(0);
    Tensor* second = ggml_sqr_inplace(c, rows(4));
    if (weights == nullptr || second == nullptr) return nullptr;
    weights->flags |= GGML_TENSOR_FLAG_PARAM;
    Tensor* gradient = shaped(c, tame(c, x[0] == state ? x[1] : x[0]), weights);
    return ggml_opt_step_adamw(c, weights, gradient, rows(2), second, line(c, share(c, x[2]), 7));
}
Tensor* descend(Context* c, Operands x, Dice&) {
    Tensor* weights = state_of(x);
    if (weights == nullptr) return nullptr;
    Tensor* gradient = shaped(c, tame(c, x[0] == weights ? x[1] : x[0]), weights);
    ggml_set_param(weights);
    return ggml_opt_step_sgd(c, weights, gradient, line(c, share(c, x[2]), 2));
}

constexpr OpRule kOps[] = {
    {"loss", loss},
    {"loss_back", loss_back, true},  // of logits that give the very labels only rounding is left
    {"silu_back", silu_back},
    {"rms_norm_back", norm_back},
    {"repeat_back", repeat_back},
    {"get_rows_back", lookup_back, true},
    {"soft_max_back", soft_max_back},
    {"rope_back", rotate_back, true},
    {"adamw", adam},
    {"adamw", adam},
    {"sgd", descend},
    {"sgd", descend},
};

}  // namespace

std::span<const OpRule> training_ops() { return kOps; }

}  // namespace heddle::fuzz
