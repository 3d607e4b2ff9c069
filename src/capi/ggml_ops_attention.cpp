// Masks, softmax, rotary positions and attention.

#include <algorithm>

#include "capi/boundary.hpp"
#include "ggml.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"
#include "ggml/ops_reduce.h"
#include "ops/flash_attn.hpp"
#include "ops/mask.hpp"
#include "ops/rope.hpp"
#include "ops/soft_max.hpp"

using namespace heddle;
using capi::node, capi::node_in_place, capi::require;

// ---- masks -------------------------------------------------------------------------------------

ggml_tensor* ggml_diag_mask_inf(ggml_context* ctx, ggml_tensor* a, int n_past) {
    return node<ops::DiagMaskInf>(ctx, {.n_past = n_past}, {a});
}
ggml_tensor* ggml_diag_mask_inf_inplace(ggml_context* ctx, ggml_tensor* a, int n_past) {
    return node_in_place<ops::DiagMaskInf>(ctx, {.n_past = n_past}, {a});
}
ggml_tensor* ggml_diag_mask_zero(ggml_context* ctx, ggml_tensor* a, int n_past) {
    return node<ops::DiagMaskZero>(ctx, {.n_past = n_past}, {a});
}
ggml_tensor* ggml_diag_mask_zero_inplace(ggml_context* ctx, ggml_tensor* a, int n_past) {
    return node_in_place<ops::DiagMaskZero>(ctx, {.n_past = n_past}, {a});
}

// ---- softmax -----------------------------------------------------------------------------------

ggml_tensor* ggml_soft_max(ggml_context* ctx, ggml_tensor* a) {
    return node<ops::SoftMax>(ctx, {}, {a});
}
ggml_tensor* ggml_soft_max_inplace(ggml_context* ctx, ggml_tensor* a) {
    return node_in_place<ops::SoftMax>(ctx, {}, {a});
}
ggml_tensor* ggml_soft_max_ext(ggml_context* ctx, ggml_tensor* a, ggml_tensor* mask, float scale,
                               float max_bias) {
    return node<ops::SoftMax>(ctx, {.scale = scale, .max_bias = max_bias}, {a, mask});
}
ggml_tensor* ggml_soft_max_ext_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* mask,
                                       float scale, float max_bias) {
    return node_in_place<ops::SoftMax>(ctx, {.scale = scale, .max_bias = max_bias}, {a, mask});
}

void ggml_soft_max_add_sinks(ggml_tensor* a, ggml_tensor* sinks) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(a, "sinks", "the node"));
        return ops::set_sinks<ops::SoftMax>(*a, sinks);
    });
}

ggml_tensor* ggml_soft_max_ext_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, float scale,
                                    float max_bias) {
    return node<ops::SoftMaxBack>(ctx, {.scale = scale, .max_bias = max_bias}, {a, b});
}
ggml_tensor* ggml_soft_max_ext_back_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b,
                                            float scale, float max_bias) {
    return node_in_place<ops::SoftMaxBack>(ctx, {.scale = scale, .max_bias = max_bias}, {a, b});
}

// ---- rotary positions --------------------------------------------------------------------------

namespace {

/// The scaling that every function but the shortest lets the caller choose.
struct RopeScaling {
    int n_ctx_orig;
    float freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow;
};

ops::Rope::Params rope_params(int n_dims, int mode, const RopeScaling& scaling,
                              const int* sections = nullptr) {
    ops::Rope::Params params{.n_dims = n_dims,
                             .mode = mode,
                             .n_ctx_orig = scaling.n_ctx_orig,
                             .freq_base = scaling.freq_base,
                             .freq_scale = scaling.freq_scale,
                             .ext_factor = scaling.ext_factor,
                             .attn_factor = scaling.attn_factor,
                             .beta_fast = scaling.beta_fast,
                             .beta_slow = scaling.beta_slow};
    if (sections != nullptr && ops::Rope::has_four_positions(mode)) {
        std::copy_n(sections, params.sections.size(), params.sections.begin());
    }
    return params;
}

}  // namespace

ggml_tensor* ggml_rope(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int n_dims, int mode) {
    return node<ops::Rope>(ctx, {.n_dims = n_dims, .mode = mode}, {a, b});
}
ggml_tensor* ggml_rope_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int n_dims,
                               int mode) {
    return node_in_place<ops::Rope>(ctx, {.n_dims = n_dims, .mode = mode}, {a, b});
}

ggml_tensor* ggml_rope_ext(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_tensor* c,
                           int n_dims, int mode, int n_ctx_orig, float freq_base, float freq_scale,
                           float ext_factor, float attn_factor, float beta_fast, float beta_slow) {
    const RopeScaling scaling{n_ctx_orig,  freq_base, freq_scale, ext_factor,
                              attn_factor, beta_fast, beta_slow};
    return node<ops::Rope>(ctx, rope_params(n_dims, mode, scaling), {a, b, c});
}
ggml_tensor* ggml_rope_ext_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b,
                                   ggml_tensor* c, int n_dims, int mode, int n_ctx_orig,
                                   float freq_base, float freq_scale, float ext_factor,
                                   float attn_factor, float beta_fast, float beta_slow) {
    const RopeScaling scaling{n_ctx_orig,  freq_base, freq_scale, ext_factor,
                              attn_factor, beta_fast, beta_slow};
    return node_in_place<ops::Rope>(ctx, rope_params(n_dims, mode, scaling), {a, b, c});
}
ggml_tensor* ggml_rope_ext_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_tensor* c,
                                int n_dims, int mode, int n_ctx_orig, float freq_base,
                                float freq_scale, float ext_factor, float attn_factor,
                                float beta_fast, float beta_slow) {
    const RopeScaling scaling{n_ctx_orig,  freq_base, freq_scale, ext_factor,
                              attn_factor, beta_fast, beta_slow};
    return node<ops::RopeBack>(ctx, rope_params(n_dims, mode, scaling), {a, b, c});
}

