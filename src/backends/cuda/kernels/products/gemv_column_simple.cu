#include "backends/cuda/kernels/products/dot_simple.cuh"
#include "backends/cuda/kernels/products/gemv_column.cuh"
#include "backends/cuda/kernels/products/gemv_column_launch.cuh"

namespace heddle::cuda {

bool launch_simple_column(ggml_type type, const ColumnArguments& a, const Launch& launch) {
    return dispatch_simple_dot(type, [&](auto dot) { launch_column<decltype(dot)>(a, launch); });
}

}  // namespace heddle::cuda
