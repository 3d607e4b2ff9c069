#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/soft_max.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::soft_max {

inline std::string_view mask_objection(const Tensor& x, const Tensor& mask) {
    if (mask.type != GGML_TYPE_F16 && mask.type != GGML_TYPE_F32) {
        return "the mask is neither F16 nor F32";
    }
    if (mask.ne[0] != x.ne[0] || mask.ne[1] < x.ne[1] || mask.ne[2] == 0 || mask.ne[3] == 0) {
        return "the mask does not cover the rows";
    }
    return {};
}

inline std::string_view objection(const Tensor& node) {
    if (const auto words = need_f32(node, 1); !words.empty()) return words;
    if (!same_shape(*node.src[0], node)) return "shapes differ";
    if (node.src[1] != nullptr) {
        if (const auto words = mask_objection(node, *node.src[1]); !words.empty()) return words;
    }
    const Tensor* sinks = node.src[2];
    if (sinks != nullptr && (sinks->type != GGML_TYPE_F32 || sinks->ne[0] != node.ne[2])) {
        return "sinks are not one F32 for each head";
    }
    return {};
}

inline std::string_view back_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 2); !words.empty()) return words;
    if (!same_shape(*node.src[0], node) || !same_shape(*node.src[1], node)) return "shapes differ";
    if (unpack<ops::SoftMaxBack::Params>(node).max_bias != 0) return "there are ALiBi slopes";
    return {};
}

}  // namespace heddle::gpu::soft_max
