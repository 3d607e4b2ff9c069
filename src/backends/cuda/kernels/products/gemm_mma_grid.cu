#include "backends/cuda/kernels/products/gemm_mma_launch.cuh"

namespace heddle::cuda {

bool launch_mma_grid(ggml_type type, const GemmArguments& a, const ColumnTiles& tiles,
                     bool has_few_columns, const Launch& launch) {
    switch (type) {
        case GGML_TYPE_NVFP4:
            return launch_format<Format<GGML_TYPE_NVFP4>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_TQ1_0:
            return launch_format<Format<GGML_TYPE_TQ1_0>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_TQ2_0:
            return launch_format<Format<GGML_TYPE_TQ2_0>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_IQ2_XXS:
            return launch_format<Format<GGML_TYPE_IQ2_XXS>>(a, tiles, has_few_columns, launch),
                   true;
        case GGML_TYPE_IQ2_XS:
            return launch_format<Format<GGML_TYPE_IQ2_XS>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_IQ2_S:
            return launch_format<Format<GGML_TYPE_IQ2_S>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_IQ3_XXS:
            return launch_format<Format<GGML_TYPE_IQ3_XXS>>(a, tiles, has_few_columns, launch),
                   true;
        case GGML_TYPE_IQ3_S:
            return launch_format<Format<GGML_TYPE_IQ3_S>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_IQ1_S:
            return launch_format<Format<GGML_TYPE_IQ1_S>>(a, tiles, has_few_columns, launch), true;
        case GGML_TYPE_IQ1_M:
            return launch_format<Format<GGML_TYPE_IQ1_M>>(a, tiles, has_few_columns, launch), true;
        default:
            return false;
    }
}

}  // namespace heddle::cuda
