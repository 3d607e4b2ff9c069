#include "backends/cuda/kernels/products/gemm_wgmma_launch.cuh"

namespace heddle::cuda {

LaunchWgmma find_wgmma_grid(ggml_type type) {
    switch (type) {
        case GGML_TYPE_IQ2_XXS:
            return launch_wgmma_format<Format<GGML_TYPE_IQ2_XXS>>;
        case GGML_TYPE_IQ2_XS:
            return launch_wgmma_format<Format<GGML_TYPE_IQ2_XS>>;
        case GGML_TYPE_IQ2_S:
            return launch_wgmma_format<Format<GGML_TYPE_IQ2_S>>;
        case GGML_TYPE_IQ3_XXS:
            return launch_wgmma_format<Format<GGML_TYPE_IQ3_XXS>>;
        case GGML_TYPE_IQ3_S:
            return launch_wgmma_format<Format<GGML_TYPE_IQ3_S>>;
        case GGML_TYPE_IQ1_S:
            return launch_wgmma_format<Format<GGML_TYPE_IQ1_S>>;
        case GGML_TYPE_IQ1_M:
            return launch_wgmma_format<Format<GGML_TYPE_IQ1_M>>;
        default:
            return nullptr;
    }
}

}  // namespace heddle::cuda
