/// Ops as functions that read like mathematics. Part of `heddle/heddle.hpp`.
///
/// They only write down what is to be computed. Shapes are those of the C functions of the same
/// meaning (`ggml.h`), which say all there is to know of an op; docs/ops.md lists them. For ops
/// without a function here there is `op` (op.hpp).
#pragma once

#include "ops_images.hpp"
#include "ops_layout.hpp"
#include "ops_math.hpp"
#include "ops_rows.hpp"
