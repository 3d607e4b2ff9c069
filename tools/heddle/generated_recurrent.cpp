#include "generated_recipes.hpp"
#include "ggml/op_list.h"

namespace heddle::tool {
namespace {

void ssm_conv(Draft& draft, int, Chance& chance) {
    const std::int64_t taps = chance.between(1, 4), channels = chance.extent({1, 8, 33});
    draft.calls = "ggml_ssm_conv(src0, src1)";
    draft
        .source(leaf(GGML_TYPE_F32,
                     {taps - 1 + chance.between(1, 9), channels, chance.between(1, 3), 1}))
        .source(leaf(GGML_TYPE_F32, {taps, channels, 1, 1}));
}

/// One decay per state element, one per head, and snapshots of earlier states, more than there are
/// tokens now and then.
void ssm_scan(Draft& draft, int variant, Chance& chance) {
    const std::int64_t size = chance.extent({8, 16, 33}), dim = variant == 0 ? 1 : 4;
    const std::int64_t groups = chance.between(1, 2), heads = groups * chance.between(1, 3);
    const std::int64_t tokens = chance.between(1, 5), sequences = chance.between(1, 2);
    const std::int64_t pool = sequences + 1;
    draft.calls = text("ggml_ssm_scan(src0, src1, src2, src3, src4, src5, src6, ",
                       variant == 2 ? chance.between(2, 6) : 1, ")");
    const Extents shared{size, groups, tokens, sequences};
    draft.source(leaf(GGML_TYPE_F32, {size, dim, heads, pool}))
        .source(leaf(GGML_TYPE_F32, {dim, heads, tokens, sequences}))
        .source(leaf(GGML_TYPE_F32, {heads, tokens, sequences, 1}), uniform(-3, 3))
        .source(leaf(GGML_TYPE_F32, {variant == 0 ? size : 1, heads, 1, 1}), uniform(-2, -0.1))
        .source(leaf(GGML_TYPE_F32, shared))
        .source(leaf(GGML_TYPE_F32, shared))
        .source(leaf(GGML_TYPE_I32, {sequences, 1, 1, 1}), distinct(pool));
    draft.tolerance = 2e-7;
}

/// What linear attentions have in common.
struct Heads {
    Extents token;
    Extents state;

