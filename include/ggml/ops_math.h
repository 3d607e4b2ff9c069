/// Building tensors: arithmetic, functions of one number, activations.
///
/// Included by `ggml.h`; programs include that one.
///
/// Builders compute nothing. They check their operands, make the result in `ctx` and note how to
/// compute it; a backend does that when a graph runs. Results are new and dense unless said
/// otherwise and have the type and extents of `a`. Functions in place return a view of `a` and
/// overwrite it when the graph runs. Operands that do not fit are an error: see heddle/heddle.h.
///
/// "b broadcast to a" means that b is repeated a whole number of times in every dimension.
#pragma once

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// ------------------------------------------------------------------------------------------------
// Arithmetic

/// a + b, with b broadcast to a.
GGML_API struct ggml_tensor* ggml_add(struct ggml_context* ctx, struct ggml_tensor* a,
                                      struct ggml_tensor* b);

/// ggml_add() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_add_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b);

/// a + b in another type; `a` is F16, BF16 or quantized, `b` has rows as long as those of `a`.
GGML_API struct ggml_tensor* ggml_add_cast(struct ggml_context* ctx, struct ggml_tensor* a,
                                           struct ggml_tensor* b, enum ggml_type type);

/// a(:, i, j) + b(:, ids(i, j)): adds to each row the row of `b` that the I32 `ids` choose.
GGML_API struct ggml_tensor* ggml_add_id(struct ggml_context* ctx, struct ggml_tensor* a,
                                         struct ggml_tensor* b, struct ggml_tensor* ids);

/// a + b for a scalar `b`.
GGML_DEPRECATED(GGML_API struct ggml_tensor* ggml_add1(struct ggml_context* ctx,
                                                       struct ggml_tensor* a,
                                                       struct ggml_tensor* b),
                "use ggml_add() instead");

/// ggml_add1() that writes over `a` and returns a view of it.
GGML_DEPRECATED(GGML_API struct ggml_tensor* ggml_add1_inplace(struct ggml_context* ctx,
                                                               struct ggml_tensor* a,
                                                               struct ggml_tensor* b),
                "use ggml_add_inplace() instead");

/// a with `b` added to the region that begins `offset` bytes in and has strides nb1 to nb3 (bytes).
/// F32.
GGML_API struct ggml_tensor* ggml_acc(struct ggml_context* ctx, struct ggml_tensor* a,
                                      struct ggml_tensor* b, size_t nb1, size_t nb2, size_t nb3,
                                      size_t offset);

/// ggml_acc() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_acc_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b, size_t nb1, size_t nb2,
                                              size_t nb3, size_t offset);

/// a - b, with b broadcast to a.
GGML_API struct ggml_tensor* ggml_sub(struct ggml_context* ctx, struct ggml_tensor* a,
                                      struct ggml_tensor* b);

/// ggml_sub() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_sub_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b);

/// a * b element by element, with b broadcast to a.
GGML_API struct ggml_tensor* ggml_mul(struct ggml_context* ctx, struct ggml_tensor* a,
                                      struct ggml_tensor* b);

/// ggml_mul() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_mul_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b);

/// a / b element by element, with b broadcast to a. Division by zero follows IEEE 754.
GGML_API struct ggml_tensor* ggml_div(struct ggml_context* ctx, struct ggml_tensor* a,
                                      struct ggml_tensor* b);

/// ggml_div() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_div_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b);

/// a * s.
GGML_API struct ggml_tensor* ggml_scale(struct ggml_context* ctx, struct ggml_tensor* a, float s);

/// ggml_scale() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_scale_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                                float s);

/// a * s + b.
GGML_API struct ggml_tensor* ggml_scale_bias(struct ggml_context* ctx, struct ggml_tensor* a,
                                             float s, float b);

/// ggml_scale_bias() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_scale_bias_inplace(struct ggml_context* ctx,
                                                     struct ggml_tensor* a, float s, float b);

/// `a` limited to [min, max]. Always in place: the result is a view of `a`.
GGML_API struct ggml_tensor* ggml_clamp(struct ggml_context* ctx, struct ggml_tensor* a, float min,
                                        float max);

