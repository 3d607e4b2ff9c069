/// Building tensors: attention, positions, convolution, pooling, recurrent layers.
///
/// Included by `ggml.h`; programs include that one. What holds for all builders stands in
/// `ops_math.h`.
#pragma once

#include "ops_reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

// ------------------------------------------------------------------------------------------------
// Soft-max

/// e^x / sum of e^x, per row. F32.
GGML_API struct ggml_tensor* ggml_soft_max(struct ggml_context* ctx, struct ggml_tensor* a);

/// ggml_soft_max() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_soft_max_inplace(struct ggml_context* ctx, struct ggml_tensor* a);

/// Soft-max of a * scale + slope * mask, per row. F32.
///
/// `mask` (F16 or F32, may be NULL) has the row length of `a`, at least as many rows, and is
/// broadcast in dimensions 2 and 3. With `max_bias` above 0 the slope depends on the head
/// (dimension 2) as in ALiBi, and there must be a mask; else it is 1. A row that is masked
/// altogether gives NaN.
GGML_API struct ggml_tensor* ggml_soft_max_ext(struct ggml_context* ctx, struct ggml_tensor* a,
                                               struct ggml_tensor* mask, float scale,
                                               float max_bias);

/// ggml_soft_max_ext() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_soft_max_ext_inplace(struct ggml_context* ctx,
                                                       struct ggml_tensor* a,
                                                       struct ggml_tensor* mask, float scale,
                                                       float max_bias);

/// Gives a soft-max tensor `a` one extra logit per head (F32, as many as extent 2), which counts in
/// the sum and has no output. NULL removes it.
GGML_API void ggml_soft_max_add_sinks(struct ggml_tensor* a, struct ggml_tensor* sinks);

/// Gradient of ggml_soft_max_ext() with result `b`, given the gradient `a` of that result.
GGML_API struct ggml_tensor* ggml_soft_max_ext_back(struct ggml_context* ctx, struct ggml_tensor* a,
                                                    struct ggml_tensor* b, float scale,
                                                    float max_bias);

/// ggml_soft_max_ext_back() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_soft_max_ext_back_inplace(struct ggml_context* ctx,
                                                            struct ggml_tensor* a,
                                                            struct ggml_tensor* b, float scale,
                                                            float max_bias);

// ------------------------------------------------------------------------------------------------
// Rotary position embedding
//
// a: [head size, heads, tokens, batch], F32 or F16; b: I32 positions of the tokens; c: F32 factors
// that divide the frequencies, or NULL. The first `n_dims` elements of each head are rotated in
// pairs, the others copied. Pair p turns by position * freq_base^(-2 p / n_dims) * freq_scale;
// `ext_factor` other than 0 blends in YaRN, with `n_ctx_orig`, `beta_fast` and `beta_slow`;
// `attn_factor` scales the result.

#define GGML_ROPE_TYPE_NORMAL 0   ///< Pairs are neighbours: (0, 1), (2, 3), ...
#define GGML_ROPE_TYPE_NEOX 2     ///< Pairs are half the dimensions apart: (0, n/2), ...
#define GGML_ROPE_TYPE_MROPE 8    ///< As NEOX, sections of pairs with positions of their own.
#define GGML_ROPE_TYPE_VISION 24  ///< MROPE for images; frequencies restart in each section.
#define GGML_ROPE_TYPE_IMROPE 40  ///< MROPE with interleaved sections.
#define GGML_MROPE_SECTIONS 4     ///< Sections of MROPE: time, height, width, extra.

/// Rotates with frequency base 10000 and without scaling.
GGML_API struct ggml_tensor* ggml_rope(struct ggml_context* ctx, struct ggml_tensor* a,
                                       struct ggml_tensor* b, int n_dims, int mode);

/// ggml_rope() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_rope_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                               struct ggml_tensor* b, int n_dims, int mode);

/// Rotates with everything given; NORMAL and NEOX.
GGML_API struct ggml_tensor* ggml_rope_ext(struct ggml_context* ctx, struct ggml_tensor* a,
                                           struct ggml_tensor* b, struct ggml_tensor* c, int n_dims,
                                           int mode, int n_ctx_orig, float freq_base,
                                           float freq_scale, float ext_factor, float attn_factor,
                                           float beta_fast, float beta_slow);

/// ggml_rope_ext() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_rope_ext_inplace(struct ggml_context* ctx, struct ggml_tensor* a,
                                                   struct ggml_tensor* b, struct ggml_tensor* c,
                                                   int n_dims, int mode, int n_ctx_orig,
                                                   float freq_base, float freq_scale,
                                                   float ext_factor, float attn_factor,
                                                   float beta_fast, float beta_slow);

