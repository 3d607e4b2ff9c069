#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "ggml.h"
#include "ggml/ops.h"

/// For tests: layers as models have them, one for each group of nodes that backends compute at
/// once.
namespace heddle::test {

/// Builds nodes of a layer over `tokens` tokens. Weights come from the caller, who gives them
/// memory; they count as having some.
class FusionLayers {
public:
    using Weight = std::function<ggml_tensor*(ggml_type, std::vector<std::int64_t>)>;

    static constexpr std::int64_t kWidth = 64, kHidden = 192, kHead = 16, kHeads = 4, kExperts = 8,
                                  kChosen = 2;

    FusionLayers(ggml_context* context, ggml_cgraph* graph, std::int64_t tokens, Weight weight)
        : c(context), graph_(graph), tokens_(tokens), weight_(std::move(weight)) {}

    struct Sample {
        std::string_view pattern;
        ggml_tensor* (FusionLayers::*build)(ggml_tensor*);
    };
    /// One for each row of the table that other backends fuse, too; some rows have several.
    static const std::vector<Sample>& samples();

    /// A whole graph: activations are computed, go through the sample, and are added to the rest.
    void build(const Sample& sample) {
        ggml_tensor* x = input({kWidth, tokens_});
        ggml_tensor* h = ggml_sin(c, ggml_mul_mat(c, matrix(kWidth, kWidth), x));
        ggml_tensor* y = (this->*sample.build)(h);
        if (y != nullptr) finish(ggml_mul_mat(c, matrix(y->ne[0], kWidth), y));
    }

    ggml_tensor* input(std::vector<std::int64_t> ne, ggml_type type = GGML_TYPE_F32) {
        ggml_tensor* x = ggml_new_tensor(c, type, static_cast<int>(ne.size()), ne.data());
        ggml_set_input(x);
        return x;
    }
    ggml_tensor* matrix(std::int64_t columns, std::int64_t rows) {
        return weight_(GGML_TYPE_F32, {columns, rows});
    }
    ggml_tensor* factors(std::int64_t n) { return weight_(GGML_TYPE_F32, {n}); }
    ggml_tensor* product(ggml_tensor* x, std::int64_t rows) {
        return ggml_mul_mat(c, matrix(x->ne[0], rows), x);
    }
    ggml_tensor* norm(ggml_tensor* x) { return ggml_rms_norm(c, x, 1e-5f); }
    ggml_tensor* normed(ggml_tensor* x) { return ggml_mul(c, norm(x), factors(x->ne[0])); }

    // ---- the patterns --------------------------------------------------------------------------

    ggml_tensor* delta_net_state(ggml_tensor* x) {
        const auto heads = [&](ggml_tensor* y) {
            return ggml_reshape_4d(c, y, kHead, kHeads, tokens_, 1);
        };
        ggml_tensor *q = heads(product(x, kWidth)), *k = heads(product(x, kWidth)),
                    *v = heads(product(x, kWidth));
        ggml_tensor* g = ggml_reshape_4d(c, product(x, kHeads), 1, kHeads, tokens_, 1);
        ggml_tensor* beta =
            ggml_reshape_4d(c, ggml_sigmoid(c, product(x, kHeads)), 1, kHeads, tokens_, 1);
        ggml_tensor* state = weight_(GGML_TYPE_F32, {kHead, kHead, kHeads, 1});
        ggml_tensor* y = ggml_gated_delta_net(c, q, k, v, g, beta, state, 1);
        const std::size_t end = static_cast<std::size_t>(tokens_) * y->nb[1];
        ggml_tensor* tail = ggml_view_1d(c, y, kHead * kHead * kHeads, end);
        ggml_build_forward_expand(graph_, ggml_cpy(c, tail, state));
        return ggml_view_2d(c, y, kWidth, tokens_, y->nb[1], 0);
    }

