#include "bench/cases.hpp"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_nn.h"

/// Layers of language models that are neither products nor attention.
namespace heddle::tool::bench {
namespace {

using enum SizedOp::Beside;

ggml_tensor* f32(Inputs& inputs, std::initializer_list<std::int64_t> extents) {
    return inputs.input(GGML_TYPE_F32, extents);
}

ggml_tensor* state_space_convolution(Inputs& inputs, std::int64_t tokens, ggml_type) {
    constexpr std::int64_t channels = 4096;
    ggml_tensor* x = f32(inputs, {tokens + 3, channels, 1});
    return ggml_ssm_conv(inputs.context(), x, f32(inputs, {4, channels}));
}

ggml_tensor* selective_scan(Inputs& inputs, std::int64_t tokens, ggml_type) {
    constexpr std::int64_t state = 128, width = 64, heads = 32;
    ggml_tensor* states = f32(inputs, {state, width, heads, 1});
    ggml_tensor* x = f32(inputs, {width, heads, tokens, 1});
    ggml_tensor* steps = f32(inputs, {heads, tokens, 1});
    ggml_tensor* decay = f32(inputs, {1, heads});
    ggml_tensor* b = f32(inputs, {state, 1, tokens, 1});
    ggml_tensor* c = f32(inputs, {state, 1, tokens, 1});
    ggml_tensor* ids = inputs.input(GGML_TYPE_I32, {1}, {Content::Kind::numbers, 1});
    return ggml_ssm_scan(inputs.context(), states, x, steps, decay, b, c, ids, 1);
}

/// What the linear attentions share: 32 heads of 64.
struct Heads {
    static constexpr std::int64_t kWidth = 64, kCount = 32;

    Inputs& inputs;
    std::int64_t tokens;

