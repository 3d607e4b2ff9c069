#pragma once

#include "ggml.h"

/// Functions of one number, as UNARY and GLU define them.
namespace heddle::cuda {

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }
__device__ inline float gelu(float x) {
    constexpr float c = 0.79788456080286535588f;  // sqrt(2 / pi)
    return 0.5f * x * (1.0f + tanhf(c * x * (1.0f + 0.044715f * x * x)));
}
__device__ inline float gelu_erf(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
}
__device__ inline float gelu_quick(float x) { return x / (1.0f + expf(-1.702f * x)); }
__device__ inline float hard_sigmoid(float x) {
    return fminf(1.0f, fmaxf(0.0f, (x + 3.0f) / 6.0f));
}
__device__ inline float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

}  // namespace heddle::cuda