    ggml_tensor* gate(ggml_tensor* x, ggml_tensor* probabilities, bool bias) {
        ggml_tensor* choice = bias ? ggml_add(c, probabilities, factors(kExperts)) : probabilities;
        ggml_tensor* ids = chosen(choice);
        ggml_tensor* w =
            ggml_get_rows(c, ggml_reshape_3d(c, probabilities, 1, kExperts, tokens_), ids);
        ggml_build_forward_expand(graph_, w);
        w = ggml_reshape_2d(c, w, kChosen, tokens_);
        w = ggml_div(c, w, ggml_clamp(c, ggml_sum_rows(c, w), 1e-6f, 1e6f));
        w = ggml_scale(c, ggml_reshape_3d(c, w, 1, kChosen, tokens_), 2.5f);
        ggml_build_forward_expand(graph_, w);
        return mixed(x, ids, w);
    }
    ggml_tensor* gate_soft_max(ggml_tensor* x) {
        return gate(x, ggml_soft_max(c, product(x, kExperts)), false);
    }
    ggml_tensor* gate_sigmoid(ggml_tensor* x) {
        return gate(x, ggml_sigmoid(c, product(x, kExperts)), true);
    }
    ggml_tensor* gate_softplus(ggml_tensor* x) {
        return gate(x, ggml_sqrt(c, ggml_softplus(c, product(x, kExperts))), true);
    }
    ggml_tensor* gate_late_soft_max(ggml_tensor* x) {
        ggml_tensor* logits = product(x, kExperts);
        ggml_tensor* ids = chosen(logits);
        ggml_tensor* w = ggml_get_rows(c, ggml_reshape_3d(c, logits, 1, kExperts, tokens_), ids);
        w = ggml_soft_max(c, ggml_reshape_2d(c, w, kChosen, tokens_));
        w = ggml_reshape_3d(c, w, 1, kChosen, tokens_);
        ggml_build_forward_expand(graph_, w);
        return mixed(x, ids, w);
    }

    ggml_tensor* rope_set_rows(ggml_tensor* x) {
        ggml_build_forward_expand(graph_, stored(rotated(heads_of(product(x, kWidth)))));
        return x;
    }
    ggml_tensor* norm_rope_set_rows(ggml_tensor* x) {
        ggml_build_forward_expand(graph_, stored(rotated(normed(heads_of(product(x, kWidth))))));
        return x;
    }
    ggml_tensor* norm_rope(ggml_tensor* x) {
        return ggml_reshape_2d(c, rotated(normed(heads_of(product(x, kWidth)))), kWidth, tokens_);
    }

    ggml_tensor* snake(ggml_tensor* x) {
        const auto rows = [&] { return weight_(GGML_TYPE_F32, {1, tokens_}); };
        ggml_tensor* wave = ggml_sqr(c, ggml_sin(c, ggml_mul(c, x, rows())));
        return ggml_add(c, x, ggml_mul(c, wave, rows()));
    }
    ggml_tensor* add_run(ggml_tensor* x) {
        for (int i = 0; i < 3; ++i) x = ggml_add(c, x, factors(kWidth));
        return x;
    }
    ggml_tensor* mul_run(ggml_tensor* x) {
        for (int i = 0; i < 3; ++i) x = ggml_mul(c, x, factors(kWidth));
        return x;
    }

