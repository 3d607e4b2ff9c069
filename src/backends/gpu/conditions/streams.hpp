#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/dsv4.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::streams {

inline std::string_view comb_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 3); !words.empty()) return words;
    const Tensor &mixes = *node.src[0], &scale = *node.src[1], &base = *node.src[2];
    if (node.ne[0] != ops::Dsv4HcComb::kStreams || node.ne[1] != ops::Dsv4HcComb::kStreams ||
        node.ne[3] != 1 || mixes.ne[0] < ops::Dsv4HcComb::kMixes ||
        base.ne[0] < ops::Dsv4HcComb::kMixes || scale.ne[0] < 3 || mixes.ne[1] < node.ne[2]) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view pre_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 2); !words.empty()) return words;
    const Tensor &x = *node.src[0], &weights = *node.src[1];
    if (x.ne[0] != node.ne[0] || x.ne[1] != weights.ne[0] || x.ne[2] != node.ne[1] ||
        weights.ne[1] != node.ne[1] || node.ne[2] != 1 || node.ne[3] != 1) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view post_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 4); !words.empty()) return words;
    const Tensor &x = *node.src[0], &residual = *node.src[1], &post = *node.src[2];
    const Tensor& comb = *node.src[3];
    if (x.ne[0] != node.ne[0] || x.ne[1] != node.ne[2] || residual.ne[0] != node.ne[0] ||
        residual.ne[2] != node.ne[2] || post.ne[0] != node.ne[1] || post.ne[1] != node.ne[2] ||
        comb.ne[0] != node.ne[1] || comb.ne[1] != residual.ne[1] || comb.ne[2] != node.ne[2] ||
        node.ne[3] != 1) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view indexer_objection(const Tensor& node) {
    for (int i = 0; i < 4; ++i) {
        if (node.src[i] == nullptr) return "an operand is missing";
    }
    const Tensor &q = *node.src[0], &k = *node.src[1], &weights = *node.src[2];
    const Tensor& mask = *node.src[3];
    if (q.type != GGML_TYPE_F32 || weights.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) {
        return "queries, weights or the result are not F32";
    }
    if (!is_float(mask)) return "the mask is not F16";
    if (!has_decoder(k.type)) return "keys have a type that cannot be decoded";
    if (!has_dense_rows(k)) return "keys are not dense";
    if (q.ne[0] != k.ne[0] || q.ne[0] % 8 != 0) return "queries are not a multiple of 8 long";
    if (node.ne[0] != k.ne[2] || node.ne[1] != q.ne[2] || node.ne[3] != q.ne[3] ||
        k.ne[3] != q.ne[3] || weights.ne[0] != q.ne[1] || weights.ne[1] != q.ne[2] ||
        weights.ne[3] != q.ne[3] || mask.ne[0] != k.ne[2] || mask.ne[1] < q.ne[2] ||
        mask.ne[3] < 1) {
        return "shapes do not fit";
    }
    return {};
}

}  // namespace heddle::gpu::streams
