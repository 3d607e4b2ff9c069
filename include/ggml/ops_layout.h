/// Building tensors: copies, views, rows, joining, padding, generated data.
///
/// Included by `ggml.h`; programs include that one. What holds for all builders stands in
/// `ops_math.h`.
#pragma once

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// ------------------------------------------------------------------------------------------------
// Copies

/// A dense copy of `a`.
GGML_API struct ggml_tensor* ggml_dup(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_dup() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_dup_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Copies `a` into `b`, converting the type; both have as many elements, which are matched in
/// logical order. The result is a view of `b`.
GGML_API struct ggml_tensor* ggml_cpy(struct ggml_context* ctx, struct ggml_tensor* a,
                                      struct ggml_tensor* b);

/// A dense copy of `a` in another type.
GGML_API struct ggml_tensor* ggml_cast(struct ggml_context* ctx, struct ggml_tensor* a,
                                       enum ggml_type type);

/// A dense copy of `a`, also if it is dense already.
GGML_API struct ggml_tensor* ggml_cont(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_cont() with new extents for as many elements.
GGML_API struct ggml_tensor* ggml_cont_1d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int64_t ne0);

/// ggml_cont() with new extents for as many elements.
GGML_API struct ggml_tensor* ggml_cont_2d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int64_t ne0, int64_t ne1);

/// ggml_cont() with new extents for as many elements.
GGML_API struct ggml_tensor* ggml_cont_3d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int64_t ne0, int64_t ne1, int64_t ne2);

/// ggml_cont() with new extents for as many elements.
GGML_API struct ggml_tensor* ggml_cont_4d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);

/// `a` with `b` written to the region that begins `offset` bytes in and has strides nb1 to nb3
/// (bytes). F32 or I32.
GGML_API struct ggml_tensor* ggml_set(struct ggml_context* ctx, struct ggml_tensor* a,
                                      struct ggml_tensor* b, size_t nb1, size_t nb2, size_t nb3,
                                      size_t offset);

/// ggml_set() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_set_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b, size_t nb1, size_t nb2,
                                              size_t nb3, size_t offset);

/// ggml_set() with the strides of `a`.
GGML_API struct ggml_tensor* ggml_set_1d(struct ggml_context* ctx, struct ggml_tensor* a,
                                         struct ggml_tensor* b, size_t offset);

/// ggml_set_1d() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_set_1d_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                                 struct ggml_tensor* b, size_t offset);

/// ggml_set() with the strides 2 and 3 of `a`.
GGML_API struct ggml_tensor* ggml_set_2d(struct ggml_context* ctx, struct ggml_tensor* a,
                                         struct ggml_tensor* b, size_t nb1, size_t offset);

/// ggml_set_2d() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_set_2d_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                                 struct ggml_tensor* b, size_t nb1, size_t offset);

// ------------------------------------------------------------------------------------------------
// Views: nothing is computed

/// `a`, which is dense, with the extents of `b`.
GGML_API struct ggml_tensor* ggml_reshape(struct ggml_context* ctx, struct ggml_tensor* a,
                                          struct ggml_tensor* b);

/// `a`, which is dense, as a vector.
GGML_API struct ggml_tensor* ggml_reshape_1d(struct ggml_context* ctx, struct ggml_tensor* a,
                                             int64_t ne0);

/// `a`, which is dense, as a matrix.
GGML_API struct ggml_tensor* ggml_reshape_2d(struct ggml_context* ctx, struct ggml_tensor* a,
                                             int64_t ne0, int64_t ne1);

/// `a`, which is dense, with three dimensions.
GGML_API struct ggml_tensor* ggml_reshape_3d(struct ggml_context* ctx, struct ggml_tensor* a,
                                             int64_t ne0, int64_t ne1, int64_t ne2);

/// `a`, which is dense, with four dimensions.
GGML_API struct ggml_tensor* ggml_reshape_4d(struct ggml_context* ctx, struct ggml_tensor* a,
                                             int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);

/// `ne0` elements of `a` from byte `offset` on.
GGML_API struct ggml_tensor* ggml_view_1d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int64_t ne0, size_t offset);

/// `ne1` rows of `a`, `nb1` bytes apart, from byte `offset` on.
GGML_API struct ggml_tensor* ggml_view_2d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int64_t ne0, int64_t ne1, size_t nb1, size_t offset);

/// A part of `a` with strides `nb1` and `nb2` in bytes, from byte `offset` on.
GGML_API struct ggml_tensor* ggml_view_3d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int64_t ne0, int64_t ne1, int64_t ne2, size_t nb1,
                                          size_t nb2, size_t offset);

/// A part of `a` with strides `nb1` to `nb3` in bytes, from byte `offset` on.
GGML_API struct ggml_tensor* ggml_view_4d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
                                          size_t nb1, size_t nb2, size_t nb3, size_t offset);

/// Reorders dimensions: dimension i of `a` becomes dimension axis_i of the result.
GGML_API struct ggml_tensor* ggml_permute(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int axis0, int axis1, int axis2, int axis3);

