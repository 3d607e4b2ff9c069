/// Building tensors: reductions, sorting, normalisation, matrix products.
///
/// Included by `ggml.h`; programs include that one. What holds for all builders stands in
/// `ops_math.h`.
#pragma once

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// ------------------------------------------------------------------------------------------------
// Reductions along rows

/// Sum of all elements, a scalar of the type of `a`.
GGML_API struct ggml_tensor* ggml_sum(struct ggml_context* ctx, struct ggml_tensor* a);

/// Sum of each row: extents [1, ne1, ne2, ne3].
GGML_API struct ggml_tensor* ggml_sum_rows(struct ggml_context* ctx, struct ggml_tensor* a);

/// Sum of each row up to and including each element. F32.
GGML_API struct ggml_tensor* ggml_cumsum(struct ggml_context* ctx, struct ggml_tensor* a);

/// Mean of each row: F32, extents [1, ne1, ne2, ne3].
GGML_API struct ggml_tensor* ggml_mean(struct ggml_context* ctx, struct ggml_tensor* a);

/// Index of the largest element of each row of a matrix: I32, extents [ne1].
GGML_API struct ggml_tensor* ggml_argmax(struct ggml_context* ctx, struct ggml_tensor* a);

/// Number of positions where `a` and `b`, of the same shape, are equal: an I64 scalar.
GGML_API struct ggml_tensor* ggml_count_equal(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b);

/// Which way to sort.
enum ggml_sort_order GGML_ENUM_INT {
    GGML_SORT_ORDER_ASC = 0,   ///< Smallest first.
    GGML_SORT_ORDER_DESC = 1,  ///< Largest first.
};

/// For each row the indices of its elements in sorted order, I32. Equal elements come in any order.
GGML_API struct ggml_tensor* ggml_argsort(struct ggml_context* ctx, struct ggml_tensor* a,
                                          enum ggml_sort_order order);

/// A view of the first `k` indices of each row, largest elements first; from ggml_argsort().
GGML_API struct ggml_tensor* ggml_argsort_top_k(struct ggml_context* ctx, struct ggml_tensor* a,
                                                int k);

/// The indices of the `k` largest elements of each row, in any order: I32, extents [k, ...].
GGML_API struct ggml_tensor* ggml_top_k(struct ggml_context* ctx, struct ggml_tensor* a, int k);

// ------------------------------------------------------------------------------------------------
// Normalisation of rows

/// (x - mean) / sqrt(variance + eps), per row.
GGML_API struct ggml_tensor* ggml_norm(struct ggml_context* ctx, struct ggml_tensor* a, float eps);

/// ggml_norm() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_norm_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                               float eps);

/// x / sqrt(mean of squares + eps), per row.
GGML_API struct ggml_tensor* ggml_rms_norm(struct ggml_context* ctx, struct ggml_tensor* a,
                                           float eps);

/// ggml_rms_norm() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_rms_norm_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                                   float eps);

/// Gradient of ggml_rms_norm() at `b`, given the gradient `a` of its result.
GGML_API struct ggml_tensor* ggml_rms_norm_back(struct ggml_context* ctx, struct ggml_tensor* a,
                                                struct ggml_tensor* b, float eps);

/// ggml_norm() over groups of channels (dimension 2) of an image.
GGML_API struct ggml_tensor* ggml_group_norm(struct ggml_context* ctx, struct ggml_tensor* a,
                                             int n_groups, float eps);

/// ggml_group_norm() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_group_norm_inplace(struct ggml_context* ctx,
                                                     struct ggml_tensor* a, int n_groups,
                                                     float eps);

/// x / max(length, eps), per row.
GGML_API struct ggml_tensor* ggml_l2_norm(struct ggml_context* ctx, struct ggml_tensor* a,
                                          float eps);

/// ggml_l2_norm() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_l2_norm_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                                  float eps);

// ------------------------------------------------------------------------------------------------
// Matrix products

/// Precision of the arithmetic inside an operation.
enum ggml_prec GGML_ENUM_INT {
    GGML_PREC_DEFAULT = 0,  ///< As the device likes; may be half floats.
    GGML_PREC_F32 = 10,     ///< 32-bit floats at least.
};

/// What a matrix product may know about its first operand.
enum ggml_op_hint GGML_ENUM_INT {
    GGML_HINT_NONE = 0,              ///< Nothing.
    GGML_HINT_SRC0_IS_HADAMARD = 1,  ///< A Hadamard matrix in Sylvester order, over sqrt(size).
};

/// Products of all rows of `a` with all rows of `b`: F32.
///
/// a: [k, m, A2, A3], b: [k, n, B2, B3], result: [m, n, B2, B3], where A2 divides B2 and A3 divides
/// B3; each matrix of `a` then serves B2 / A2 neighbouring ones of `b`. `a` is not transposed.
GGML_API struct ggml_tensor* ggml_mul_mat(struct ggml_context* ctx, struct ggml_tensor* a,
                                          struct ggml_tensor* b);

/// Sets the precision of a tensor made by ggml_mul_mat().
GGML_API void ggml_mul_mat_set_prec(struct ggml_tensor* a, enum ggml_prec prec);

/// Sets the hint of a tensor made by ggml_mul_mat(). A wrong hint gives wrong results.
GGML_API void ggml_mul_mat_set_hint(struct ggml_tensor* a, enum ggml_op_hint hint);

/// Matrix product with a matrix chosen for each column, for mixtures of experts: F32.
///
/// as: [k, m, experts], b: [k, 1 or used, tokens], ids: I32 [used, tokens], result: [m, used,
/// tokens].
GGML_API struct ggml_tensor* ggml_mul_mat_id(struct ggml_context* ctx, struct ggml_tensor* as,
                                             struct ggml_tensor* b, struct ggml_tensor* ids);

/// Sum over dimension 1 of outer products: F32.
///
/// a: [m, k, A2, A3], b: [n, k, B2, B3], result: [m, n, B2, B3], broadcast as in ggml_mul_mat().
GGML_API struct ggml_tensor* ggml_out_prod(struct ggml_context* ctx, struct ggml_tensor* a,
                                           struct ggml_tensor* b);

#ifdef __cplusplus
}
#endif
