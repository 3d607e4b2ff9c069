// Builders of the ops that work element by element.

#include "capi/boundary.hpp"
#include "ggml.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ops/acc_set.hpp"
#include "ops/add1.hpp"
#include "ops/add_id.hpp"
#include "ops/binary.hpp"
#include "ops/clamp.hpp"
#include "ops/glu.hpp"
#include "ops/leaky_relu.hpp"
#include "ops/math.hpp"
#include "ops/scale.hpp"
#include "ops/unary.hpp"

using namespace heddle;
using capi::node;
using capi::node_in_place;

namespace {

Tensor* unary(Context* context, Tensor* x, ggml_unary_op function) {
    return node<ops::Unary>(context, ops::Unary::of(function), {x});
}

Tensor* unary_in_place(Context* context, Tensor* x, ggml_unary_op function) {
    return node_in_place<ops::Unary>(context, ops::Unary::of(function), {x});
}

/// The two halves of each row of x.
Tensor* glu(Context* context, Tensor* x, ggml_glu_op function, bool swapped) {
    return node<ops::Glu>(context,
                          {.function = static_cast<std::int32_t>(function), .swapped = swapped},
                          {x, nullptr});
}

Tensor* glu_split(Context* context, Tensor* a, Tensor* b, ggml_glu_op function) {
    return node<ops::Glu>(context, {.function = static_cast<std::int32_t>(function)}, {a, b});
}

template <class D>
Tensor* region_node(Context* context, Tensor* a, Tensor* b, const ops::Region& region) {
    return node<D>(context, D::at(region, false), {a, b});
}

template <class D>
Tensor* region_node_in_place(Context* context, Tensor* a, Tensor* b, const ops::Region& region) {
    return node_in_place<D>(context, D::at(region, true), {a, b});
}

/// A missing operand has none; the builder says that it is missing.
std::size_t stride(const Tensor* x, int dimension) { return x == nullptr ? 0 : x->nb[dimension]; }

}  // namespace

// ---- two operands ------------------------------------------------------------------------------

ggml_tensor* ggml_add(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::Add>(ctx, {}, {a, b});
}
ggml_tensor* ggml_add_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node_in_place<ops::Add>(ctx, {}, {a, b});
}
ggml_tensor* ggml_sub(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::Sub>(ctx, {}, {a, b});
}
ggml_tensor* ggml_sub_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node_in_place<ops::Sub>(ctx, {}, {a, b});
}
ggml_tensor* ggml_mul(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::Mul>(ctx, {}, {a, b});
}
ggml_tensor* ggml_mul_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node_in_place<ops::Mul>(ctx, {}, {a, b});
}
ggml_tensor* ggml_div(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::Div>(ctx, {}, {a, b});
}
ggml_tensor* ggml_div_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node_in_place<ops::Div>(ctx, {}, {a, b});
}
ggml_tensor* ggml_add1(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::Add1>(ctx, {}, {a, b});
}
ggml_tensor* ggml_add1_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node_in_place<ops::Add1>(ctx, {}, {a, b});
}

ggml_tensor* ggml_add_cast(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_type type) {
    return node<ops::Add>(ctx, {.type = type}, {a, b});
}
ggml_tensor* ggml_add_id(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_tensor* ids) {
    return node<ops::AddId>(ctx, {}, {a, b, ids});
}

ggml_tensor* ggml_acc(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, size_t nb1, size_t nb2,
                      size_t nb3, size_t offset) {
    return region_node<ops::Acc>(ctx, a, b, {nb1, nb2, nb3, offset});
}
ggml_tensor* ggml_acc_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, size_t nb1,
                              size_t nb2, size_t nb3, size_t offset) {
    return region_node_in_place<ops::Acc>(ctx, a, b, {nb1, nb2, nb3, offset});
}
ggml_tensor* ggml_set(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, size_t nb1, size_t nb2,
                      size_t nb3, size_t offset) {
    return region_node<ops::Set>(ctx, a, b, {nb1, nb2, nb3, offset});
}
ggml_tensor* ggml_set_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, size_t nb1,
                              size_t nb2, size_t nb3, size_t offset) {
    return region_node_in_place<ops::Set>(ctx, a, b, {nb1, nb2, nb3, offset});
}

// What is not given of the region lies as in a.

