#include "backends/cuda/kernels/products/dot_k.cuh"
#include "backends/cuda/kernels/products/gemv_column.cuh"
#include "backends/cuda/kernels/products/gemv_column_launch.cuh"

namespace heddle::cuda {

bool launch_k_column(ggml_type type, const ColumnArguments& a, const Launch& launch) {
    return dispatch_k_dot(type, [&](auto dot) { launch_column<decltype(dot)>(a, launch); });
}

}  // namespace heddle::cuda