// ------------------------------------------------------------------------------------------------
// Functions of one number

/// Applies a function to every element. Rows of `a` are dense.
GGML_API struct ggml_tensor* ggml_unary(struct ggml_context* ctx, struct ggml_tensor* a,
                                        enum ggml_unary_op op);

/// ggml_unary() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_unary_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                                enum ggml_unary_op op);

/// x * x.
GGML_API struct ggml_tensor* ggml_sqr(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_sqr() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_sqr_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Square root.
GGML_API struct ggml_tensor* ggml_sqrt(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_sqrt() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_sqrt_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Natural logarithm.
GGML_API struct ggml_tensor* ggml_log(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_log() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_log_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// e^x.
GGML_API struct ggml_tensor* ggml_exp(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_exp() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_exp_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// e^x - 1.
GGML_API struct ggml_tensor* ggml_expm1(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_expm1() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_expm1_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// ln(1 + e^x).
GGML_API struct ggml_tensor* ggml_softplus(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_softplus() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_softplus_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Sine of an angle in radians.
GGML_API struct ggml_tensor* ggml_sin(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_sin() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_sin_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Cosine of an angle in radians.
GGML_API struct ggml_tensor* ggml_cos(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_cos() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_cos_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// |x|.
GGML_API struct ggml_tensor* ggml_abs(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_abs() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_abs_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// -1, 0 or 1.
GGML_API struct ggml_tensor* ggml_sgn(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_sgn() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_sgn_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// -x.
GGML_API struct ggml_tensor* ggml_neg(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_neg() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_neg_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// 1 where x > 0, else 0.
GGML_API struct ggml_tensor* ggml_step(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_step() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_step_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Next integer below.
GGML_API struct ggml_tensor* ggml_floor(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_floor() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_floor_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Next integer above.
GGML_API struct ggml_tensor* ggml_ceil(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_ceil() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_ceil_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Nearest integer, halves away from zero.
GGML_API struct ggml_tensor* ggml_round(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_round() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_round_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Next integer towards zero.
GGML_API struct ggml_tensor* ggml_trunc(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_trunc() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_trunc_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

// ------------------------------------------------------------------------------------------------
// Activations

/// Hyperbolic tangent.
GGML_API struct ggml_tensor* ggml_tanh(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_tanh() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_tanh_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// x where x > 0, else e^x - 1.
GGML_API struct ggml_tensor* ggml_elu(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_elu() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_elu_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// max(x, 0).
GGML_API struct ggml_tensor* ggml_relu(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_relu() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_relu_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// max(x, 0) + negative_slope * min(x, 0), over `a` itself if `inplace`.
GGML_API struct ggml_tensor* ggml_leaky_relu(struct ggml_context* ctx, struct ggml_tensor* a,
                                             float negative_slope, bool inplace);

/// 1 / (1 + e^-x).
GGML_API struct ggml_tensor* ggml_sigmoid(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_sigmoid() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_sigmoid_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// x times the normal distribution at x, in its tanh form.
GGML_API struct ggml_tensor* ggml_gelu(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_gelu() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_gelu_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// x times the normal distribution at x, by the error function.
GGML_API struct ggml_tensor* ggml_gelu_erf(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_gelu_erf() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_gelu_erf_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// x * sigmoid(1.702 * x).
GGML_API struct ggml_tensor* ggml_gelu_quick(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_gelu_quick() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_gelu_quick_inplace(struct ggml_context* ctx,
                                                     struct ggml_tensor* a);

/// x * sigmoid(x).
GGML_API struct ggml_tensor* ggml_silu(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_silu() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_silu_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Gradient of ggml_silu() at `b`, times the gradient `a` of its result.
GGML_API struct ggml_tensor* ggml_silu_back(struct ggml_context* ctx, struct ggml_tensor* a,
                                            struct ggml_tensor* b);

/// x * hardsigmoid(x).
GGML_API struct ggml_tensor* ggml_hardswish(struct ggml_context* ctx, struct ggml_tensor* a);

/// (x + 3) / 6 limited to [0, 1].
GGML_API struct ggml_tensor* ggml_hardsigmoid(struct ggml_context* ctx, struct ggml_tensor* a);

/// The xIELU activation: p * x^2 + beta * x for x > 0, else (e^min(x, eps) - 1 - x) * n + beta * x,
/// with p = softplus(alpha_p) and n = beta + softplus(alpha_n).
GGML_API struct ggml_tensor* ggml_xielu(struct ggml_context* ctx, struct ggml_tensor* a,
                                        float alpha_n, float alpha_p, float beta, float eps);

// ------------------------------------------------------------------------------------------------
// Gated units: activation(x) * g
//
// In a single tensor x is the first half of each row and g the second, swapped the other way round;
// the result has rows half as long. In split form x is `a` and g is `b`, of the same shape.

/// The gated unit `op` of one tensor.
GGML_API struct ggml_tensor* ggml_glu(struct ggml_context* ctx, struct ggml_tensor* a,
                                      enum ggml_glu_op op, bool swapped);

/// relu(x) * g.
GGML_API struct ggml_tensor* ggml_reglu(struct ggml_context* ctx, struct ggml_tensor* a);

/// relu(x) * g, halves swapped.
GGML_API struct ggml_tensor* ggml_reglu_swapped(struct ggml_context* ctx, struct ggml_tensor* a);

/// gelu(x) * g.
GGML_API struct ggml_tensor* ggml_geglu(struct ggml_context* ctx, struct ggml_tensor* a);

/// gelu(x) * g, halves swapped.
GGML_API struct ggml_tensor* ggml_geglu_swapped(struct ggml_context* ctx, struct ggml_tensor* a);

/// silu(x) * g.
GGML_API struct ggml_tensor* ggml_swiglu(struct ggml_context* ctx, struct ggml_tensor* a);

/// silu(x) * g, halves swapped.
GGML_API struct ggml_tensor* ggml_swiglu_swapped(struct ggml_context* ctx, struct ggml_tensor* a);

/// gelu_erf(x) * g.
GGML_API struct ggml_tensor* ggml_geglu_erf(struct ggml_context* ctx, struct ggml_tensor* a);

/// gelu_erf(x) * g, halves swapped.
GGML_API struct ggml_tensor* ggml_geglu_erf_swapped(struct ggml_context* ctx,
                                                    struct ggml_tensor* a);

/// gelu_quick(x) * g.
GGML_API struct ggml_tensor* ggml_geglu_quick(struct ggml_context* ctx, struct ggml_tensor* a);

/// gelu_quick(x) * g, halves swapped.
GGML_API struct ggml_tensor* ggml_geglu_quick_swapped(struct ggml_context* ctx,
                                                      struct ggml_tensor* a);

/// The gated unit `op` of two tensors.
GGML_API struct ggml_tensor* ggml_glu_split(struct ggml_context* ctx, struct ggml_tensor* a,
                                            struct ggml_tensor* b, enum ggml_glu_op op);

/// relu(a) * b.
GGML_API struct ggml_tensor* ggml_reglu_split(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b);

/// gelu(a) * b.
GGML_API struct ggml_tensor* ggml_geglu_split(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b);

/// silu(a) * b.
GGML_API struct ggml_tensor* ggml_swiglu_split(struct ggml_context* ctx, struct ggml_tensor* a,
                                               struct ggml_tensor* b);

/// gelu_erf(a) * b.
GGML_API struct ggml_tensor* ggml_geglu_erf_split(struct ggml_context* ctx, struct ggml_tensor* a,
                                                  struct ggml_tensor* b);

/// gelu_quick(a) * b.
GGML_API struct ggml_tensor* ggml_geglu_quick_split(struct ggml_context* ctx, struct ggml_tensor* a,
                                                    struct ggml_tensor* b);

/// x * sigmoid(alpha * x) * (g + 1) with x limited to at most `limit` and g to [-limit, limit].
/// `b` may be NULL: then `a` holds both halves. F32.
GGML_API struct ggml_tensor* ggml_swiglu_oai(struct ggml_context* ctx, struct ggml_tensor* a,
                                             struct ggml_tensor* b, float alpha, float limit);

#ifdef __cplusplus
}
#endif