/// Rotates in a multi-position mode: `b` holds four positions per token, all first ones first;
/// `sections` counts the pairs that follow each of them.
GGML_API struct ggml_tensor* ggml_rope_multi(struct ggml_context* ctx, struct ggml_tensor* a,
                                             struct ggml_tensor* b, struct ggml_tensor* c,
                                             int n_dims, int sections[4], int mode, int n_ctx_orig,
                                             float freq_base, float freq_scale, float ext_factor,
                                             float attn_factor, float beta_fast, float beta_slow);

/// ggml_rope_multi() that writes over `a` and returns a view of it.
GGML_API struct ggml_tensor* ggml_rope_multi_inplace(
    struct ggml_context* ctx, struct ggml_tensor* a, struct ggml_tensor* b, struct ggml_tensor* c,
    int n_dims, int sections[4], int mode, int n_ctx_orig, float freq_base, float freq_scale,
    float ext_factor, float attn_factor, float beta_fast, float beta_slow);

/// ggml_rope_ext() without `c`.
GGML_DEPRECATED(GGML_API struct ggml_tensor* ggml_rope_custom(
                    struct ggml_context* ctx, struct ggml_tensor* a, struct ggml_tensor* b,
                    int n_dims, int mode, int n_ctx_orig, float freq_base, float freq_scale,
                    float ext_factor, float attn_factor, float beta_fast, float beta_slow),
                "use ggml_rope_ext() instead");

/// ggml_rope_custom() that writes over `a` and returns a view of it.
GGML_DEPRECATED(GGML_API struct ggml_tensor* ggml_rope_custom_inplace(
                    struct ggml_context* ctx, struct ggml_tensor* a, struct ggml_tensor* b,
                    int n_dims, int mode, int n_ctx_orig, float freq_base, float freq_scale,
                    float ext_factor, float attn_factor, float beta_fast, float beta_slow),
                "use ggml_rope_ext_inplace() instead");

/// The inverse rotation: gradient of ggml_rope_ext(), `a` being the gradient of its result.
GGML_API struct ggml_tensor* ggml_rope_ext_back(struct ggml_context* ctx, struct ggml_tensor* a,
                                                struct ggml_tensor* b, struct ggml_tensor* c,
                                                int n_dims, int mode, int n_ctx_orig,
                                                float freq_base, float freq_scale, float ext_factor,
                                                float attn_factor, float beta_fast,
                                                float beta_slow);

/// The inverse rotation: gradient of ggml_rope_multi().
GGML_API struct ggml_tensor* ggml_rope_multi_back(struct ggml_context* ctx, struct ggml_tensor* a,
                                                  struct ggml_tensor* b, struct ggml_tensor* c,
                                                  int n_dims, int sections[4], int mode,
                                                  int n_ctx_orig, float freq_base, float freq_scale,
                                                  float ext_factor, float attn_factor,
                                                  float beta_fast, float beta_slow);

/// Makes a rope tensor rotate elements `n_offs` to `n_offs + n_dims` of each head instead of the
/// first ones, and returns it. Not for VISION.
GGML_API struct ggml_tensor* ggml_rope_set_offset(struct ggml_tensor* a, int n_offs);

/// First and last pair between which YaRN blends, into `dims`.
GGML_API void ggml_rope_yarn_corr_dims(int n_dims, int n_ctx_orig, float freq_base, float beta_fast,
                                       float beta_slow, float dims[2]);

// ------------------------------------------------------------------------------------------------
// Attention

/// soft-max(q * k * scale + mask) * v in one step: F32 [v size, heads, queries, batch].
///
/// q: F32 [k size, queries, heads, batch]; k: [k size, keys, k heads, batch]; v: [v size, keys, v
/// heads, batch]; heads share k and v in groups. mask: F16, at least [keys, queries], or NULL.
/// `max_bias` as in ggml_soft_max_ext(). `logit_softcap` c other than 0 turns scores z into c *
/// tanh(z / c) before the mask is added. A query that is masked altogether gives zeros.
GGML_API struct ggml_tensor* ggml_flash_attn_ext(struct ggml_context* ctx, struct ggml_tensor* q,
                                                 struct ggml_tensor* k, struct ggml_tensor* v,
                                                 struct ggml_tensor* mask, float scale,
                                                 float max_bias, float logit_softcap);

/// Sets the precision of an attention tensor.
GGML_API void ggml_flash_attn_ext_set_prec(struct ggml_tensor* a, enum ggml_prec prec);