/// Swaps dimensions 0 and 1.
GGML_API struct ggml_tensor* ggml_transpose(struct ggml_context* ctx, struct ggml_tensor* a);

// ------------------------------------------------------------------------------------------------
// Rows

/// Gathers rows: result(:, i, j, k) = a(:, b(i, j, k), j, k), as F32, or I32 if `a` is I32. `b` is
/// I32; an index out of range is an error when the graph runs.
GGML_API struct ggml_tensor* ggml_get_rows(struct ggml_context* ctx, struct ggml_tensor* a,
                                           struct ggml_tensor* b);

/// Gradient of ggml_get_rows(): rows of `a` added up where the indices `b` say, extents of `c`.
GGML_API struct ggml_tensor* ggml_get_rows_back(struct ggml_context* ctx, struct ggml_tensor* a,
                                                struct ggml_tensor* b, struct ggml_tensor* c);

/// Scatters rows: a(:, c(i, j, k), j, k) = b(:, i, j, k), converting the type; `b` is F32 or F16,
/// `c` I64 or I32 and broadcast in j and k. The result is a view of `a`; other rows keep their
/// values.
GGML_API struct ggml_tensor* ggml_set_rows(struct ggml_context* ctx, struct ggml_tensor* a,
                                           struct ggml_tensor* b, struct ggml_tensor* c);

// ------------------------------------------------------------------------------------------------
// Joining, tiling, padding

/// `a` repeated to the extents of `b`.
GGML_API struct ggml_tensor* ggml_repeat(struct ggml_context* ctx, struct ggml_tensor* a,
                                         struct ggml_tensor* b);

/// `a` repeated to the given extents.
GGML_API struct ggml_tensor* ggml_repeat_4d(struct ggml_context* ctx, struct ggml_tensor* a,
                                            int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);

/// Gradient of ggml_repeat(): tiles of `a` added up to the extents of `b`.
GGML_API struct ggml_tensor* ggml_repeat_back(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b);

/// `a` followed by `b` along dimension `dim`; same type and other extents.
GGML_API struct ggml_tensor* ggml_concat(struct ggml_context* ctx, struct ggml_tensor* a,
                                         struct ggml_tensor* b, int dim);

/// `a` with zeros behind it: p0 to p3 elements more in each dimension.
GGML_API struct ggml_tensor* ggml_pad(struct ggml_context* ctx, struct ggml_tensor* a, int p0,
                                      int p1, int p2, int p3);

/// `a` with zeros before (lp) and behind (rp) in each dimension.
GGML_API struct ggml_tensor* ggml_pad_ext(struct ggml_context* ctx, struct ggml_tensor* a, int lp0,
                                          int rp0, int lp1, int rp1, int lp2, int rp2, int lp3,
                                          int rp3);

/// ggml_pad() that continues with the beginning of `a` instead of zeros.
GGML_API struct ggml_tensor* ggml_pad_circular(struct ggml_context* ctx, struct ggml_tensor* a,
                                               int p0, int p1, int p2, int p3);

/// ggml_pad_ext() that continues around instead of zeros.
GGML_API struct ggml_tensor* ggml_pad_ext_circular(struct ggml_context* ctx, struct ggml_tensor* a,
                                                   int lp0, int rp0, int lp1, int rp1, int lp2,
                                                   int rp2, int lp3, int rp3);

/// Rows extended by `p0` elements before and `p1` behind, mirrored at the ends. F32.
GGML_API struct ggml_tensor* ggml_pad_reflect_1d(struct ggml_context* ctx, struct ggml_tensor* a,
                                                 int p0, int p1);

/// `a` shifted by shift0 to shift3 towards higher indices; what leaves comes in at the other end.
GGML_API struct ggml_tensor* ggml_roll(struct ggml_context* ctx, struct ggml_tensor* a, int shift0,
                                       int shift1, int shift2, int shift3);

// ------------------------------------------------------------------------------------------------
// Resizing images (dimensions 0 and 1)

/// How values between pixels are found, the low 8 bits of a mode.
enum ggml_scale_mode GGML_ENUM_INT {
    GGML_SCALE_MODE_NEAREST = 0,   ///< The nearest pixel.
    GGML_SCALE_MODE_BILINEAR = 1,  ///< Linear between neighbours.
    GGML_SCALE_MODE_BICUBIC = 2,   ///< Cubic between neighbours.
    GGML_SCALE_MODE_COUNT = 3,     ///< Number of modes.
};

/// Bits that may be added to a mode.
enum ggml_scale_flag GGML_ENUM_INT {
    GGML_SCALE_FLAG_ALIGN_CORNERS = (1 << 8),  ///< Corner pixels stay at the corners.
    GGML_SCALE_FLAG_ANTIALIAS = (1 << 9),      ///< Wider window when shrinking; bilinear only.
};

/// `a` enlarged by `scale_factor` (above 1) in dimensions 0 and 1. F32.
GGML_API struct ggml_tensor* ggml_upscale(struct ggml_context* ctx, struct ggml_tensor* a,
                                          int scale_factor, enum ggml_scale_mode mode);

