/// What streams ask about nodes, for which the list of ops is needed. Included by `stream.hpp`.
#pragma once

#include "impl/view_ops.h"
#include "stream.hpp"

namespace heddle::plugin {

inline bool computes_nothing(const ggml_tensor& node) noexcept { return ggml_op_is_empty(node.op); }

inline bool wants_computing(const ggml_tensor& node) noexcept {
    return !computes_nothing(node) && (node.flags & GGML_TENSOR_FLAG_COMPUTE) != 0 &&
           !ggml_is_empty(&node);
}

}  // namespace heddle::plugin
