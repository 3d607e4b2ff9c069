// Recurrences, state-space models, and ops of single models.

#include "capi/boundary.hpp"
#include "ggml.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"
#include "ops/dsv4.hpp"
#include "ops/lightning_indexer.hpp"
#include "ops/recurrent.hpp"
#include "ops/solve_tri.hpp"
#include "ops/state_space.hpp"

using namespace heddle;
using capi::node;

ggml_tensor* ggml_ssm_conv(ggml_context* ctx, ggml_tensor* sx, ggml_tensor* c) {
    return node<ops::SsmConv>(ctx, {}, {sx, c});
}

ggml_tensor* ggml_ssm_scan(ggml_context* ctx, ggml_tensor* s, ggml_tensor* x, ggml_tensor* dt,
                           ggml_tensor* A, ggml_tensor* B, ggml_tensor* C, ggml_tensor* ids,
                           int64_t K) {
    return node<ops::SsmScan>(ctx, ops::SsmScan::args(K), {s, x, dt, A, B, C, ids});
}

ggml_tensor* ggml_rwkv_wkv6(ggml_context* ctx, ggml_tensor* k, ggml_tensor* v, ggml_tensor* r,
                            ggml_tensor* tf, ggml_tensor* td, ggml_tensor* state) {
    return node<ops::RwkvWkv6>(ctx, {}, {k, v, r, tf, td, state});
}

ggml_tensor* ggml_rwkv_wkv7(ggml_context* ctx, ggml_tensor* r, ggml_tensor* w, ggml_tensor* k,
                            ggml_tensor* v, ggml_tensor* a, ggml_tensor* b, ggml_tensor* state) {
    return node<ops::RwkvWkv7>(ctx, {}, {r, w, k, v, a, b, state});
}

ggml_tensor* ggml_gated_linear_attn(ggml_context* ctx, ggml_tensor* k, ggml_tensor* v,
                                    ggml_tensor* q, ggml_tensor* g, ggml_tensor* state,
                                    float scale) {
    return node<ops::GatedLinearAttn>(ctx, {scale}, {k, v, q, g, state});
}

ggml_tensor* ggml_gated_delta_net(ggml_context* ctx, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v,
                                  ggml_tensor* g, ggml_tensor* beta, ggml_tensor* state,
                                  int64_t K) {
    return node<ops::GatedDeltaNet>(ctx, ops::GatedDeltaNet::args(K), {q, k, v, g, beta, state});
}

ggml_tensor* ggml_solve_tri(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b, bool left,
                            bool lower, bool uni) {
    return node<ops::SolveTri>(ctx, {{}, left, lower, uni}, {a, b});
}

ggml_tensor* ggml_lightning_indexer(ggml_context* ctx, ggml_tensor* q, ggml_tensor* k,
                                    ggml_tensor* weights, ggml_tensor* mask) {
    return node<ops::LightningIndexer>(ctx, {}, {q, k, weights, mask});
}

ggml_tensor* ggml_dsv4_hc_comb(ggml_context* ctx, ggml_tensor* mixes, ggml_tensor* scale,
                               ggml_tensor* base, float eps, int32_t n_iter) {
    return node<ops::Dsv4HcComb>(ctx, {eps, n_iter}, {mixes, scale, base});
}

ggml_tensor* ggml_dsv4_hc_pre(ggml_context* ctx, ggml_tensor* x, ggml_tensor* weights) {
    return node<ops::Dsv4HcPre>(ctx, {}, {x, weights});
}

ggml_tensor* ggml_dsv4_hc_post(ggml_context* ctx, ggml_tensor* x, ggml_tensor* residual,
                               ggml_tensor* post, ggml_tensor* comb) {
    return node<ops::Dsv4HcPost>(ctx, {}, {x, residual, post, comb});
}
