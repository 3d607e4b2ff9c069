#include "backends/cuda/kernels/products/gemm_wgmma_launch.cuh"

namespace heddle::cuda {

LaunchWgmma find_wgmma_simple(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q1_0:
            return launch_wgmma_format<Format<GGML_TYPE_Q1_0>>;
        case GGML_TYPE_Q2_0:
            return launch_wgmma_format<Format<GGML_TYPE_Q2_0>>;
        case GGML_TYPE_Q4_0:
            return launch_wgmma_format<Format<GGML_TYPE_Q4_0>>;
        case GGML_TYPE_Q4_1:
            return launch_wgmma_format<Format<GGML_TYPE_Q4_1>>;
        case GGML_TYPE_Q5_0:
            return launch_wgmma_format<Format<GGML_TYPE_Q5_0>>;
        case GGML_TYPE_Q5_1:
            return launch_wgmma_format<Format<GGML_TYPE_Q5_1>>;
        case GGML_TYPE_Q8_0:
            return launch_wgmma_format<Format<GGML_TYPE_Q8_0>>;
        case GGML_TYPE_IQ4_NL:
            return launch_wgmma_format<Format<GGML_TYPE_IQ4_NL>>;
        case GGML_TYPE_MXFP4:
            return launch_wgmma_format<Format<GGML_TYPE_MXFP4>>;
        case GGML_TYPE_NVFP4:
            return launch_wgmma_format<Format<GGML_TYPE_NVFP4>>;
        default:
            return nullptr;
    }
}

}  // namespace heddle::cuda