ggml_tensor* ggml_set_1d(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, size_t offset) {
    return region_node<ops::Set>(ctx, a, b, {stride(a, 1), stride(a, 2), stride(a, 3), offset});
}
ggml_tensor* ggml_set_1d_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, size_t offset) {
    return region_node_in_place<ops::Set>(ctx, a, b,
                                          {stride(a, 1), stride(a, 2), stride(a, 3), offset});
}
ggml_tensor* ggml_set_2d(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, size_t nb1,
                         size_t offset) {
    return region_node<ops::Set>(ctx, a, b, {nb1, stride(a, 2), stride(a, 3), offset});
}
ggml_tensor* ggml_set_2d_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, size_t nb1,
                                 size_t offset) {
    return region_node_in_place<ops::Set>(ctx, a, b, {nb1, stride(a, 2), stride(a, 3), offset});
}

// ---- one operand -------------------------------------------------------------------------------

ggml_tensor* ggml_sqr(ggml_context* ctx, ggml_tensor* a) { return node<ops::Sqr>(ctx, {}, {a}); }
ggml_tensor* ggml_sqr_inplace(ggml_context* ctx, ggml_tensor* a) {
    return node_in_place<ops::Sqr>(ctx, {}, {a});
}
ggml_tensor* ggml_sqrt(ggml_context* ctx, ggml_tensor* a) { return node<ops::Sqrt>(ctx, {}, {a}); }
ggml_tensor* ggml_sqrt_inplace(ggml_context* ctx, ggml_tensor* a) {
    return node_in_place<ops::Sqrt>(ctx, {}, {a});
}
ggml_tensor* ggml_log(ggml_context* ctx, ggml_tensor* a) { return node<ops::Log>(ctx, {}, {a}); }
ggml_tensor* ggml_log_inplace(ggml_context* ctx, ggml_tensor* a) {
    return node_in_place<ops::Log>(ctx, {}, {a});
}
ggml_tensor* ggml_sin(ggml_context* ctx, ggml_tensor* a) { return node<ops::Sin>(ctx, {}, {a}); }
ggml_tensor* ggml_sin_inplace(ggml_context* ctx, ggml_tensor* a) {
    return node_in_place<ops::Sin>(ctx, {}, {a});
}
ggml_tensor* ggml_cos(ggml_context* ctx, ggml_tensor* a) { return node<ops::Cos>(ctx, {}, {a}); }
ggml_tensor* ggml_cos_inplace(ggml_context* ctx, ggml_tensor* a) {
    return node_in_place<ops::Cos>(ctx, {}, {a});
}

ggml_tensor* ggml_scale(ggml_context* ctx, ggml_tensor* a, float s) {
    return node<ops::Scale>(ctx, {.scale = s}, {a});
}
ggml_tensor* ggml_scale_inplace(ggml_context* ctx, ggml_tensor* a, float s) {
    return node_in_place<ops::Scale>(ctx, {.scale = s}, {a});
}
ggml_tensor* ggml_scale_bias(ggml_context* ctx, ggml_tensor* a, float s, float b) {
    return node<ops::Scale>(ctx, {.scale = s, .bias = b}, {a});
}
ggml_tensor* ggml_scale_bias_inplace(ggml_context* ctx, ggml_tensor* a, float s, float b) {
    return node_in_place<ops::Scale>(ctx, {.scale = s, .bias = b}, {a});
}

ggml_tensor* ggml_clamp(ggml_context* ctx, ggml_tensor* a, float min, float max) {
    return node<ops::Clamp>(ctx, {.min = min, .max = max}, {a});
}

ggml_tensor* ggml_leaky_relu(ggml_context* ctx, ggml_tensor* a, float negative_slope,
                             bool inplace) {
    if (inplace) return node_in_place<ops::LeakyRelu>(ctx, {.slope = negative_slope}, {a});
    return node<ops::LeakyRelu>(ctx, {.slope = negative_slope}, {a});
}

ggml_tensor* ggml_unary(ggml_context* ctx, ggml_tensor* a, ggml_unary_op op) {
    return unary(ctx, a, op);
}
ggml_tensor* ggml_unary_inplace(ggml_context* ctx, ggml_tensor* a, ggml_unary_op op) {
    return unary_in_place(ctx, a, op);
}

