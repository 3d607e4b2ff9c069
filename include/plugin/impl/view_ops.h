/// Ops for which nothing is computed. Part of `ggml-impl.h`.
#pragma once

#include "ggml.h"
#include "ggml/op_list.h"

/// Whether `op` makes a view or an input, so that there is nothing to run.
static inline bool ggml_op_is_empty(enum ggml_op op) {
    return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW ||
           op == GGML_OP_PERMUTE || op == GGML_OP_TRANSPOSE;
}