    explicit Heads(Chance& chance) {
        const std::int64_t size = chance.extent({8, 16, 32, 64}), heads = chance.between(1, 3);
        const std::int64_t sequences = chance.between(1, 3);
        token = {size, heads, sequences * chance.between(1, 4), 1};
        state = {size * size * heads, sequences, 1, 1};
    }
};

void rwkv_wkv6(Draft& draft, int, Chance& chance) {
    const Heads h(chance);
    draft.calls = "ggml_rwkv_wkv6(src0, src1, src2, src3, src4, src5)";
    for (int i = 0; i < 3; ++i) draft.source(leaf(GGML_TYPE_F32, h.token));
    draft.source(leaf(GGML_TYPE_F32, {h.token[0], h.token[1], 1, 1}))
        .source(leaf(GGML_TYPE_F32, h.token), uniform(0.3, 0.99))
        .source(leaf(GGML_TYPE_F32, h.state));
}

void rwkv_wkv7(Draft& draft, int, Chance& chance) {
    const Heads h(chance);
    draft.calls = "ggml_rwkv_wkv7(src0, src1, src2, src3, src4, src5, src6)";
    draft.source(leaf(GGML_TYPE_F32, h.token))
        .source(leaf(GGML_TYPE_F32, h.token), uniform(0.3, 0.99))
        .source(leaf(GGML_TYPE_F32, h.token), uniform(-0.5, 0.5))
        .source(leaf(GGML_TYPE_F32, h.token))
        .source(leaf(GGML_TYPE_F32, h.token), filled(Fill::Kind::unit, -1, 1))
        .source(leaf(GGML_TYPE_F32, h.token), filled(Fill::Kind::unit, -1, 0.5))
        .source(leaf(GGML_TYPE_F32, h.state));
}

void gated_linear_attn(Draft& draft, int, Chance& chance) {
    const Heads h(chance);
    draft.calls = "ggml_gated_linear_attn(src0, src1, src2, src3, src4, 0.25)";
    for (int i = 0; i < 3; ++i) draft.source(leaf(GGML_TYPE_F32, h.token));
    draft.source(leaf(GGML_TYPE_F32, h.token), uniform(0.3, 0.99))
        .source(leaf(GGML_TYPE_F32, h.state));
}

/// A gate per head or per key; queries and keys shared by several heads and sequences.
void gated_delta_net(Draft& draft, int variant, Chance& chance) {
    const std::int64_t size = chance.extent({8, 16, 32, 64}), shared = chance.between(1, 2);
    const std::int64_t heads = shared * chance.between(1, 3), tokens = chance.between(1, 6);
    const std::int64_t sequences = chance.between(1, 2);
    const Extents key{size, shared, tokens, chance.one_in(2) ? sequences : 1};
    const Extents gate{1, heads, tokens, sequences};
    draft.calls = text("ggml_gated_delta_net(src0, src1, src2, src3, src4, src5, ",
                       chance.pick({1, 1, 3}), ")");
    draft.source(dense_rows(chance, GGML_TYPE_F32, key), filled(Fill::Kind::unit))
        .source(leaf(GGML_TYPE_F32, key), filled(Fill::Kind::unit))
        .source(dense_rows(chance, GGML_TYPE_F32, {size, heads, tokens, sequences}))
        .source(leaf(GGML_TYPE_F32, {variant == 0 ? 1 : size, heads, tokens, sequences}),
                uniform(-3, -0.0001))
        .source(leaf(GGML_TYPE_F32, gate), uniform(0, 1))
        .source(leaf(GGML_TYPE_F32, {size, size, heads, sequences}));
}

// ---- hyper-connections -------------------------------------------------------------------------

void dsv4_hc_comb(Draft& draft, int, Chance& chance) {
    draft.calls = text("ggml_dsv4_hc_comb(src0, src1, src2, 1e-06, ", chance.pick({1, 2, 20}), ")");
    draft.source(padded_rows(chance, GGML_TYPE_F32, {24, chance.between(1, 9), 1, 1}))
        .source(leaf(GGML_TYPE_F32, {3, 1, 1, 1}), uniform(0.5, 1.5))
        .source(leaf(GGML_TYPE_F32, {24, 1, 1, 1}));
}

void dsv4_hc_pre(Draft& draft, int, Chance& chance) {
    const std::int64_t n = chance.extent({1, 16, 33}), streams = chance.between(1, 5);
    const std::int64_t tokens = chance.between(1, 5);
    draft.calls = "ggml_dsv4_hc_pre(src0, src1)";
    draft.source(dense_rows(chance, GGML_TYPE_F32, {n, streams, tokens, 1}))
        .source(padded_rows(chance, GGML_TYPE_F32, {streams, tokens, 1, 1}));
}

void dsv4_hc_post(Draft& draft, int, Chance& chance) {
    const std::int64_t n = chance.extent({1, 16, 33}), streams = chance.between(1, 5);
    const std::int64_t tokens = chance.between(1, 5);
    draft.calls = "ggml_dsv4_hc_post(src0, src1, src2, src3)";
    draft.source(padded_rows(chance, GGML_TYPE_F32, {n, tokens, 1, 1}))
        .source(dense_rows(chance, GGML_TYPE_F32, {n, streams, tokens, 1}))
        .source(padded_rows(chance, GGML_TYPE_F32, {streams, tokens, 1, 1}))
        .source(dense_rows(chance, GGML_TYPE_F32, {streams, streams, tokens, 1}));
}

constexpr Recipe kRecipes[] = {
    {GGML_OP_SSM_CONV, ssm_conv},
    {GGML_OP_SSM_SCAN, ssm_scan, 3},
    {GGML_OP_RWKV_WKV6, rwkv_wkv6},
    {GGML_OP_RWKV_WKV7, rwkv_wkv7},
    {GGML_OP_GATED_LINEAR_ATTN, gated_linear_attn},
    {GGML_OP_GATED_DELTA_NET, gated_delta_net, 2},
    {GGML_OP_DSV4_HC_COMB, dsv4_hc_comb},
    {GGML_OP_DSV4_HC_PRE, dsv4_hc_pre},
    {GGML_OP_DSV4_HC_POST, dsv4_hc_post},
};

}  // namespace

std::span<const Recipe> recurrent_recipes() { return kRecipes; }

}  // namespace heddle::tool
