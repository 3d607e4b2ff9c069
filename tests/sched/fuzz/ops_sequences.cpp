#include "ggml/ops.h"
#include "shapes.hpp"

/// Ops that go along a sequence and carry a state, and those of mixtures of streams.
namespace heddle::fuzz {
namespace {

using Context = ggml_context;

constexpr std::int64_t kSize = 8, kHeads = 2, kTokens = 4;

/// Values for each token, small enough for states to stay small.
Tensor* tokens_of(Context* c, Tensor* x) {
    return ggml_scale(c, tame(c, cube(c, x, kSize, kHeads, kTokens)), 0.5F);
}
/// How much of a state stays.
Tensor* decay(Context* c, Tensor* x) { return share(c, cube(c, x, kSize, kHeads, kTokens)); }
Tensor* states(Context* c, Tensor* x) { return matrix(c, tame(c, x), kSize * kSize * kHeads, 1); }

Tensor* scan_conv(Context* c, Operands x, Dice&) {
    return ggml_ssm_conv(c, cube(c, x[0], 11, 4, 1), matrix(c, x[1], 4, 4));
}
Tensor* scan(Context* c, Operands x, Dice& dice) {
    constexpr std::int64_t kWide = 4;
    Tensor* ids = some_ids(c, x, x[2], 1);
    Tensor* shrinks = ggml_scale_bias(c, share(c, matrix(c, x[1], 1, kHeads)), -1, -0.1F);
    Tensor* in = block(c, tame(c, x[0]), kWide, kHeads, kTokens, 1);
    Tensor *b = block(c, tame(c, x[1]), kSize, 1, kTokens, 1),
           *read = block(c, tame(c, x[2]), kSize, 1, kTokens, 1);
    return ggml_ssm_scan(c, block(c, tame(c, x[2]), kSize, kWide, kHeads, kIds), in,
                         cube(c, tame(c, x[0]), kHeads, kTokens, 1), shrinks, b, read, ids,
                         dice.between(1, 3));
}
Tensor* wkv6(Context* c, Operands x, Dice&) {
    return ggml_rwkv_wkv6(c, tokens_of(c, x[0]), tokens_of(c, x[1]), tokens_of(c, x[2]),
                          matrix(c, tame(c, x[1]), kSize, kHeads), decay(c, x[0]), states(c, x[2]));
}
Tensor* wkv7(Context* c, Operands x, Dice&) {
    Tensor* a = ggml_l2_norm(c, tokens_of(c, x[1]), 1e-3F);
    return ggml_rwkv_wkv7(c, tokens_of(c, x[0]), decay(c, x[1]), tokens_of(c, x[2]),
                          tokens_of(c, x[0]), ggml_scale(c, a, -1), ggml_scale(c, a, 0.5F),
                          states(c, x[2]));
}
Tensor* linear_attention(Context* c, Operands x, Dice&) {
    return ggml_gated_linear_attn(c, tokens_of(c, x[0]), tokens_of(c, x[1]), tokens_of(c, x[2]),
                                  decay(c, x[1]), states(c, x[0]), 0.25F);
}
Tensor* delta_net(Context* c, Operands x, Dice& dice) {
    const auto unit = [&](Tensor* from) {
        return block(c, ggml_l2_norm(c, tokens_of(c, from), 1e-3F), kSize, kHeads, kTokens, 1);
    };
    Tensor* gate = ggml_scale(c, share(c, block(c, x[1], 1, kHeads, kTokens, 1)), -1);
    return ggml_gated_delta_net(c, unit(x[0]), unit(x[1]), unit(x[2]), gate,
                                share(c, block(c, x[2], 1, kHeads, kTokens, 1)),
                                block(c, tame(c, x[0]), kSize, kSize, kHeads, 1),
                                dice.between(1, 2));
}
Tensor* index_keys(Context* c, Operands x, Dice&) {
    constexpr std::int64_t kWide = 128, kKeys = 8;  // keys are that wide, always
    Tensor* queries = block(c, tame(c, x[0]), kWide, 4, 2, 1);
    Tensor* keys = block(c, tame(c, x[1]), kWide, 1, kKeys, 1);
    Tensor* mask = ggml_cast(c, block(c, tame(c, x[2]), kKeys, 2, 1, 1), GGML_TYPE_F16);
    Tensor* weights = block(c, share(c, x[2]), 4, 2, 1, 1);
    return ggml_scale(c, ggml_lightning_indexer(c, queries, keys, weights, mask), 0.02F);
}
Tensor* streams(Context* c, Operands x, Dice& dice) {
    constexpr std::int64_t kStreams = 3;
    switch (dice.below(3)) {
        case 0:
            return ggml_dsv4_hc_comb(c, matrix(c, tame(c, x[0]), 24, 3), line(c, share(c, x[1]), 3),
                                     line(c, tame(c, x[2]), 24), 1e-6F, dice.between(1, 4));
        case 1:
            return ggml_dsv4_hc_pre(c, cube(c, x[0], 16, kStreams, kTokens),
                                    matrix(c, tame(c, x[1]), kStreams, kTokens));
        default:
            return ggml_dsv4_hc_post(c, matrix(c, x[0], 16, kTokens),
                                     cube(c, x[1], 16, kStreams, kTokens),
                                     matrix(c, tame(c, x[2]), kStreams, kTokens),
                                     cube(c, share(c, x[2]), kStreams, kStreams, kTokens));
    }
}

constexpr OpRule kOps[] = {
    {"ssm_conv", scan_conv},
    {"ssm_scan", scan, true},
    {"rwkv_wkv6", wkv6},
    {"rwkv_wkv7", wkv7},
    {"gated_linear", linear_attention},
    {"delta_net", delta_net},
    {"indexer", index_keys},
    {"streams", streams},
    {"streams", streams},
};

}  // namespace

std::span<const OpRule> sequence_ops() { return kOps; }

}  // namespace heddle::fuzz
