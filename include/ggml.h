/// The tensor library's C API: contexts, tensors, operations, graphs.
///
/// A program makes a context (ggml_init()), tensors in it (ggml_new_tensor()), results that depend
/// on them (ggml_mul_mat(), ggml_add(), ...) and a graph of what it wants
/// (ggml_build_forward_expand()). A backend computes the graph: see `ggml-backend.h`, or
/// `ggml-cpu.h` for the CPU alone. Model files are read with `gguf.h`. What went wrong, if
/// something did, says `heddle/heddle.h`.
///
/// Plain C11. Everything is declared in the headers below, one per topic; include this one.
#pragma once

#include "ggml/base.h"
#include "ggml/graph.h"
#include "ggml/op.h"
#include "ggml/system.h"
#include "ggml/tensor.h"
#include "ggml/types.h"

// Sources of Heddle itself include what they need of this, so that a new operation has few of them
// compiled again.
#ifndef HEDDLE_EXPLICIT_OPS
#include "ggml/ops.h"
#endif
