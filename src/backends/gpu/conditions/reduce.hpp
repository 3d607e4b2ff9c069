#pragma once

#include "backends/gpu/conditions/common.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::reduce {

inline std::string_view sum_objection(const Tensor& node) { return need_floats(node, 1); }

inline std::string_view count_objection(const Tensor& node) {
    if (node.type != GGML_TYPE_I64) return "the result is not I64";
    for (int i = 0; i < 2; ++i) {
        if (node.src[i] == nullptr || node.src[i]->type != GGML_TYPE_I32) {
            return "an operand is not I32";
        }
    }
    return same_shape(*node.src[0], *node.src[1]) ? "" : "shapes differ";
}

inline std::string_view sum_rows_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    return row_count(node) == row_count(*node.src[0]) ? "" : "shapes do not fit";
}

inline std::string_view cumsum_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 1); !words.empty()) return words;
    return same_shape(*node.src[0], node) ? "" : "shapes differ";
}

inline std::string_view argmax_objection(const Tensor& node) {
    if (node.src[0] == nullptr || !is_float(*node.src[0])) return "the operand is not F32";
    if (node.type != GGML_TYPE_I32) return "the result is not I32";
    if (node.src[0]->ne[2] != 1 || node.src[0]->ne[3] != 1) return "the operand is not a matrix";
    return node.ne[0] == node.src[0]->ne[1] ? "" : "shapes do not fit";
}

}  // namespace heddle::gpu::reduce
