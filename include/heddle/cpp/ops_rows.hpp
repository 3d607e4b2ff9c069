/// Ops over rows: sums, norms, products, attention. Part of `heddle/heddle.hpp`.
#pragma once

#include "../../ggml/ops_layout.h"
#include "../../ggml/ops_nn.h"
#include "../../ggml/ops_reduce.h"
#include "../../ggml/ops_train.h"
#include "op.hpp"

namespace heddle::api {

// ---- sums, extremes and order ------------------------------------------------------------------

inline Tensor sum(const Tensor& x) { return op<ggml_sum>(x); }            ///< of all elements
inline Tensor sum_rows(const Tensor& x) { return op<ggml_sum_rows>(x); }  ///< of each row
inline Tensor mean(const Tensor& x) { return op<ggml_mean>(x); }          ///< of each row
inline Tensor cumsum(const Tensor& x) { return op<ggml_cumsum>(x); }      ///< along each row
inline Tensor argmax(const Tensor& x) { return op<ggml_argmax>(x); }      ///< I32
/// How many elements of `a` and `b` are equal, I64.
inline Tensor count_equal(const Tensor& a, const Tensor& b) { return op<ggml_count_equal>(a, b); }
/// Indices that sort each row, I32.
inline Tensor argsort(const Tensor& x, ggml_sort_order order = GGML_SORT_ORDER_ASC) {
    return op<ggml_argsort>(x, order);
}
/// Indices of the `count` largest elements of each row, in any order, I32.
inline Tensor top_k(const Tensor& x, int count) { return op<ggml_top_k>(x, count); }

// ---- norms -------------------------------------------------------------------------------------

inline Tensor norm(const Tensor& x, float epsilon) { return op<ggml_norm>(x, epsilon); }
inline Tensor rms_norm(const Tensor& x, float epsilon) { return op<ggml_rms_norm>(x, epsilon); }
inline Tensor l2_norm(const Tensor& x, float epsilon) { return op<ggml_l2_norm>(x, epsilon); }
/// Over groups of channels (dimension 2) of an image.
inline Tensor group_norm(const Tensor& x, int groups, float epsilon) {
    return op<ggml_group_norm>(x, groups, epsilon);
}

// ---- products and chosen rows ------------------------------------------------------------------

/// Rows of `weights` with rows of `x`: weights [k, m], x [k, n] give [m, n].
inline Tensor matmul(const Tensor& weights, const Tensor& x) {
    return op<ggml_mul_mat>(weights, x);
}
/// The same with a matrix chosen for each row: experts [k, m, e], x [k, 1 or used, n], ids
/// [used, n] give [m, used, n].
inline Tensor matmul_id(const Tensor& experts, const Tensor& x, const Tensor& ids) {
    return op<ggml_mul_mat_id>(experts, x, ids);
}
/// Columns with columns: a [m, k], b [n, k] give [m, n].
inline Tensor outer_product(const Tensor& a, const Tensor& b) { return op<ggml_out_prod>(a, b); }

/// The rows of `table` that `indices` name.
inline Tensor get_rows(const Tensor& table, const Tensor& indices) {
    return op<ggml_get_rows>(table, indices);
}
/// Writes rows of `values` over those of `table` that `indices` name; the result is the table.
inline Tensor set_rows(const Tensor& table, const Tensor& values, const Tensor& indices) {
    return op<ggml_set_rows>(table, values, indices);
}

// ---- attention ---------------------------------------------------------------------------------

inline Tensor soft_max(const Tensor& x) { return op<ggml_soft_max>(x); }
/// soft_max(x * scale + mask); `mask` may be empty.
inline Tensor soft_max(const Tensor& x, const Tensor& mask, float scale) {
    return op<ggml_soft_max_ext>(x, Maybe{mask}, scale, 0.0f);
}
/// Minus infinity, or 0, in columns after `past` + the number of the row.
inline Tensor diag_mask_inf(const Tensor& x, int past) { return op<ggml_diag_mask_inf>(x, past); }
inline Tensor diag_mask_zero(const Tensor& x, int past) { return op<ggml_diag_mask_zero>(x, past); }

/// How positions turn pairs of elements. The defaults are those of the first models that did.
struct Rope {
    int dimensions = 0;
    int mode = GGML_ROPE_TYPE_NORMAL;
    int original_context = 0;
    float base = 10000.0f;
    float scale = 1.0f;
    float extrapolation = 0.0f;
    float attention = 1.0f;
    float beta_fast = 32.0f, beta_slow = 1.0f;
};

/// Rotary positions; `factors` (may be empty) divides the frequency of each pair.
inline Tensor rope(const Tensor& x, const Tensor& positions, const Tensor& factors,
                   const Rope& rope) {
    return op<ggml_rope_ext>(x, positions, Maybe{factors}, rope.dimensions, rope.mode,
                             rope.original_context, rope.base, rope.scale, rope.extrapolation,
                             rope.attention, rope.beta_fast, rope.beta_slow);
}

/// soft_max(q k^T * scale + mask) v without ever writing the product; `mask` may be empty.
inline Tensor flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                              float scale) {
    return op<ggml_flash_attn_ext>(q, k, v, Maybe{mask}, scale, 0.0f, 0.0f);
}

// ---- training ----------------------------------------------------------------------------------

/// How far the rows of `logits` are from the probabilities in `labels`: one number, the mean.
inline Tensor cross_entropy_loss(const Tensor& logits, const Tensor& labels) {
    return op<ggml_cross_entropy_loss>(logits, labels);
}

}  // namespace heddle::api
