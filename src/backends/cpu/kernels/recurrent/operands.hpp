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

}  // namespace heddle::cpu
