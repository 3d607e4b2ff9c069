#pragma once

#include "backends/gpu/conditions/common.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::copy {

inline bool is_plain(const Tensor& tensor) {
    return is_float(tensor) || tensor.type == GGML_TYPE_I32;
}

inline std::string_view count_objection(const Tensor& node) {
    if (node.src[0] == nullptr) return "the source is missing";
    if (element_count(*node.src[0]) != element_count(node)) {
        return "source and result differ in their number of elements";
    }
    return {};
}

inline std::string_view units_objection(const Tensor& node) {
    if (const auto words = count_objection(node); !words.empty()) return words;
    return node.src[0]->type == node.type ? "" : "types differ";
}

inline std::string_view dense_objection(const Tensor& node) {
    return either(units_objection(node), need_contiguous(node, 1));
}

inline std::string_view plain_objection(const Tensor& node) {
    if (const auto words = count_objection(node); !words.empty()) return words;
    if (is_plain(node) && is_plain(*node.src[0])) return {};
    return "this pair of types is not converted";
}

inline std::string_view decode_objection(const Tensor& node) {
    if (const auto words = count_objection(node); !words.empty()) return words;
    if (!is_float(node) || !has_decoder(node.src[0]->type)) {
        return "this pair of types is not converted";
    }
    return has_dense_rows(*node.src[0]) ? "" : "rows of the source are not dense";
}

inline std::string_view encode_objection(const Tensor& node) {
    if (const auto words = count_objection(node); !words.empty()) return words;
    if (!is_float(*node.src[0]) || !has_encoder(node.type)) {
        return "this pair of types is not converted";
    }
    return has_dense_rows(node) ? "" : "rows of the result are not dense";
}

}  // namespace heddle::gpu::copy