/// Its precision.
GGML_API enum ggml_prec ggml_flash_attn_ext_get_prec(const struct ggml_tensor* a);

/// Gives an attention tensor one extra logit per head (F32) that counts in the sum only. NULL
/// removes it.
GGML_API void ggml_flash_attn_ext_add_sinks(struct ggml_tensor* a, struct ggml_tensor* sinks);

/// Not offered: always an error.
GGML_API struct ggml_tensor* ggml_flash_attn_back(struct ggml_context* ctx, struct ggml_tensor* q,
                                                  struct ggml_tensor* k, struct ggml_tensor* v,
                                                  struct ggml_tensor* d, bool masked);

/// Scores of a sparse-attention indexer: F32 [keys, queries, 1, batch].
///
/// sum over heads of weights * max(0, q * k), plus mask. q: F32 [size, heads, queries, batch];
/// k: [size, 1, keys, batch]; weights: F32 [heads, queries, 1, batch]; mask: F16 [keys, queries, 1,
/// ...].
GGML_API struct ggml_tensor* ggml_lightning_indexer(struct ggml_context* ctx, struct ggml_tensor* q,
                                                    struct ggml_tensor* k,
                                                    struct ggml_tensor* weights,
                                                    struct ggml_tensor* mask);

// ------------------------------------------------------------------------------------------------
// Convolution
//
// The kernel `a` slides over the data `b`; it is not flipped. s, p and d are stride, padding (zeros
// on both sides) and dilation, with 0 for width, 1 for height, 2 for depth. Extents: K kernel, W H
// D data, IC and OC channels in and out, N batch. An output has (in + 2 p - d (k - 1) - 1) / s + 1
// elements.

/// The patches of `b` under the kernel, one per column, in `dst_type`; of `a` only the shape
/// matters.
///
/// 2D: a [KW, KH, IC, OC], b [W, H, IC, N], result [IC KH KW, OW, OH, N].
/// 1D: a [K, IC, OC], b [W, IC, N], result [IC K, OW, N].
GGML_API struct ggml_tensor* ggml_im2col(struct ggml_context* ctx, struct ggml_tensor* a,
                                         struct ggml_tensor* b, int s0, int s1, int p0, int p1,
                                         int d0, int d1, bool is_2D, enum ggml_type dst_type);

/// Gradient of ggml_im2col(): `a` is the gradient of its result, `b` the kernel, `ne` the four
/// extents of the data. F32.
GGML_API struct ggml_tensor* ggml_im2col_back(struct ggml_context* ctx, struct ggml_tensor* a,
                                              struct ggml_tensor* b, int64_t* ne, int s0, int s1,
                                              int p0, int p1, int d0, int d1, bool is_2D);

/// Patches of volumes: a [KW, KH, KD, OC IC], b [W, H, D, N IC], result [IC KD KH KW, OW, OH, OD
/// N].
GGML_API struct ggml_tensor* ggml_im2col_3d(struct ggml_context* ctx, struct ggml_tensor* a,
                                            struct ggml_tensor* b, int64_t IC, int s0, int s1,
                                            int s2, int p0, int p1, int p2, int d0, int d1, int d2,
                                            enum ggml_type dst_type);

/// Columns added up to a signal, the inverse of a one-dimensional ggml_im2col(): `a` [K oc, T],
/// result [(T - 1) s0 + K - 2 p0, oc].
GGML_API struct ggml_tensor* ggml_col2im_1d(struct ggml_context* ctx, struct ggml_tensor* a, int s0,
                                            int oc, int p0);

/// a [K, IC, OC], b [L, IC, N], result [OL, OC, N].
GGML_API struct ggml_tensor* ggml_conv_1d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          struct ggml_tensor* b, int s0, int p0, int d0);

/// ggml_conv_1d() with stride `s`, dilation `d` and half the kernel as padding.
GGML_API struct ggml_tensor* ggml_conv_1d_ph(struct ggml_context* ctx, struct ggml_tensor* a,
                                             struct ggml_tensor* b, int s, int d);

/// Channel by channel: a [K, 1, C], b [L, C, N], result [OL, C, 1].
GGML_API struct ggml_tensor* ggml_conv_1d_dw(struct ggml_context* ctx, struct ggml_tensor* a,
                                             struct ggml_tensor* b, int s0, int p0, int d0);

/// ggml_conv_1d_dw() with half the kernel as padding.
GGML_API struct ggml_tensor* ggml_conv_1d_dw_ph(struct ggml_context* ctx, struct ggml_tensor* a,
                                                struct ggml_tensor* b, int s0, int d0);

