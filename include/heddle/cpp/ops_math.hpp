/// Ops on each element by itself. Part of `heddle/heddle.hpp`.
#pragma once

#include "../../ggml/ops_layout.h"
#include "../../ggml/ops_math.h"
#include "op.hpp"

namespace heddle::api {

// ---- arithmetic: the second operand is repeated where it is smaller ----------------------------

inline Tensor operator+(const Tensor& a, const Tensor& b) { return op<ggml_add>(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return op<ggml_sub>(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return op<ggml_mul>(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return op<ggml_div>(a, b); }
inline Tensor operator-(const Tensor& x) { return op<ggml_neg>(x); }

/// x * factor + summand
inline Tensor scale(const Tensor& x, float factor, float summand = 0.0f) {
    return op<ggml_scale_bias>(x, factor, summand);
}
inline Tensor operator*(const Tensor& x, float factor) { return scale(x, factor); }
inline Tensor operator*(float factor, const Tensor& x) { return scale(x, factor); }
inline Tensor operator/(const Tensor& x, float divisor) { return scale(x, 1.0f / divisor); }
inline Tensor operator+(const Tensor& x, float summand) { return scale(x, 1.0f, summand); }
inline Tensor operator+(float summand, const Tensor& x) { return scale(x, 1.0f, summand); }
inline Tensor operator-(const Tensor& x, float summand) { return scale(x, 1.0f, -summand); }
inline Tensor operator-(float minuend, const Tensor& x) { return scale(x, -1.0f, minuend); }

/// a(:, i, j) + b(:, ids(i, j)): to each row the row of `b` that `ids` name.
inline Tensor add_id(const Tensor& a, const Tensor& b, const Tensor& ids) {
    return op<ggml_add_id>(a, b, ids);
}

// ---- functions of one number -------------------------------------------------------------------

inline Tensor abs(const Tensor& x) { return op<ggml_abs>(x); }
inline Tensor sgn(const Tensor& x) { return op<ggml_sgn>(x); }    ///< -1, 0 or 1
inline Tensor step(const Tensor& x) { return op<ggml_step>(x); }  ///< 1 where x > 0, else 0
inline Tensor sqr(const Tensor& x) { return op<ggml_sqr>(x); }
inline Tensor sqrt(const Tensor& x) { return op<ggml_sqrt>(x); }
inline Tensor exp(const Tensor& x) { return op<ggml_exp>(x); }
inline Tensor expm1(const Tensor& x) { return op<ggml_expm1>(x); }
inline Tensor log(const Tensor& x) { return op<ggml_log>(x); }
inline Tensor sin(const Tensor& x) { return op<ggml_sin>(x); }
inline Tensor cos(const Tensor& x) { return op<ggml_cos>(x); }
inline Tensor floor(const Tensor& x) { return op<ggml_floor>(x); }
inline Tensor ceil(const Tensor& x) { return op<ggml_ceil>(x); }
inline Tensor round(const Tensor& x) { return op<ggml_round>(x); }
inline Tensor trunc(const Tensor& x) { return op<ggml_trunc>(x); }
/// No less than `least` and no more than `most`. The C function writes over its operand; this one
/// copies it first.
inline Tensor clamp(const Tensor& x, float least, float most) {
    return op<ggml_clamp>(op<ggml_dup>(x), least, most);
}

// ---- activations -------------------------------------------------------------------------------

inline Tensor tanh(const Tensor& x) { return op<ggml_tanh>(x); }
inline Tensor elu(const Tensor& x) { return op<ggml_elu>(x); }
inline Tensor relu(const Tensor& x) { return op<ggml_relu>(x); }
inline Tensor leaky_relu(const Tensor& x, float negative_slope) {
    return op<ggml_leaky_relu>(x, negative_slope, false);
}
inline Tensor sigmoid(const Tensor& x) { return op<ggml_sigmoid>(x); }
inline Tensor softplus(const Tensor& x) { return op<ggml_softplus>(x); }
inline Tensor gelu(const Tensor& x) { return op<ggml_gelu>(x); }              ///< by tanh
inline Tensor gelu_erf(const Tensor& x) { return op<ggml_gelu_erf>(x); }      ///< exact
inline Tensor gelu_quick(const Tensor& x) { return op<ggml_gelu_quick>(x); }  ///< by sigmoid
inline Tensor silu(const Tensor& x) { return op<ggml_silu>(x); }
inline Tensor hardswish(const Tensor& x) { return op<ggml_hardswish>(x); }
inline Tensor hardsigmoid(const Tensor& x) { return op<ggml_hardsigmoid>(x); }

inline Tensor swiglu(const Tensor& x, const Tensor& gate) {  ///< silu(x) * gate
    return op<ggml_swiglu_split>(x, gate);
}
inline Tensor geglu(const Tensor& x, const Tensor& gate) {  ///< gelu(x) * gate
    return op<ggml_geglu_split>(x, gate);
}
inline Tensor reglu(const Tensor& x, const Tensor& gate) {  ///< relu(x) * gate
    return op<ggml_reglu_split>(x, gate);
}

}  // namespace heddle::api