/// `a` resized to the given extents. F32.
GGML_DEPRECATED(GGML_API struct ggml_tensor* ggml_upscale_ext(struct ggml_context* ctx,
                                                              struct ggml_tensor* a, int ne0,
                                                              int ne1, int ne2, int ne3,
                                                              enum ggml_scale_mode mode),
                "use ggml_interpolate() instead");

/// `a` resized to the given extents, larger or smaller; `mode` is a ggml_scale_mode with flags of
/// ggml_scale_flag. Dimensions 2 and 3 take the nearest. F32.
GGML_API struct ggml_tensor* ggml_interpolate(struct ggml_context* ctx, struct ggml_tensor* a,
                                              int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
                                              uint32_t mode);

// ------------------------------------------------------------------------------------------------
// Windows and relative positions

/// Cuts an image [C, W, H] into windows [C, w, w, n], padded with zeros. F32.
GGML_API struct ggml_tensor* ggml_win_part(struct ggml_context* ctx, struct ggml_tensor* a, int w);

/// Puts windows made by ggml_win_part() together to [C, w0, h0].
GGML_API struct ggml_tensor* ggml_win_unpart(struct ggml_context* ctx, struct ggml_tensor* a,
                                             int w0, int h0, int w);

/// Table of relative positions: result(:, i, j) = a(:, kh - 1 - i + j), F16 [C, kh, qh].
GGML_API struct ggml_tensor* ggml_get_rel_pos(struct ggml_context* ctx, struct ggml_tensor* a,
                                              int qh, int kh);

/// `a` plus position embeddings along width and height, for attention scores of image patches. F32.
GGML_API struct ggml_tensor* ggml_add_rel_pos(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* pw, struct ggml_tensor* ph);

/// ggml_add_rel_pos() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_add_rel_pos_inplace(struct ggml_context* ctx,
                                                      struct ggml_tensor* a, struct ggml_tensor* pw,
                                                      struct ggml_tensor* ph);

// ------------------------------------------------------------------------------------------------
// Matrices and masks

/// Which part of a matrix to keep; i0 counts columns, i1 rows.
enum ggml_tri_type GGML_ENUM_INT {
    GGML_TRI_TYPE_UPPER_DIAG = 0,  ///< i0 >= i1.
    GGML_TRI_TYPE_UPPER = 1,       ///< i0 > i1.
    GGML_TRI_TYPE_LOWER_DIAG = 2,  ///< i0 <= i1.
    GGML_TRI_TYPE_LOWER = 3,       ///< i0 < i1.
};

/// A triangular part of square matrices, zero elsewhere. F32.
GGML_API struct ggml_tensor* ggml_tri(struct ggml_context* ctx, struct ggml_tensor* a,
                                      enum ggml_tri_type type);

/// Matrices with the rows of `a` ([n, 1, ...]) on the diagonal, zero elsewhere: [n, n, ...].
GGML_API struct ggml_tensor* ggml_diag(struct ggml_context* ctx, struct ggml_tensor* a);

/// `a` with -infinity where i0 > n_past + i1: a causal mask for attention scores.
GGML_API struct ggml_tensor* ggml_diag_mask_inf(struct ggml_context* ctx, struct ggml_tensor* a,
                                                int n_past);

/// ggml_diag_mask_inf() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_diag_mask_inf_inplace(struct ggml_context* ctx,
                                                        struct ggml_tensor* a, int n_past);

/// `a` with 0 where i0 > n_past + i1.
GGML_API struct ggml_tensor* ggml_diag_mask_zero(struct ggml_context* ctx, struct ggml_tensor* a,
                                                 int n_past);

/// ggml_diag_mask_zero() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_diag_mask_zero_inplace(struct ggml_context* ctx,
                                                         struct ggml_tensor* a, int n_past);

/// The solution X of A * X = B for lower triangular A: `a` [n, n, ...], `b` [k, n, ...]. F32. Only
/// left = lower = true, uni = false is offered.
GGML_API struct ggml_tensor* ggml_solve_tri(struct ggml_context* ctx, struct ggml_tensor* a,
                                            struct ggml_tensor* b, bool left, bool lower, bool uni);

// ------------------------------------------------------------------------------------------------
// Generated data

/// A tensor like `a` (F32 or F16) with every element `c`.
GGML_API struct ggml_tensor* ggml_fill(struct ggml_context* ctx, struct ggml_tensor* a, float c);

/// ggml_fill() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_fill_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                               float c);

/// start, start + step, ... below `stop`: an F32 vector.
GGML_API struct ggml_tensor* ggml_arange(struct ggml_context* ctx, float start, float stop,
                                         float step);

/// Sinusoidal embedding of N timesteps (F32): [dim, N], cosines in the first half, then sines; the
/// slowest wave has a period of 2 * pi * max_period.
GGML_API struct ggml_tensor* ggml_timestep_embedding(struct ggml_context* ctx,
                                                     struct ggml_tensor* timesteps, int dim,
                                                     int max_period);

#ifdef __cplusplus
}
#endif
