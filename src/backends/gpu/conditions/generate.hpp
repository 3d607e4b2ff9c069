#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ggml/ops_layout.h"
#include "ops/generate.hpp"
#include "ops/triangle.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::generate {

inline std::string_view float_result(const Tensor& node) { return need_floats(node, 0); }

inline std::string_view float_operand(const Tensor& node) { return need_floats(node, 1); }

inline std::string_view same_shape_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    return same_shape(*node.src[0], node) ? "" : "the result has another shape than the operand";
}

inline std::string_view timestep_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 1); !words.empty()) return words;
    const auto params = unpack<ops::TimestepEmbedding::Params>(node);
    if (node.ne[0] < params.dim || node.ne[1] != node.src[0]->ne[0]) return "shapes do not fit";
    return {};
}

inline std::string_view tri_objection(const Tensor& node) {
    const int type = unpack<ops::Tri::Params>(node).type;
    if (type < GGML_TRI_TYPE_UPPER_DIAG || type > GGML_TRI_TYPE_LOWER) return "no such triangle";
    return same_shape_objection(node);
}

}  // namespace heddle::gpu::generate
