#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/unary.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::unary {

inline std::string_view map_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    if (!same_shape(*node.src[0], node)) return "the result has another shape than the operand";
    return {};
}

inline std::string_view unary_objection(const Tensor& node) {
    const int function = unpack<ops::Unary::Params>(node).function;
    if (function < 0 || function >= GGML_UNARY_OP_COUNT) return "no such function";
    return map_objection(node);
}

}  // namespace heddle::gpu::unary
