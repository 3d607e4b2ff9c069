#include "backends/cuda/kernels/products/gemm_mma_launch.cuh"

namespace heddle::cuda {

bool launch_mma_k(ggml_type type, const GemmArguments& a, const ColumnTiles& tiles,
                  bool has_few_columns, const Launch& launch) {
    switch (type) {
        case GGML_TYPE_Q2_K:
            return launch_format<Format<GGML_TYPE_Q2_K>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q3_K:
            return launch_format<Format<GGML_TYPE_Q3_K>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q4_K:
            return launch_format<Format<GGML_TYPE_Q4_K>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q5_K:
            return launch_format<Format<GGML_TYPE_Q5_K>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_Q6_K:
            return launch_format<Format<GGML_TYPE_Q6_K>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_IQ4_NL:
            return launch_format<Format<GGML_TYPE_IQ4_NL>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_IQ4_XS:
            return launch_format<Format<GGML_TYPE_IQ4_XS>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_MXFP4:
            return launch_format<Format<GGML_TYPE_MXFP4>>(a, tiles, has_few_columns, launch), true;
        default:
            return false;
    }
}

}  // namespace heddle::cuda
