#pragma once

#include "core/type.hpp"
#include "ggml/op_list.h"
#include "impl/view_ops.h"

namespace heddle {

/// Whether `op` makes a view of its operand and computes nothing: `OpInfo::is_view` without a look
/// into the catalogue, and without NONE, which has no operand.
inline bool is_view_op(Op op) { return op != GGML_OP_NONE && ggml_op_is_empty(op); }

}  // namespace heddle
