#pragma once

#include "backends/cuda/kernels/activations.cuh"
#include "ops/glu.hpp"

namespace heddle::cuda {

/// The gated unit of gate `x` and linear part `g`.
__device__ inline float glu_of(const ops::Glu::Params& params, float x, float g) {
    switch (params.function) {
        case GGML_GLU_OP_REGLU:
            return x > 0 ? x * g : 0.0f;
        case GGML_GLU_OP_GEGLU:
            return gelu(x) * g;
        case GGML_GLU_OP_SWIGLU:
            return silu(x) * g;
        case GGML_GLU_OP_SWIGLU_OAI: {
            const float bounded = fminf(x, params.limit);
            const float linear = fmaxf(fminf(g, params.limit), -params.limit);
            return bounded / (1.0f + expf(-params.alpha * bounded)) * (linear + 1.0f);
        }
        case GGML_GLU_OP_GEGLU_ERF:
            return gelu_erf(x) * g;
        default:
            return gelu_quick(x) * g;
    }
}

/// As above for units that are rounded to sixteen bits or fewer next: to some units in the last
/// place of f32.
__device__ __forceinline__ float quick_glu_of(const ops::Glu::Params& params, float x, float g) {
    if (params.function == GGML_GLU_OP_SWIGLU) return __fdividef(x, 1.0f + __expf(-x)) * g;
    return glu_of(params, x, g);
}

}  // namespace heddle::cuda