ggml_tensor* ggml_rope_multi(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_tensor* c,
                             int n_dims, int sections[GGML_MROPE_SECTIONS], int mode,
                             int n_ctx_orig, float freq_base, float freq_scale, float ext_factor,
                             float attn_factor, float beta_fast, float beta_slow) {
    const RopeScaling scaling{n_ctx_orig,  freq_base, freq_scale, ext_factor,
                              attn_factor, beta_fast, beta_slow};
    return node<ops::Rope>(ctx, rope_params(n_dims, mode, scaling, sections), {a, b, c});
}
ggml_tensor* ggml_rope_multi_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b,
                                     ggml_tensor* c, int n_dims, int sections[GGML_MROPE_SECTIONS],
                                     int mode, int n_ctx_orig, float freq_base, float freq_scale,
                                     float ext_factor, float attn_factor, float beta_fast,
                                     float beta_slow) {
    const RopeScaling scaling{n_ctx_orig,  freq_base, freq_scale, ext_factor,
                              attn_factor, beta_fast, beta_slow};
    return node_in_place<ops::Rope>(ctx, rope_params(n_dims, mode, scaling, sections), {a, b, c});
}
ggml_tensor* ggml_rope_multi_back(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, ggml_tensor* c,
                                  int n_dims, int sections[GGML_MROPE_SECTIONS], int mode,
                                  int n_ctx_orig, float freq_base, float freq_scale,
                                  float ext_factor, float attn_factor, float beta_fast,
                                  float beta_slow) {
    const RopeScaling scaling{n_ctx_orig,  freq_base, freq_scale, ext_factor,
                              attn_factor, beta_fast, beta_slow};
    return node<ops::RopeBack>(ctx, rope_params(n_dims, mode, scaling, sections), {a, b, c});
}

ggml_tensor* ggml_rope_custom(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int n_dims,
                              int mode, int n_ctx_orig, float freq_base, float freq_scale,
                              float ext_factor, float attn_factor, float beta_fast,
                              float beta_slow) {
    return ggml_rope_ext(ctx, a, b, nullptr, n_dims, mode, n_ctx_orig, freq_base, freq_scale,
                         ext_factor, attn_factor, beta_fast, beta_slow);
}
ggml_tensor* ggml_rope_custom_inplace(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, int n_dims,
                                      int mode, int n_ctx_orig, float freq_base, float freq_scale,
                                      float ext_factor, float attn_factor, float beta_fast,
                                      float beta_slow) {
    return ggml_rope_ext_inplace(ctx, a, b, nullptr, n_dims, mode, n_ctx_orig, freq_base,
                                 freq_scale, ext_factor, attn_factor, beta_fast, beta_slow);
}

ggml_tensor* ggml_rope_set_offset(ggml_tensor* a, int n_offs) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(require(a, "rope offset", "the node"));
        HEDDLE_TRY(ops::Rope::set_offset(*a, n_offs));
        return a;
    });
}

void ggml_rope_yarn_corr_dims(int n_dims, int n_ctx_orig, float freq_base, float beta_fast,
                              float beta_slow, float dims[2]) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(dims, "rope_yarn_corr_dims", "the result"));
        const auto limits =
            ops::rope_yarn_corr_dims(n_dims, n_ctx_orig, freq_base, beta_fast, beta_slow);
        std::copy(limits.begin(), limits.end(), dims);
        return ok();
    });
}

// ---- attention in one step ---------------------------------------------------------------------

ggml_tensor* ggml_flash_attn_ext(ggml_context* ctx, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v,
                                 ggml_tensor* mask, float scale, float max_bias,
                                 float logit_softcap) {
    return node<ops::FlashAttnExt>(
        ctx, {.scale = scale, .max_bias = max_bias, .logit_softcap = logit_softcap},
        {q, k, v, mask});
}

void ggml_flash_attn_ext_set_prec(ggml_tensor* a, ggml_prec prec) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(a, "precision", "the node"));
        return ops::FlashAttnExt::set_precision(*a, prec);
    });
}

ggml_prec ggml_flash_attn_ext_get_prec(const ggml_tensor* a) {
    return capi::value_or_fail(
        [&]() -> Result<ggml_prec> {
            HEDDLE_TRY(require(a, "precision", "the node"));
            HEDDLE_TRY_ASSIGN(const std::int32_t precision, ops::FlashAttnExt::precision_of(*a));
            return static_cast<ggml_prec>(precision);
        },
        GGML_PREC_DEFAULT);
}

void ggml_flash_attn_ext_add_sinks(ggml_tensor* a, ggml_tensor* sinks) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(a, "sinks", "the node"));
        return ops::set_sinks<ops::FlashAttnExt>(*a, sinks);
    });
}

ggml_tensor* ggml_flash_attn_back(ggml_context* ctx, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v,
                                  ggml_tensor* d, bool masked) {
    return node<ops::FlashAttnBack>(ctx, {.masked = masked}, {q, k, v, d});
}