/// a [KW, KH, IC, OC], b [W, H, IC, N], result [OW, OH, OC, N]; by ggml_im2col() and a matrix
/// product.
GGML_API struct ggml_tensor* ggml_conv_2d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          struct ggml_tensor* b, int s0, int s1, int p0, int p1,
                                          int d0, int d1);

/// ggml_conv_2d() with the kernel as stride and no padding.
GGML_API struct ggml_tensor* ggml_conv_2d_sk_p0(struct ggml_context* ctx, struct ggml_tensor* a,
                                                struct ggml_tensor* b);

/// ggml_conv_2d() with stride 1 and half the kernel as padding.
GGML_API struct ggml_tensor* ggml_conv_2d_s1_ph(struct ggml_context* ctx, struct ggml_tensor* a,
                                                struct ggml_tensor* b);

/// The same as ggml_conv_2d() in one operation.
GGML_API struct ggml_tensor* ggml_conv_2d_direct(struct ggml_context* ctx, struct ggml_tensor* a,
                                                 struct ggml_tensor* b, int s0, int s1, int p0,
                                                 int p1, int d0, int d1);

/// Channel by channel: a [KW, KH, 1, C], b [W, H, C, N], result [OW, OH, C, N].
GGML_API struct ggml_tensor* ggml_conv_2d_dw(struct ggml_context* ctx, struct ggml_tensor* a,
                                             struct ggml_tensor* b, int s0, int s1, int p0, int p1,
                                             int d0, int d1);

/// The same in one operation; data with channels stored together gives a result stored so, too.
GGML_API struct ggml_tensor* ggml_conv_2d_dw_direct(struct ggml_context* ctx, struct ggml_tensor* a,
                                                    struct ggml_tensor* b, int stride0, int stride1,
                                                    int pad0, int pad1, int dilation0,
                                                    int dilation1);

/// a [KW, KH, KD, OC IC], b [W, H, D, N IC], result [OW, OH, OD, OC N].
GGML_API struct ggml_tensor* ggml_conv_3d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          struct ggml_tensor* b, int64_t IC, int s0, int s1, int s2,
                                          int p0, int p1, int p2, int d0, int d1, int d2);

/// The same in one operation, with channels and batch given.
GGML_API struct ggml_tensor* ggml_conv_3d_direct(struct ggml_context* ctx, struct ggml_tensor* a,
                                                 struct ggml_tensor* b, int s0, int s1, int s2,
                                                 int p0, int p1, int p2, int d0, int d1, int d2,
                                                 int n_channels, int n_batch, int n_channels_out);

/// Transposed: a [K, OC, IC], b [L, IC], result [(L - 1) s0 + K, OC]. Padding must be 0,
/// dilation 1.
GGML_API struct ggml_tensor* ggml_conv_transpose_1d(struct ggml_context* ctx, struct ggml_tensor* a,
                                                    struct ggml_tensor* b, int s0, int p0, int d0);

/// Transposed: a [KW, KH, OC, IC], b [W, H, IC, N], result [(W - 1) stride + KW, ..., OC, N].
GGML_API struct ggml_tensor* ggml_conv_transpose_2d_p0(struct ggml_context* ctx,
                                                       struct ggml_tensor* a, struct ggml_tensor* b,
                                                       int stride);

// ------------------------------------------------------------------------------------------------
// Pooling

/// What becomes of the values in a window.
enum ggml_op_pool GGML_ENUM_INT {
    GGML_OP_POOL_MAX = 0,    ///< The largest.
    GGML_OP_POOL_AVG = 1,    ///< Their mean.
    GGML_OP_POOL_COUNT = 2,  ///< Number of kinds.
};

/// Windows of `k0` elements, `s0` apart, with padding `p0`. F32.
GGML_API struct ggml_tensor* ggml_pool_1d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          enum ggml_op_pool op, int k0, int s0, int p0);

/// Windows of k0 x k1 pixels, s0 and s1 apart, with padding p0 and p1. F32.
GGML_API struct ggml_tensor* ggml_pool_2d(struct ggml_context* ctx, struct ggml_tensor* a,
                                          enum ggml_op_pool op, int k0, int k1, int s0, int s1,
                                          float p0, float p1);

/// Gradient of ggml_pool_2d(): `a` is the gradient of its result, `af` its operand.
GGML_API struct ggml_tensor* ggml_pool_2d_back(struct ggml_context* ctx, struct ggml_tensor* a,
                                               struct ggml_tensor* af, enum ggml_op_pool op, int k0,
                                               int k1, int s0, int s1, float p0, float p1);