ggml_tensor* ggml_abs(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_ABS);
}
ggml_tensor* ggml_abs_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_ABS);
}
ggml_tensor* ggml_sgn(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_SGN);
}
ggml_tensor* ggml_sgn_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_SGN);
}
ggml_tensor* ggml_neg(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_NEG);
}
ggml_tensor* ggml_neg_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_NEG);
}
ggml_tensor* ggml_step(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_STEP);
}
ggml_tensor* ggml_step_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_STEP);
}
ggml_tensor* ggml_tanh(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_TANH);
}
ggml_tensor* ggml_tanh_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_TANH);
}
ggml_tensor* ggml_elu(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_ELU);
}
ggml_tensor* ggml_elu_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_ELU);
}
ggml_tensor* ggml_relu(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_RELU);
}
ggml_tensor* ggml_relu_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_RELU);
}
ggml_tensor* ggml_sigmoid(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_SIGMOID);
}
ggml_tensor* ggml_sigmoid_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_SIGMOID);
}
ggml_tensor* ggml_gelu(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_GELU);
}
ggml_tensor* ggml_gelu_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_GELU);
}
ggml_tensor* ggml_gelu_quick(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_GELU_QUICK);
}
ggml_tensor* ggml_gelu_quick_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_GELU_QUICK);
}
ggml_tensor* ggml_gelu_erf(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_GELU_ERF);
}
ggml_tensor* ggml_gelu_erf_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_GELU_ERF);
}
ggml_tensor* ggml_silu(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_SILU);
}
ggml_tensor* ggml_silu_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_SILU);
}
ggml_tensor* ggml_exp(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_EXP);
}
ggml_tensor* ggml_exp_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_EXP);
}
ggml_tensor* ggml_expm1(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_EXPM1);
}
ggml_tensor* ggml_expm1_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_EXPM1);
}
ggml_tensor* ggml_softplus(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_SOFTPLUS);
}
ggml_tensor* ggml_softplus_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_SOFTPLUS);
}
ggml_tensor* ggml_floor(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_FLOOR);
}
ggml_tensor* ggml_floor_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_FLOOR);
}
ggml_tensor* ggml_ceil(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_CEIL);
}
ggml_tensor* ggml_ceil_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_CEIL);
}
ggml_tensor* ggml_round(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_ROUND);
}
ggml_tensor* ggml_round_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_ROUND);
}
ggml_tensor* ggml_trunc(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_TRUNC);
}
ggml_tensor* ggml_trunc_inplace(ggml_context* ctx, ggml_tensor* a) {
    return unary_in_place(ctx, a, GGML_UNARY_OP_TRUNC);
}
ggml_tensor* ggml_hardswish(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_HARDSWISH);
}
ggml_tensor* ggml_hardsigmoid(ggml_context* ctx, ggml_tensor* a) {
    return unary(ctx, a, GGML_UNARY_OP_HARDSIGMOID);
}
ggml_tensor* ggml_xielu(ggml_context* ctx, ggml_tensor* a, float alpha_n, float alpha_p, float beta,
                        float eps) {
    return node<ops::Unary>(ctx, ops::Unary::xielu(alpha_n, alpha_p, beta, eps), {a});
}

// ---- gated linear units ------------------------------------------------------------------------

ggml_tensor* ggml_glu(ggml_context* ctx, ggml_tensor* a, ggml_glu_op op, bool swapped) {
    return glu(ctx, a, op, swapped);
}
ggml_tensor* ggml_glu_split(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_glu_op op) {
    return glu_split(ctx, a, b, op);
}

ggml_tensor* ggml_reglu(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_REGLU, false);
}
ggml_tensor* ggml_reglu_swapped(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_REGLU, true);
}
ggml_tensor* ggml_reglu_split(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return glu_split(ctx, a, b, GGML_GLU_OP_REGLU);
}
ggml_tensor* ggml_geglu(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_GEGLU, false);
}
ggml_tensor* ggml_geglu_swapped(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_GEGLU, true);
}
ggml_tensor* ggml_geglu_split(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return glu_split(ctx, a, b, GGML_GLU_OP_GEGLU);
}
ggml_tensor* ggml_swiglu(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_SWIGLU, false);
}
ggml_tensor* ggml_swiglu_swapped(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_SWIGLU, true);
}
ggml_tensor* ggml_swiglu_split(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return glu_split(ctx, a, b, GGML_GLU_OP_SWIGLU);
}
ggml_tensor* ggml_geglu_erf(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_GEGLU_ERF, false);
}
ggml_tensor* ggml_geglu_erf_swapped(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_GEGLU_ERF, true);
}
ggml_tensor* ggml_geglu_erf_split(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return glu_split(ctx, a, b, GGML_GLU_OP_GEGLU_ERF);
}
ggml_tensor* ggml_geglu_quick(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_GEGLU_QUICK, false);
}
ggml_tensor* ggml_geglu_quick_swapped(ggml_context* ctx, ggml_tensor* a) {
    return glu(ctx, a, GGML_GLU_OP_GEGLU_QUICK, true);
}
ggml_tensor* ggml_geglu_quick_split(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return glu_split(ctx, a, b, GGML_GLU_OP_GEGLU_QUICK);
}
ggml_tensor* ggml_swiglu_oai(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, float alpha,
                             float limit) {
    return node<ops::Glu>(ctx, {.function = GGML_GLU_OP_SWIGLU_OAI, .alpha = alpha, .limit = limit},
                          {a, b});
}
