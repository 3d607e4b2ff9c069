// UNARY, SQR, SQRT, LOG, SIN, COS, SCALE, CLAMP and LEAKY_RELU. Any strides; F32, F16 and BF16.

#include "backends/cuda/kernels/activations.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/unary.hpp"
#include "ggml/op_list.h"
#include "ops/clamp.hpp"
#include "ops/leaky_relu.hpp"
#include "ops/scale.hpp"
#include "ops/unary.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::unary;

__device__ float xielu(const ops::Unary::Params& p, float x) {
    if (x > 0) return p.alpha_p * x * x + p.beta * x;
    return (expm1f(fminf(x, p.eps)) - x) * p.alpha_n + p.beta * x;
}

__device__ float unary_of(const ops::Unary::Params& p, float x) {
    switch (p.function) {
        case GGML_UNARY_OP_ABS:
            return fabsf(x);
        case GGML_UNARY_OP_SGN:
            return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f;
        case GGML_UNARY_OP_NEG:
            return -x;
        case GGML_UNARY_OP_STEP:
            return x > 0 ? 1.0f : 0.0f;
        case GGML_UNARY_OP_TANH:
            return tanhf(x);
        case GGML_UNARY_OP_ELU:
            return x > 0 ? x : expm1f(x);
        case GGML_UNARY_OP_RELU:
            return x > 0 ? x : 0.0f;
        case GGML_UNARY_OP_SIGMOID:
            return sigmoid(x);
        case GGML_UNARY_OP_GELU:
            return gelu(x);
        case GGML_UNARY_OP_GELU_QUICK:
            return gelu_quick(x);
        case GGML_UNARY_OP_SILU:
            return silu(x);
        case GGML_UNARY_OP_HARDSWISH:
            return x * hard_sigmoid(x);
        case GGML_UNARY_OP_HARDSIGMOID:
            return hard_sigmoid(x);
        case GGML_UNARY_OP_EXP:
            return expf(x);
        case GGML_UNARY_OP_EXPM1:
            return expm1f(x);
        case GGML_UNARY_OP_SOFTPLUS:
            return softplus(x);
        case GGML_UNARY_OP_GELU_ERF:
            return gelu_erf(x);
        case GGML_UNARY_OP_XIELU:
            return xielu(p, x);
        case GGML_UNARY_OP_FLOOR:
            return floorf(x);
        case GGML_UNARY_OP_CEIL:
            return ceilf(x);
        case GGML_UNARY_OP_ROUND:
            return roundf(x);
        default:
            return truncf(x);
    }
}

/// y = each(x), element by element.
template <class Each>
void map(const Tensor& node, const Launch& launch, Each each) {
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        y.put(each(x(p.i0, p.i1, p.i2, p.i3)), p.i0, p.i1, p.i2, p.i3);
    });
}

struct UnaryOf {
    ops::Unary::Params params;
    __device__ float operator()(float x) const { return unary_of(params, x); }
};
void launch_unary(const Tensor& node, const Launch& launch) {
    map(node, launch, UnaryOf{unpack<ops::Unary::Params>(node)});
}

struct Scaled {
    ops::Scale::Params params;
    __device__ float operator()(float x) const { return params.scale * x + params.bias; }
};
void launch_scale(const Tensor& node, const Launch& launch) {
    map(node, launch, Scaled{unpack<ops::Scale::Params>(node)});
}

struct Clamped {
    ops::Clamp::Params params;
    __device__ float operator()(float x) const { return fmaxf(fminf(x, params.max), params.min); }
};
void launch_clamp(const Tensor& node, const Launch& launch) {
    map(node, launch, Clamped{unpack<ops::Clamp::Params>(node)});
}

struct Leaky {
    float slope;
    __device__ float operator()(float x) const { return x > 0 ? x : slope * x; }
};
void launch_leaky_relu(const Tensor& node, const Launch& launch) {
    map(node, launch, Leaky{unpack<ops::LeakyRelu::Params>(node).slope});
}

struct Square {
    __device__ float operator()(float x) const { return x * x; }
};
struct SquareRoot {
    __device__ float operator()(float x) const { return sqrtf(x); }
};
struct Logarithm {
    __device__ float operator()(float x) const { return logf(x); }
};
struct Sine {
    __device__ float operator()(float x) const { return sinf(x); }
};
struct Cosine {
    __device__ float operator()(float x) const { return cosf(x); }
};
template <class Each>
void launch_map(const Tensor& node, const Launch& launch) {
    map(node, launch, Each{});
}

constexpr Kernel kKernels[] = {
    {"unary", GGML_OP_UNARY, unary_objection, nullptr, launch_unary},
    {"scale", GGML_OP_SCALE, map_objection, nullptr, launch_scale},
    {"clamp", GGML_OP_CLAMP, map_objection, nullptr, launch_clamp},
    {"leaky_relu", GGML_OP_LEAKY_RELU, map_objection, nullptr, launch_leaky_relu},
    {"sqr", GGML_OP_SQR, map_objection, nullptr, launch_map<Square>},
    {"sqrt", GGML_OP_SQRT, map_objection, nullptr, launch_map<SquareRoot>},
    {"log", GGML_OP_LOG, map_objection, nullptr, launch_map<Logarithm>},
    {"sin", GGML_OP_SIN, map_objection, nullptr, launch_map<Sine>},
    {"cos", GGML_OP_COS, map_objection, nullptr, launch_map<Cosine>},
};

}  // namespace

std::span<const Kernel> unary_kernels() { return kKernels; }

}  // namespace heddle::cuda
