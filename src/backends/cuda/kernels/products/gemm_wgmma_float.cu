#include "backends/cuda/kernels/products/gemm_wgmma_launch.cuh"

namespace heddle::cuda {

LaunchWgmma find_wgmma_float(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16:
            return launch_wgmma_format<Format<GGML_TYPE_F16>>;
        case GGML_TYPE_BF16:
            return launch_wgmma_format<Format<GGML_TYPE_BF16>>;
        default:
            return nullptr;
    }
}

}  // namespace heddle::cuda
