#include "backends/cuda/kernels/products/dot_column_float.cuh"
#include "backends/cuda/kernels/products/gemv_column.cuh"
#include "backends/cuda/kernels/products/gemv_column_launch.cuh"

namespace heddle::cuda {

bool launch_float_column(ggml_type type, const ColumnArguments& a, const Launch& launch) {
    return dispatch_column_float(type, [&](auto dot) { launch_column<decltype(dot)>(a, launch); });
}

}  // namespace heddle::cuda
