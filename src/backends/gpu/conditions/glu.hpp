#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/glu.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::glu {

inline std::string_view objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    const int function = unpack<ops::Glu::Params>(node).function;
    if (function < 0 || function >= GGML_GLU_OP_COUNT) return "no such function";
    if (node.src[1] == nullptr) {
        return node.src[0]->ne[0] / 2 == node.ne[0] ? "" : "rows of the result are no half rows";
    }
    if (!is_float(*node.src[1])) return "operand 1 is not F32, F16 or BF16";
    if (!same_shape(*node.src[0], node) || !same_shape(*node.src[1], node)) return "shapes differ";
    return {};
}

}  // namespace heddle::gpu::glu
