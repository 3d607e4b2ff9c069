#pragma once

#include "core/tensor.hpp"
#include "ggml/op_list.h"

namespace heddle::gpu {

/// How many rows a node works on at once, by which sending its weights to the device pays off.
inline std::int64_t batch_of(const Tensor& node) {
    switch (node.op) {
        case GGML_OP_GET_ROWS:
            return 0;  // reads a few rows of its weights alone
        case GGML_OP_MUL_MAT:
            return node.ne[1];
        case GGML_OP_MUL_MAT_ID:
        case GGML_OP_ROPE:
        case GGML_OP_ROPE_BACK:
            return node.ne[2];
        default:
            return row_count(node);
    }
}

}  // namespace heddle::gpu
