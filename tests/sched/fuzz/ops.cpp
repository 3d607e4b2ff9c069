#include "ggml/ops.h"

#include "recipe.hpp"
#include "shapes.hpp"

namespace heddle::fuzz {
namespace {

using Context = ggml_context;

// ---- elementwise -------------------------------------------------------------------------------

template <Tensor* (*function)(Context*, Tensor*, Tensor*)>
Tensor* binary(Context* c, Operands x, Dice&) {
    Tensor* a = floats(c, x[0]);
    return function(c, a, matching(c, x[1], a));
}
template <Tensor* (*function)(Context*, Tensor*, Tensor*)>
Tensor* binary_in_place(Context* c, Operands x, Dice&) {
    Tensor* a = own(c, x[0]);
    return function(c, a, apart(c, matching(c, x[1], a), a));
}
Tensor* divide(Context* c, Operands x, Dice&) {
    Tensor* a = floats(c, x[0]);
    Tensor* b = matching(c, x[1], a);
    return ggml_div(c, a, ggml_scale_bias(c, ggml_sqr(c, dense(c, b)), 1, 0.5F));
}

constexpr ggml_unary_op kSmooth[] = {
    GGML_UNARY_OP_ABS,     GGML_UNARY_OP_NEG,       GGML_UNARY_OP_TANH,       GGML_UNARY_OP_ELU,
    GGML_UNARY_OP_RELU,    GGML_UNARY_OP_GELU,      GGML_UNARY_OP_GELU_QUICK, GGML_UNARY_OP_SILU,
    GGML_UNARY_OP_SIGMOID, GGML_UNARY_OP_HARDSWISH, GGML_UNARY_OP_HARDSIGMOID};
constexpr ggml_unary_op kSteps[] = {GGML_UNARY_OP_SGN,  GGML_UNARY_OP_STEP,  GGML_UNARY_OP_FLOOR,
                                    GGML_UNARY_OP_CEIL, GGML_UNARY_OP_ROUND, GGML_UNARY_OP_TRUNC};

Tensor* unary(Context* c, Operands x, Dice& dice) {
    return ggml_unary(c, dense(c, x[0]), kSmooth[dice.below(std::size(kSmooth))]);
}
Tensor* unary_in_place(Context* c, Operands x, Dice& dice) {
    return ggml_unary_inplace(c, own(c, dense(c, x[0])), kSmooth[dice.below(std::size(kSmooth))]);
}
Tensor* stairs(Context* c, Operands x, Dice& dice) {
    return ggml_unary(c, dense(c, x[0]), kSteps[dice.below(std::size(kSteps))]);
}
Tensor* exponential(Context* c, Operands x, Dice& dice) {
    Tensor* a = tame(c, x[0]);
    return dice.one_in(2) ? ggml_exp(c, a) : ggml_expm1(c, a);
}
Tensor* logarithm(Context* c, Operands x, Dice&) {
    return ggml_log(c, ggml_scale_bias(c, ggml_sigmoid(c, dense(c, x[0])), 1, 0.5F));
}
Tensor* root(Context* c, Operands x, Dice&) { return ggml_sqrt(c, ggml_sqr(c, tame(c, x[0]))); }
template <Tensor* (*function)(Context*, Tensor*)>
Tensor* mapped(Context* c, Operands x, Dice&) {
    return function(c, tame(c, x[0]));
}
Tensor* scale(Context* c, Operands x, Dice& dice) {
    return ggml_scale(c, dense(c, x[0]), dice.number(-1.5F, 1.5F));
}
Tensor* scale_in_place(Context* c, Operands x, Dice& dice) {
    return ggml_scale_bias_inplace(c, own(c, dense(c, x[0])), dice.number(-1.2F, 1.2F), 0.1F);
}
Tensor* clamp(Context* c, Operands x, Dice&) {
    return ggml_clamp(c, own(c, dense(c, x[0])), -0.75F, 0.75F);
}
Tensor* leaky(Context* c, Operands x, Dice& dice) {
    return ggml_leaky_relu(c, own(c, dense(c, x[0])), 0.1F, dice.one_in(2));
}
Tensor* gated(Context* c, Operands x, Dice& dice) {
    const auto op = static_cast<ggml_glu_op>(dice.below(GGML_GLU_OP_SWIGLU + 1));
    return ggml_glu(c, rows_of(c, x[0], 16), op, dice.one_in(2));
}
Tensor* gated_split(Context* c, Operands x, Dice&) {
    Tensor* a = rows_of(c, x[0], 16);
    return a == nullptr ? a : ggml_swiglu_split(c, a, matrix(c, x[1], 16, a->ne[1]));
}
Tensor* add_scalar(Context* c, Operands x, Dice& dice) {
    Tensor* b = line(c, x[1], 1);
    if (dice.one_in(2)) return ggml_add1(c, dense(c, x[0]), b);
    Tensor* a = own(c, dense(c, x[0]));
    return ggml_add1_inplace(c, a, apart(c, b, a));
}
Tensor* add_chosen(Context* c, Operands x, Dice&) {
    Tensor* ids = some_ids(c, x, x[2], 8);
    if (ids == nullptr) return ids;
    return ggml_add_id(c, cube(c, x[0], 16, 2, 4), matrix(c, x[1], 16, kIds),
                       ggml_reshape_2d(c, ids, 2, 4));
}
Tensor* fill(Context* c, Operands x, Dice& dice) {
    const float value = dice.number(-1, 1);
    // Some of it stays, or the rest of the graph would be dead.
    Tensor* same = dice.one_in(2) ? ggml_fill(c, dense(c, x[0]), value)
                                  : ggml_fill_inplace(c, ggml_dup(c, dense(c, x[0])), value);
    return ggml_add(c, same, dense(c, x[0]));
}

// ---- rows --------------------------------------------------------------------------------------

Tensor* norm(Context* c, Operands x, Dice& dice) {
    Tensor* a = dense(c, x[0]);
    switch (dice.below(4)) {
        case 0:
            return ggml_norm(c, a, 1e-5F);
        case 1:
            return ggml_rms_norm(c, a, 1e-5F);
        case 2:
            return ggml_l2_norm(c, a, 1e-5F);
        default:
            return ggml_group_norm(c, cube(c, a, 4, 2, 4), 2, 1e-5F);
    }
}
Tensor* scaled_norm(Context* c, Operands x, Dice&) {
    Tensor* a = ggml_rms_norm(c, dense(c, x[0]), 1e-5F);
    return ggml_mul(c, a, matching(c, x[1], a));
}
Tensor* norm_in_place(Context* c, Operands x, Dice&) {
    return ggml_rms_norm_inplace(c, own(c, dense(c, x[0])), 1e-5F);
}
Tensor* soft_max(Context* c, Operands x, Dice& dice) {
    if (dice.one_in(2)) return ggml_soft_max(c, dense(c, x[0]));
    Tensor* a = rows_of(c, x[0], 16);
    return a == nullptr ? a : ggml_soft_max_ext(c, a, matrix(c, x[1], 16, a->ne[1]), 0.5F, 0);
}
Tensor* soft_max_in_place(Context* c, Operands x, Dice&) {
    return ggml_soft_max_inplace(c, own(c, dense(c, x[0])));
}
Tensor* masked(Context* c, Operands x, Dice& dice) {
    Tensor* a = matrix(c, x[0], 8, 8);
    if (dice.one_in(2)) return ggml_diag_mask_zero(c, a, 0);
    return ggml_soft_max(c, ggml_diag_mask_inf(c, a, 0));
}
Tensor* total(Context* c, Operands x, Dice& dice) {
    Tensor* a = dense(c, x[0]);
    switch (dice.below(4)) {
        case 0:
            return ggml_scale(c, ggml_sum(c, a), 0.1F);
        case 1:
            return ggml_scale(c, ggml_sum_rows(c, a), 0.1F);
        case 2:
            return ggml_mean(c, a);
        default:
            return ggml_scale(c, ggml_cumsum(c, a), 0.1F);
    }
}
Tensor* sorted_rows(Context* c, Operands x, Dice&) {
    Tensor* a = rows_of(c, x[0], 16);
    if (a == nullptr) return a;
    return ggml_get_rows(c, a, ggml_argsort(c, line(c, x[1], a->ne[1]), GGML_SORT_ORDER_ASC));
}
Tensor* largest(Context* c, Operands x, Dice&) {
    return ggml_get_rows(c, matrix(c, x[0], 8, 16), ggml_argmax(c, rows_of(c, x[1], 16)));
}

Tensor* agreement(Context* c, Operands x, Dice&) {
    return ggml_count_equal(c, ggml_argmax(c, matrix(c, x[0], 8, 16)),
                            ggml_argmax(c, matrix(c, x[1], 8, 16)));
}

// ---- products ----------------------------------------------------------------------------------

Tensor* product(Context* c, Operands x, Dice&) {
    Tensor* w = x[0];
    if (w->type == GGML_TYPE_I32) return nullptr;
    if (!ggml_is_contiguous(w)) w = dense(c, w);
    Tensor* y = ggml_mul_mat(c, w, w == nullptr ? w : rows_of(c, x[1], w->ne[0]));
    return ggml_scale(c, y, 0.25F);
}
/// A lower triangle whose diagonal is far from 0.
Tensor* solve(Context* c, Operands x, Dice&) {
    Tensor* below = ggml_scale(c, tame(c, matrix(c, x[0], 8, 8)), 0.2F);
    Tensor* diagonal = ggml_scale_bias(c, share(c, line(c, x[1], 8)), 1, 0.5F);
    Tensor* a = ggml_add(c, ggml_tri(c, below, GGML_TRI_TYPE_LOWER), ggml_diag(c, diagonal));
    return ggml_scale(c, ggml_solve_tri(c, a, matrix(c, x[2], 4, 8), true, true, false), 0.25F);
}
Tensor* attention(Context* c, Operands x, Dice&) {
    Tensor *q = matrix(c, x[0], 16, 4), *k = matrix(c, x[1], 16, 8), *v = matrix(c, x[2], 16, 8);
    Tensor* weights = ggml_soft_max(c, ggml_mul_mat(c, k, q));
    return ggml_mul_mat(c, ggml_cont(c, ggml_transpose(c, v)), weights);
}
Tensor* flash_attention(Context* c, Operands x, Dice&) {
    Tensor* q = cube(c, x[0], 16, 4, 2);
    Tensor* k = ggml_cast(c, cube(c, x[1], 16, 8, 2), GGML_TYPE_F16);
    Tensor* v = ggml_cast(c, cube(c, x[2], 16, 8, 2), GGML_TYPE_F16);
    return ggml_flash_attn_ext(c, q, k, v, nullptr, 0.25F, 0, 0);
}
Tensor* outer(Context* c, Operands x, Dice&) {
    return ggml_scale(c, ggml_out_prod(c, matrix(c, x[0], 8, 4), matrix(c, x[1], 6, 4)), 0.25F);
}
Tensor* experts(Context* c, Operands x, Dice& dice) {
    Tensor* w = nullptr;
    for (Tensor* each : x) {
        if (each->type != GGML_TYPE_I32 && each->ne[2] >= 2 && ggml_is_contiguous(each)) w = each;
    }
    if (w == nullptr) return nullptr;
    const std::int64_t tokens = 4;
    Tensor* in = cube(c, x[1] == w ? x[0] : x[1], w->ne[0], 1, tokens);
    Tensor* scores = matrix(c, x[2] == w ? x[0] : x[2], w->ne[2], tokens);
    return ggml_scale(c, ggml_mul_mat_id(c, w, in, ggml_top_k(c, scores, dice.between(1, 2))),
                      0.25F);
}
Tensor* rotate(Context* c, Operands x, Dice& dice) {
    Tensor* at = x[1]->type == GGML_TYPE_I32 ? ggml_view_1d(c, x[1], 4, 0) : nullptr;
    if (at == nullptr) at = ggml_cast(c, ggml_arange(c, 0, 4, 1), GGML_TYPE_I32);
    Tensor* a = cube(c, x[0], 16, 2, 4);
    return dice.one_in(2) ? ggml_rope(c, a, at, 16, GGML_ROPE_TYPE_NEOX)
                          : ggml_rope_inplace(c, own(c, a), at, 8, GGML_ROPE_TYPE_NORMAL);
}

// ---- movement ----------------------------------------------------------------------------------

Tensor* transpose(Context* c, Operands x, Dice& dice) {
    Tensor* a = ggml_transpose(c, floats(c, x[0]));
    return dice.one_in(2) ? a : ggml_cont(c, a);
}
Tensor* permute(Context* c, Operands x, Dice& dice) {
    Tensor* a = ggml_permute(c, floats(c, x[0]), 1, 2, 0, 3);
    return dice.one_in(3) ? a : ggml_cont(c, a);
}
Tensor* reshape(Context* c, Operands x, Dice& dice) {
    Tensor* a = dense(c, x[0]);
    if (a == nullptr) return a;
    const std::int64_t n = ggml_nelements(a), width = dice.pick<std::int64_t>({2, 4, 8, 16});
    return n % width == 0 ? ggml_reshape_2d(c, a, width, n / width) : nullptr;
}
Tensor* part(Context* c, Operands x, Dice& dice) {
    Tensor* a = floats(c, x[0]);
    if (a == nullptr || a->ne[0] < 4 || a->ne[1] < 2) return nullptr;
    const std::int64_t skip = dice.below(2);
    return ggml_view_2d(c, a, a->ne[0] / 2, a->ne[1] - skip, a->nb[1],
                        static_cast<std::size_t>(skip) * a->nb[1] + a->nb[0]);
}
/// Half of the rows, from any of them on: whole rows, which ops may work on in place.
Tensor* slice(Context* c, Operands x, Dice& dice) {
    Tensor* a = rows_of(c, ggml_scale(c, dense(c, x[0]), 0.5F), 16);
    if (a == nullptr || a->ne[1] < 2) return nullptr;
    const std::int64_t rows = a->ne[1] / 2, first = dice.below(static_cast<int>(rows) + 1);
    Tensor* some =
        ggml_view_2d(c, a, 16, rows, a->nb[1], static_cast<std::size_t>(first) * a->nb[1]);
    return ggml_tanh(c, some);
}
Tensor* repeat(Context* c, Operands x, Dice& dice) {
    Tensor* a = dense(c, x[0]);
    if (a == nullptr || ggml_nelements(a) > 2048) return nullptr;
    return ggml_repeat_4d(c, a, a->ne[0], a->ne[1] * dice.between(1, 3), a->ne[2], a->ne[3]);
}
Tensor* concat(Context* c, Operands x, Dice& dice) {
    Tensor *a = rows_of(c, x[0], 16), *b = rows_of(c, x[1], 16);
    if (a == nullptr || b == nullptr) return nullptr;
    if (dice.one_in(2) || a->ne[1] != b->ne[1]) return ggml_concat(c, a, b, 1);
    return ggml_concat(c, a, b, 0);
}
Tensor* pad(Context* c, Operands x, Dice& dice) {
    Tensor* a = dense(c, x[0]);
    if (a == nullptr || ggml_nelements(a) > 2048) return nullptr;
    if (dice.one_in(3) && a->ne[0] > 4) return ggml_pad_reflect_1d(c, a, 2, 1);
    return ggml_pad(c, a, dice.below(4), dice.below(2), 0, 0);
}
Tensor* roll(Context* c, Operands x, Dice& dice) {
    Tensor* a = rows_of(c, x[0], 16);
    return ggml_roll(c, a, dice.between(-5, 5), 0, 0, 0);
}
Tensor* resize(Context* c, Operands x, Dice& dice) {
    const auto mode = dice.one_in(2) ? GGML_SCALE_MODE_NEAREST : GGML_SCALE_MODE_BILINEAR;
    return ggml_upscale(c, cube(c, x[0], 4, 4, 2), 2, mode);
}
Tensor* copy(Context* c, Operands x, Dice& dice) {
    Tensor* a = floats(c, x[0]);
    if (dice.one_in(2)) return ggml_dup(c, a);
    return ggml_cast(c, ggml_cast(c, a, GGML_TYPE_F16), GGML_TYPE_F32);
}
Tensor* set_part(Context* c, Operands x, Dice& dice) {
    Tensor *a = matrix(c, x[0], 16, 4), *b = matrix(c, x[1], 8, 2);
    if (a == nullptr) return a;
    switch (dice.below(4)) {
        case 0:
            return ggml_set(c, a, b, a->nb[1], a->nb[2], a->nb[3], 16);
        case 1:
            return ggml_set_inplace(c, own(c, ggml_dup(c, a)), b, a->nb[1], a->nb[2], a->nb[3], 16);
        case 2:
            return ggml_acc(c, a, b, a->nb[1], a->nb[2], a->nb[3], 16);
        default:
            return ggml_acc_inplace(c, ggml_dup(c, a), b, a->nb[1], a->nb[2], a->nb[3], 16);
    }
}
Tensor* lookup(Context* c, Operands x, Dice&) {
    if (x[0]->ne[1] < kIds || x[0]->type == GGML_TYPE_I32 || x[1]->type != GGML_TYPE_I32) {
        return nullptr;
    }
    return ggml_get_rows(c, x[0], x[1]);
}
Tensor* generate(Context* c, Operands x, Dice& dice) {
    if (dice.one_in(2)) return ggml_timestep_embedding(c, line(c, x[0], 4), 16, 100);
    Tensor* a = rows_of(c, x[0], 16);
    return ggml_add(c, a, ggml_scale(c, ggml_arange(c, 0, 16, 1), 0.05F));
}
Tensor* triangle(Context* c, Operands x, Dice& dice) {
    if (dice.one_in(2)) return ggml_diag(c, line(c, x[0], 8));
    return ggml_tri(c, matrix(c, x[0], 8, 8), GGML_TRI_TYPE_LOWER);
}

constexpr OpRule kOps[] = {
    {"add", binary<ggml_add>},
    {"sub", binary<ggml_sub>},
    {"mul", binary<ggml_mul>},
    {"div", divide},
    {"add_inplace", binary_in_place<ggml_add_inplace>},
    {"mul_inplace", binary_in_place<ggml_mul_inplace>},
    {"unary", unary},
    {"unary_inplace", unary_in_place},
    {"stairs", stairs, true},
    {"exp", exponential},
    {"log", logarithm},
    {"sqrt", root},
    {"sin", mapped<ggml_sin>},
    {"cos", mapped<ggml_cos>},
    {"scale", scale},
    {"scale_inplace", scale_in_place},
    {"clamp", clamp},
    {"leaky_relu", leaky},
    {"add1", add_scalar},
    {"add_id", add_chosen, true},
    {"fill", fill},
    {"glu", gated},
    {"glu_split", gated_split},
    {"norm", norm},
    {"norm_mul", scaled_norm},
    {"norm_inplace", norm_in_place},
    {"soft_max", soft_max},
    {"soft_max_inplace", soft_max_in_place},
    {"diag_mask", masked},
    {"sum", total},
    {"argsort", sorted_rows, true},
    {"argmax", largest, true},
    {"count_equal", agreement, true},
    {"mul_mat", product},
    {"mul_mat", product},
    {"mul_mat", product},
    {"solve_tri", solve},
    {"attention", attention},
    {"flash_attn", flash_attention},
    {"out_prod", outer},
    {"mul_mat_id", experts, true},
    {"mul_mat_id", experts, true},
    {"rope", rotate},
    {"transpose", transpose},
    {"permute", permute},
    {"reshape", reshape},
    {"view", part, false, true},
    {"slice", slice, false, true},
    {"repeat", repeat},
    {"concat", concat},
    {"pad", pad},
    {"roll", roll},
    {"upscale", resize},
    {"copy", copy},
    {"set", set_part},
    {"get_rows", lookup},
    {"generate", generate},
    {"triangle", triangle},
};

}  // namespace

std::span<const OpRule> ops() {
    static const std::vector<OpRule> all = [] {
        std::vector<OpRule> rules(std::begin(kOps), std::end(kOps));
        for (const auto more :
             {state_ops(), image_ops(), sequence_ops(), training_ops(), custom_ops(), type_ops()}) {
            rules.insert(rules.end(), more.begin(), more.end());
        }
        return rules;
    }();
    return all;
}

}  // namespace heddle::fuzz
