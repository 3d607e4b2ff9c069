#include "backends/cuda/kernels/products/gemm_wgmma_launch.cuh"

namespace heddle::cuda {

LaunchWgmma find_wgmma_k(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q2_K:
            return launch_wgmma_format<Format<GGML_TYPE_Q2_K>>;
        case GGML_TYPE_Q3_K:
            return launch_wgmma_format<Format<GGML_TYPE_Q3_K>>;
        case GGML_TYPE_Q4_K:
            return launch_wgmma_format<Format<GGML_TYPE_Q4_K>>;
        case GGML_TYPE_Q5_K:
            return launch_wgmma_format<Format<GGML_TYPE_Q5_K>>;
        case GGML_TYPE_Q6_K:
            return launch_wgmma_format<Format<GGML_TYPE_Q6_K>>;
        case GGML_TYPE_IQ4_XS:
            return launch_wgmma_format<Format<GGML_TYPE_IQ4_XS>>;
        case GGML_TYPE_TQ1_0:
            return launch_wgmma_format<Format<GGML_TYPE_TQ1_0>>;
        case GGML_TYPE_TQ2_0:
            return launch_wgmma_format<Format<GGML_TYPE_TQ2_0>>;
        default:
            return nullptr;
    }
}

}  // namespace heddle::cuda