// ------------------------------------------------------------------------------------------------
// Recurrent layers and state-space models
//
// All F32. Several of these return two results in one tensor, to be cut out with views: first the
// outputs y of all tokens, then states. They never change the state they are given.

/// Causal convolution of each channel: sx [d_conv - 1 + tokens, d_inner, sequences], c [d_conv,
/// d_inner], result [d_inner, tokens, sequences].
GGML_API struct ggml_tensor* ggml_ssm_conv(struct ggml_context* ctx, struct ggml_tensor* sx,
                                           struct ggml_tensor* c);

/// Selective scan (Mamba): y [head size, heads, tokens, sequences], then the last `K` states
/// [d_state, head size, heads, sequences], newest first.
///
/// s: pool of states, ids: which of them each sequence starts from; x: inputs; dt: step sizes
/// before softplus; A: [1, heads] or [d_state, heads], the latter with K = 1; B, C: [d_state,
/// groups, tokens, sequences].
GGML_API struct ggml_tensor* ggml_ssm_scan(struct ggml_context* ctx, struct ggml_tensor* s,
                                           struct ggml_tensor* x, struct ggml_tensor* dt,
                                           struct ggml_tensor* A, struct ggml_tensor* B,
                                           struct ggml_tensor* C, struct ggml_tensor* ids,
                                           int64_t K);

/// RWKV 6: y [size, heads, tokens], then the final states. k, v, r, td: [size, heads, tokens];
/// tf: [size, heads]; state: one column of size * size * heads per sequence.
GGML_API struct ggml_tensor* ggml_rwkv_wkv6(struct ggml_context* ctx, struct ggml_tensor* k,
                                            struct ggml_tensor* v, struct ggml_tensor* r,
                                            struct ggml_tensor* tf, struct ggml_tensor* td,
                                            struct ggml_tensor* state);

/// RWKV 7: y [size, heads, tokens], then the final states. All operands but the state have that
/// shape; `w` is the decay itself.
GGML_API struct ggml_tensor* ggml_rwkv_wkv7(struct ggml_context* ctx, struct ggml_tensor* r,
                                            struct ggml_tensor* w, struct ggml_tensor* k,
                                            struct ggml_tensor* v, struct ggml_tensor* a,
                                            struct ggml_tensor* b, struct ggml_tensor* state);

/// Gated linear attention: y [size, heads, tokens], then the final states. `scale` multiplies q.
GGML_API struct ggml_tensor* ggml_gated_linear_attn(struct ggml_context* ctx, struct ggml_tensor* k,
                                                    struct ggml_tensor* v, struct ggml_tensor* q,
                                                    struct ggml_tensor* g,
                                                    struct ggml_tensor* state, float scale);

/// Gated delta rule: y [size, heads, tokens, sequences], then the last `K` states [size, size,
/// heads, sequences], newest first. g: logarithm of the decay, [1 or size, heads, ...]; q is scaled
/// by 1 / sqrt(size) inside.
GGML_API struct ggml_tensor* ggml_gated_delta_net(struct ggml_context* ctx, struct ggml_tensor* q,
                                                  struct ggml_tensor* k, struct ggml_tensor* v,
                                                  struct ggml_tensor* g, struct ggml_tensor* beta,
                                                  struct ggml_tensor* state, int64_t K);

// ------------------------------------------------------------------------------------------------
// Hyper-connections

/// Mixing matrices [hc, hc, tokens] from mixes [(2 + hc) hc, tokens], balanced in `n_iter` rounds
/// of row and column normalisation. hc is 4.
GGML_API struct ggml_tensor* ggml_dsv4_hc_comb(struct ggml_context* ctx, struct ggml_tensor* mixes,
                                               struct ggml_tensor* scale, struct ggml_tensor* base,
                                               float eps, int32_t n_iter);

/// Weighted sum of streams: x [n, hc, tokens], weights [hc, tokens], result [n, tokens].
GGML_API struct ggml_tensor* ggml_dsv4_hc_pre(struct ggml_context* ctx, struct ggml_tensor* x,
                                              struct ggml_tensor* weights);

/// New streams: x(i) * post(d) + sum over s of residual(i, s) * comb(d, s): [n, hc, tokens].
GGML_API struct ggml_tensor* ggml_dsv4_hc_post(struct ggml_context* ctx, struct ggml_tensor* x,
                                               struct ggml_tensor* residual,
                                               struct ggml_tensor* post, struct ggml_tensor* comb);

#ifdef __cplusplus
}
#endif