    ggml_tensor* vectors() const { return f32(inputs, {kWidth, kCount, tokens}); }
    ggml_tensor* state() const { return f32(inputs, {kWidth * kWidth * kCount, 1}); }
};

ggml_tensor* rwkv6(Inputs& inputs, std::int64_t tokens, ggml_type) {
    const Heads heads{inputs, tokens};
    ggml_tensor *k = heads.vectors(), *v = heads.vectors(), *r = heads.vectors();
    ggml_tensor* first = f32(inputs, {Heads::kWidth, Heads::kCount});
    ggml_tensor* decay = heads.vectors();
    return ggml_rwkv_wkv6(inputs.context(), k, v, r, first, decay, heads.state());
}

ggml_tensor* rwkv7(Inputs& inputs, std::int64_t tokens, ggml_type) {
    const Heads heads{inputs, tokens};
    ggml_tensor *r = heads.vectors(), *w = heads.vectors(), *k = heads.vectors();
    ggml_tensor *v = heads.vectors(), *a = heads.vectors(), *b = heads.vectors();
    return ggml_rwkv_wkv7(inputs.context(), r, w, k, v, a, b, heads.state());
}

ggml_tensor* gated_attention(Inputs& inputs, std::int64_t tokens, ggml_type) {
    const Heads heads{inputs, tokens};
    ggml_tensor *k = heads.vectors(), *v = heads.vectors();
    ggml_tensor *q = heads.vectors(), *gate = heads.vectors();
    return ggml_gated_linear_attn(inputs.context(), k, v, q, gate, heads.state(), 0.125f);
}

ggml_tensor* delta_rule(Inputs& inputs, std::int64_t tokens, ggml_type) {
    constexpr std::int64_t width = 128, heads = 16;
    ggml_tensor* q = f32(inputs, {width, heads, tokens, 1});
    ggml_tensor* k = f32(inputs, {width, heads, tokens, 1});
    ggml_tensor* v = f32(inputs, {width, heads, tokens, 1});
    ggml_tensor* gate = f32(inputs, {1, heads, tokens, 1});
    ggml_tensor* beta = f32(inputs, {1, heads, tokens, 1});
    ggml_tensor* state = f32(inputs, {width, width, heads, 1});
    return ggml_gated_delta_net(inputs.context(), q, k, v, gate, beta, state, 1);
}

ggml_tensor* triangular(Inputs& inputs, std::int64_t matrices, ggml_type) {
    ggml_tensor* a = f32(inputs, {64, 64, matrices});
    return ggml_solve_tri(inputs.context(), a, f32(inputs, {128, 64, matrices}), true, true, false);
}

ggml_tensor* key_scores(Inputs& inputs, std::int64_t tokens, ggml_type type) {
    constexpr std::int64_t width = 128, heads = 64, keys = 4096;
    ggml_tensor* q = f32(inputs, {width, heads, tokens, 1});
    ggml_tensor* k = inputs.input(type, {width, 1, keys, 1});
    ggml_tensor* weights = f32(inputs, {heads, tokens, 1, 1});
    ggml_tensor* mask = inputs.input(GGML_TYPE_F16, {keys, tokens}, {Content::Kind::zeros});
    return ggml_lightning_indexer(inputs.context(), q, k, weights, mask);
}

// Four streams of 4096 beside each other.

ggml_tensor* mixing_matrices(Inputs& inputs, std::int64_t tokens, ggml_type) {
    ggml_tensor* mixes = f32(inputs, {24, tokens});
    ggml_tensor* scale = f32(inputs, {3});
    return ggml_dsv4_hc_comb(inputs.context(), mixes, scale, f32(inputs, {24}), 1e-6f, 20);
}

ggml_tensor* streams_joined(Inputs& inputs, std::int64_t tokens, ggml_type) {
    ggml_tensor* x = f32(inputs, {4096, 4, tokens});
    return ggml_dsv4_hc_pre(inputs.context(), x, f32(inputs, {4, tokens}));
}

ggml_tensor* streams_mixed(Inputs& inputs, std::int64_t tokens, ggml_type) {
    ggml_tensor* x = f32(inputs, {4096, tokens});
    ggml_tensor* residual = f32(inputs, {4096, 4, tokens});
    ggml_tensor* post = f32(inputs, {4, tokens});
    return ggml_dsv4_hc_post(inputs.context(), x, residual, post, f32(inputs, {4, 4, tokens}));
}

/// The bias of the expert that each token uses.
ggml_tensor* bias_of_experts(Inputs& inputs, std::int64_t tokens, ggml_type) {
    constexpr std::int64_t width = 2048, used = 2, experts = 8;
    ggml_tensor* x = f32(inputs, {width, used, tokens});
    ggml_tensor* bias = f32(inputs, {width, experts});
    return ggml_add_id(
        inputs.context(), x, bias,
        inputs.input(GGML_TYPE_I32, {used, tokens}, {Content::Kind::scattered, experts}));
}

// clang-format off
constexpr SizedOp kTable[] = {
    // op                model  shape                          size  quick  beside  how                     usual
    {"SSM_CONV",          "llm", "4x4096 n={}",                  512,  16, peak, state_space_convolution, true},
    {"SSM_SCAN",          "llm", "state 128, head 64 x 32 n={}", 512,  16, peak, selective_scan,          true},
    {"RWKV_WKV6",         "llm", "head 64 x 32 n={}",            512,  16, peak, rwkv6,                   true},
    {"RWKV_WKV7",         "llm", "head 64 x 32 n={}",            512,  16, peak, rwkv7},
    {"GATED_LINEAR_ATTN", "llm", "head 64 x 32 n={}",            512,  16, peak, gated_attention},
    {"GATED_DELTA_NET",   "llm", "head 128 x 16 n={}",           512,  16, peak, delta_rule},
    {"SOLVE_TRI",         "llm", "64x64, 128 columns, {} times", 128,   4, peak, triangular},
    {"LIGHTNING_INDEXER", "llm", "head 128 x 64 kv=4096 q={}",    32,   2, peak, key_scores, false, GGML_TYPE_F16},
    {"DSV4_HC_COMB",      "llm", "4 streams n={}",               512,  64, peak, mixing_matrices},
    {"DSV4_HC_PRE",       "llm", "4096 x 4 streams n={}",        512,  16, copy, streams_joined},
    {"DSV4_HC_POST",      "llm", "4096 x 4 streams n={}",        512,  16, copy, streams_mixed},
    {"ADD_ID",            "llm", "2048 x 2 of 8 experts n={}",   512,  16, copy, bias_of_experts},
};
// clang-format on

}  // namespace

std::vector<Case> recurrent_cases(const Wish& wish) { return cases_of(kTable, wish); }

}  // namespace heddle::tool::bench