    /// A product with weights that have a scale of their own.
    ggml_tensor* scaled(ggml_tensor* x, bool bias) {
        ggml_tensor* y = ggml_mul_mat(c, weight_(GGML_TYPE_NVFP4, {kWidth, kHidden}), x);
        y = ggml_mul(c, y, factors(1));
        return bias ? ggml_add(c, y, factors(kHidden)) : y;
    }
    ggml_tensor* scaled_id(ggml_tensor* x, ggml_tensor* ids, bool bias) {
        ggml_tensor* y =
            ggml_mul_mat_id(c, weight_(GGML_TYPE_NVFP4, {kWidth, kHidden, kExperts}), x, ids);
        ggml_tensor* scale = ggml_reshape_3d(c, factors(kExperts), 1, kExperts, 1);
        scale = ggml_get_rows(c, ggml_repeat_4d(c, scale, 1, kExperts, tokens_, 1), ids);
        y = ggml_mul(c, y, scale);
        return bias ? ggml_add_id(c, y, matrix(kHidden, kExperts), ids) : y;
    }
    ggml_tensor* scaled_gate(ggml_tensor* x) {
        ggml_tensor *a = in_order(scaled(x, true)), *b = scaled(x, true);
        return ggml_swiglu_split(c, a, b);
    }
    ggml_tensor* scaled_gate_id(ggml_tensor* x) {
        ggml_tensor *ids = some_ids(x), *y = for_experts(x);
        ggml_tensor *a = in_order(scaled_id(y, ids, false)), *b = scaled_id(y, ids, false);
        return summed(ggml_swiglu_split(c, a, b));
    }
    ggml_tensor* plain_gate(ggml_tensor* x) {
        ggml_tensor *a = in_order(product(x, kHidden)), *b = product(x, kHidden);
        return ggml_swiglu_split(c, a, b);
    }
    ggml_tensor* biased_gate(ggml_tensor* x) {
        ggml_tensor* a = in_order(ggml_add(c, product(x, kHidden), factors(kHidden)));
        ggml_tensor* b = ggml_add(c, product(x, kHidden), factors(kHidden));
        return ggml_glu_split(c, b, a, GGML_GLU_OP_GEGLU);
    }
    ggml_tensor* gate_id(ggml_tensor* x) {
        ggml_tensor *ids = some_ids(x), *y = for_experts(x);
        const auto lane = [&] {
            ggml_tensor* w = weight_(GGML_TYPE_F32, {kWidth, kHidden, kExperts});
            return ggml_add_id(c, ggml_mul_mat_id(c, w, y, ids), matrix(kHidden, kExperts), ids);
        };
        ggml_tensor *a = in_order(lane()), *b = lane();
        return summed(ggml_swiglu_split(c, a, b));
    }
    ggml_tensor* scaled_product(ggml_tensor* x) { return ggml_silu(c, scaled(x, true)); }
    ggml_tensor* scaled_product_id(ggml_tensor* x) {
        ggml_tensor* ids = some_ids(x);
        return summed(ggml_silu(c, scaled_id(for_experts(x), ids, true)));
    }
    ggml_tensor* biased(ggml_tensor* x) {
        return ggml_tanh(c, ggml_add(c, product(x, kHidden), factors(kHidden)));
    }
    ggml_tensor* biased_id(ggml_tensor* x) {
        ggml_tensor* ids = some_ids(x);
        ggml_tensor* w = weight_(GGML_TYPE_F32, {kWidth, kHidden, kExperts});
        ggml_tensor* y = ggml_mul_mat_id(c, w, for_experts(x), ids);
        return summed(ggml_silu(c, ggml_add_id(c, y, matrix(kHidden, kExperts), ids)));
    }

    ggml_tensor* norm_mul_add(ggml_tensor* x) {
        ggml_tensor* y = in_order(ggml_sin(c, x));
        return ggml_add(c, normed(product(x, kWidth)), y);
    }
    ggml_tensor* norm_mul(ggml_tensor* x) { return ggml_cont(c, normed(x)); }
    ggml_tensor* conv_bias_silu(ggml_tensor* x) {
        return ggml_silu(c, ggml_add(c, conv(x), factors(kWidth)));
    }
    ggml_tensor* conv_silu(ggml_tensor* x) { return ggml_silu(c, conv(x)); }
    ggml_tensor* silu_mul(ggml_tensor* x) {
        ggml_tensor* up = in_order(product(x, kHidden));
        return ggml_mul(c, ggml_silu(c, product(x, kHidden)), up);
    }
    ggml_tensor* relu_sqr(ggml_tensor* x) { return ggml_sqr(c, ggml_relu(c, product(x, kHidden))); }
    ggml_tensor* softcap(ggml_tensor* x) {
        return ggml_scale(c, ggml_tanh(c, ggml_scale(c, product(x, kHidden), 0.1f)), 10);
    }

    void finish(ggml_tensor* y) {
        ggml_set_output(y);
        ggml_build_forward_expand(graph_, y);
    }

    /// Its nodes come before those that are built later.
    ggml_tensor* in_order(ggml_tensor* y) {
        ggml_build_forward_expand(graph_, y);
        return y;
    }

