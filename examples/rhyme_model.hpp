// A small language model of the llama family, as a graph that can be trained.
#pragma once

#include <cmath>
#include <string>

#include "ggml.h"

constexpr int kLayers = 2, kWidth = 64, kHeads = 4, kHeadWidth = kWidth / kHeads, kHidden = 160;
constexpr int kContext = 128, kBatch = 8;
constexpr float kEpsilon = 1e-5F;

/// Builds the graph, and the weights where it first meets them, under the names of files.
struct Builder {
    ggml_context *store, *c;

    ggml_tensor* weight(const std::string& name, int columns, int rows = 1) const {
        ggml_tensor* made = ggml_new_tensor_2d(store, GGML_TYPE_F32, columns, rows);
        ggml_set_param(made);
        return ggml_set_name(made, (name + ".weight").c_str());
    }
    /// Even rows, each number times a weight.
    ggml_tensor* normed(const std::string& name, ggml_tensor* x) const {
        return ggml_mul(c, ggml_rms_norm(c, x, kEpsilon), weight(name, kWidth));
    }
    ggml_tensor* heads(const std::string& name, ggml_tensor* x) const {
        ggml_tensor* made = ggml_mul_mat(c, weight(name, kWidth, kWidth), x);
        return ggml_reshape_4d(c, made, kHeadWidth, kHeads, kContext, kBatch);
    }
    /// What every letter has seen in those before it.
    ggml_tensor* attention(const std::string& layer, ggml_tensor* x, ggml_tensor* places) const {
        const auto turned = [&](const char* name) {
            ggml_tensor* made = ggml_rope(c, heads(layer + name, x), places, kHeadWidth, 0);
            return ggml_permute(c, made, 0, 2, 1, 3);
        };
        ggml_tensor *q = turned("attn_q"), *k = turned("attn_k");
        ggml_tensor* v = ggml_cont(c, ggml_permute(c, heads(layer + "attn_v", x), 1, 2, 0, 3));
        ggml_tensor* scores = ggml_scale(c, ggml_mul_mat(c, k, q), 1 / std::sqrt(kHeadWidth));
        ggml_tensor* shares = ggml_soft_max(c, ggml_diag_mask_inf(c, scores, 0));
        ggml_tensor* seen = ggml_cont(c, ggml_permute(c, ggml_mul_mat(c, v, shares), 0, 2, 1, 3));
        return ggml_mul_mat(c, weight(layer + "attn_output", kWidth, kWidth),
                            ggml_reshape_2d(c, seen, kWidth, kContext * kBatch));
    }
    /// Scores for what comes after every letter.
    ggml_tensor* model(ggml_tensor* tokens, ggml_tensor* places, int token_count) const {
        ggml_tensor* letters = weight("token_embd", kWidth, token_count);
        ggml_tensor* flat = ggml_reshape_1d(c, tokens, kContext * kBatch);
        ggml_tensor* x = ggml_get_rows(c, letters, flat);
        for (int i = 0; i < kLayers; ++i) {
            const std::string layer = "blk." + std::to_string(i) + ".";
            x = ggml_add(c, x, attention(layer, normed(layer + "attn_norm", x), places));
            ggml_tensor* inner = normed(layer + "ffn_norm", x);
            ggml_tensor* gate = ggml_mul_mat(c, weight(layer + "ffn_gate", kWidth, kHidden), inner);
            ggml_tensor* up = ggml_mul_mat(c, weight(layer + "ffn_up", kWidth, kHidden), inner);
            ggml_tensor* down = weight(layer + "ffn_down", kHidden, kWidth);
            x = ggml_add(c, x, ggml_mul_mat(c, down, ggml_swiglu_split(c, gate, up)));
        }
        return ggml_mul_mat(c, letters, normed("output_norm", x));
    }
};
