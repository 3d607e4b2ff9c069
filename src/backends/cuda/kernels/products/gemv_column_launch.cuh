#pragma once

#include "backends/cuda/kernels/products/column_arguments.cuh"

/// `gemv_column` for the types of one family each; false for those of others. They are compiled
/// apart, since each takes a while.
namespace heddle::cuda {

bool launch_simple_column(ggml_type type, const ColumnArguments& a, const Launch& launch);
bool launch_k_column(ggml_type type, const ColumnArguments& a, const Launch& launch);
bool launch_float_column(ggml_type type, const ColumnArguments& a, const Launch& launch);

}  // namespace heddle::cuda