    ggml_context* const c;

private:
    ggml_tensor* heads_of(ggml_tensor* x) { return ggml_reshape_3d(c, x, kHead, kHeads, tokens_); }
    ggml_tensor* rotated(ggml_tensor* x) {
        return ggml_rope(c, x, input({tokens_}, GGML_TYPE_I32), kHead, GGML_ROPE_TYPE_NEOX);
    }
    /// The rows of the tokens in a cache.
    ggml_tensor* stored(ggml_tensor* x) {
        ggml_tensor* rows = ggml_view_2d(c, x, kWidth, tokens_, x->nb[2], 0);
        return ggml_set_rows(c, weight_(GGML_TYPE_F16, {kWidth, 1024}), rows,
                             input({tokens_}, GGML_TYPE_I64));
    }
    ggml_tensor* chosen(ggml_tensor* scores) {
        ggml_tensor* sorted = ggml_argsort(c, scores, GGML_SORT_ORDER_DESC);
        return ggml_view_2d(c, sorted, kChosen, tokens_, sorted->nb[1], 0);
    }
    ggml_tensor* some_ids(ggml_tensor* x) { return in_order(chosen(product(x, kExperts))); }
    ggml_tensor* for_experts(ggml_tensor* x) {
        return in_order(ggml_reshape_3d(c, x, kWidth, 1, tokens_));
    }
    /// Weighted results of the experts, added up.
    ggml_tensor* mixed(ggml_tensor* x, ggml_tensor* ids, ggml_tensor* w) {
        ggml_tensor* experts = weight_(GGML_TYPE_F32, {kWidth, kWidth, kExperts});
        return summed(ggml_mul(c, ggml_mul_mat_id(c, experts, for_experts(x), ids), w));
    }
    ggml_tensor* summed(ggml_tensor* y) {
        const auto part = [&](std::size_t i) {
            return ggml_view_2d(c, y, y->ne[0], tokens_, y->nb[2], i * y->nb[1]);
        };
        return ggml_add(c, part(0), part(1));
    }
    ggml_tensor* conv(ggml_tensor* x) {
        ggml_tensor* rows = ggml_cont(c, ggml_transpose(c, product(x, kWidth)));
        rows = ggml_concat(c, weight_(GGML_TYPE_F32, {3, kWidth}), rows, 0);
        return ggml_ssm_conv(c, ggml_reshape_3d(c, rows, tokens_ + 3, kWidth, 1),
                             weight_(GGML_TYPE_F32, {4, kWidth}));
    }

    ggml_cgraph* graph_;
    std::int64_t tokens_;
    Weight weight_;
};

inline const std::vector<FusionLayers::Sample>& FusionLayers::samples() {
    using L = FusionLayers;
    static const std::vector<Sample> all{
        {"delta_net_state", &L::delta_net_state},
        {"moe_gate_soft_max", &L::gate_soft_max},
        {"moe_gate_sigmoid", &L::gate_sigmoid},
        {"moe_gate_sqrt_softplus", &L::gate_softplus},
        {"moe_gate_late_soft_max", &L::gate_late_soft_max},
        {"rope_set_rows", &L::rope_set_rows},
        {"snake", &L::snake},
        {"add_run", &L::add_run},
        {"mul_run", &L::mul_run},
        {"scaled_gate_up_glu", &L::scaled_gate},
        {"scaled_gate_up_glu_id", &L::scaled_gate_id},
        {"gate_up_glu", &L::plain_gate},
        {"gate_up_glu", &L::biased_gate},
        {"gate_up_glu_id", &L::gate_id},
        {"mul_mat_scale", &L::scaled_product},
        {"mul_mat_id_scale", &L::scaled_product_id},
        {"mul_mat_bias", &L::biased},
        {"mul_mat_id_bias", &L::biased_id},
        {"rms_norm_mul_rope_set_rows", &L::norm_rope_set_rows},
        {"rms_norm_mul_rope", &L::norm_rope},
        {"rms_norm_mul_add", &L::norm_mul_add},
        {"rms_norm_mul", &L::norm_mul},
        {"ssm_conv_bias_silu", &L::conv_bias_silu},
        {"ssm_conv_silu", &L::conv_silu},
        {"unary_mul", &L::silu_mul},
        {"relu_sqr", &L::relu_sqr},
        {"softcap", &L::softcap},
    };
    return all;
}

}  // namespace heddle::test
