#pragma once

#include "backends/gpu/conditions/common.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::binary {

inline std::string_view binary_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 2); !words.empty()) return words;
    if (!same_shape(*node.src[0], node)) return "the result has another shape than operand 0";
    if (!can_repeat(*node.src[1], node)) return "operand 1 does not tile operand 0";
    return {};
}

inline std::string_view dense_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 2); !words.empty()) return words;
    if (!same_shape(*node.src[0], node) || !same_shape(*node.src[1], node)) {
        return "shapes differ";
    }
    return need_contiguous(node, 2);
}

inline std::string_view add_id_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 2); !words.empty()) return words;
    if (node.src[2] == nullptr) return "the ids are missing";
    if (node.src[2]->type != GGML_TYPE_I32) return "ids are not I32";
    return {};
}

}  // namespace heddle::gpu::binary
