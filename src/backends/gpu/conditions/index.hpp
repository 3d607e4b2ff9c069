#pragma once

#include "backends/gpu/conditions/common.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::index {

inline bool is_index(const Tensor* tensor) {
    return tensor != nullptr && (tensor->type == GGML_TYPE_I32 || tensor->type == GGML_TYPE_I64);
}

inline std::string_view get_objection(const Tensor& node) {
    if (node.src[0] == nullptr || !is_index(node.src[1])) return "indices are not I32";
    const Tensor &table = *node.src[0], &indices = *node.src[1];
    if (node.ne[0] != table.ne[0] || node.ne[1] != indices.ne[0] || node.ne[2] != table.ne[2] ||
        node.ne[3] != table.ne[3] || indices.ne[1] != table.ne[2] || indices.ne[2] != table.ne[3]) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view get_plain_objection(const Tensor& node) {
    if (const auto words = get_objection(node); !words.empty()) return words;
    const bool is_integer = node.src[0]->type == GGML_TYPE_I32 && node.type == GGML_TYPE_I32;
    if (is_integer || (is_float(*node.src[0]) && is_float(node))) return {};
    return "this pair of types is not converted";
}

inline std::string_view get_blocks_objection(const Tensor& node) {
    if (const auto words = get_objection(node); !words.empty()) return words;
    if (!has_decoder(node.src[0]->type) || !is_float(node)) {
        return "this pair of types is not converted";
    }
    return has_dense_rows(*node.src[0]) ? "" : "rows of the table are not dense";
}

inline std::string_view set_objection(const Tensor& node) {
    if (node.src[0] == nullptr || !is_float(*node.src[0])) return "rows are not F32, F16 or BF16";
    if (!is_index(node.src[1])) return "indices are not I32 or I64";
    const Tensor &rows = *node.src[0], &indices = *node.src[1];
    if (rows.ne[0] != node.ne[0] || rows.ne[2] != node.ne[2] || rows.ne[3] != node.ne[3] ||
        rows.ne[1] != indices.ne[0]) {
        return "shapes do not fit";
    }
    if (heddle::is_empty(indices)) return "there are no indices";
    return {};
}

inline std::string_view set_plain_objection(const Tensor& node) {
    if (const auto words = set_objection(node); !words.empty()) return words;
    return is_float(node) ? "" : "rows cannot be stored in this type";
}

inline std::string_view set_blocks_objection(const Tensor& node) {
    if (const auto words = set_objection(node); !words.empty()) return words;
    if (!has_encoder(node.type)) return "rows cannot be stored in this type";
    return has_dense_rows(node) ? "" : "rows of the result are not dense";
}

inline std::string_view back_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    if (!is_index(node.src[1])) return "indices are not I32";
    if (node.ne[2] != 1 || node.ne[3] != 1) return "the result is not a matrix";
    if (node.src[0]->ne[0] != node.ne[0] || row_count(*node.src[0]) < element_count(*node.src[1])) {
        return "shapes do not fit";
    }
    return {};
}

}  // namespace heddle::gpu::index
