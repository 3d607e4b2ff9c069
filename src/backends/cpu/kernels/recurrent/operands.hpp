#pragma once

#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

/// Whether the first `count` operands are f32.
inline bool all_f32(const Tensor& node, int count) {
    for (int slot = 0; slot < count; ++slot) {
        if (node.src[slot]->type != GGML_TYPE_F32) return false;
    }
    return true;
}

/// The elements of an operand that is dense and f32.
inline const float* floats(const Tensor& node, int slot) {
    return static_cast<const float*>(node.src[slot]->data);
}

}  // namespace heddle::cpu
