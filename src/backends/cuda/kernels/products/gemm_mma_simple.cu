#include "backends/cuda/kernels/products/gemm_mma_launch.cuh"

namespace heddle::cuda {

bool launch_mma_simple(ggml_type type, const GemmArguments& a, const ColumnTiles& tiles,
                       bool has_few_columns, const Launch& launch) {
    switch (type) {
        case GGML_TYPE_F16:
            return launch_format<Format<GGML_TYPE_F16>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_BF16:
            return launch_format<Format<GGML_TYPE_BF16>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q1_0:
            return launch_format<Format<GGML_TYPE_Q1_0>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q2_0:
            return launch_format<Format<GGML_TYPE_Q2_0>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q4_0:
            return launch_format<Format<GGML_TYPE_Q4_0>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q4_1:
            return launch_format<Format<GGML_TYPE_Q4_1>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q5_0:
            return launch_format<Format<GGML_TYPE_Q5_0>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q5_1:
            return launch_format<Format<GGML_TYPE_Q5_1>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q8_0:
            return launch_format<Format<GGML_TYPE_Q8_0>>(a, tiles, has_few_columns, launch), true;
        default:
            return false;
    }
}

}  // namespace heddle::cuda
