// SILU_BACK, RMS_NORM_BACK, CROSS_ENTROPY_LOSS and its gradient, OPT_STEP_ADAMW, OPT_STEP_SGD.

#include "backends/cuda/kernels/activations.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/training.hpp"
#include "ggml/op_list.h"
#include "ops/backward.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::training;

void launch_silu_back(const Tensor& node, const Launch& launch) {
    const Operand dy = operand(node.src[0]), x = operand(node.src[1]), dx = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const float value = x(p.i0, p.i1, p.i2, p.i3), s = sigmoid(value);
        dx.put(dy(p.i0, p.i1, p.i2, p.i3) * s * (1 + value * (1 - s)), p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_rms_norm_back(const Tensor& node, const Launch& launch) {
    const float eps = unpack<ops::RmsNormBack::Params>(node).eps;
    const Operand dy = operand(node.src[0]), x = operand(node.src[1]), dx = operand(&node);
    for_each_row(launch, row_count(node), node.ne[0], [=] __device__(std::int64_t r) {
        const Place p = row_place(r, x.extent);
        const auto n = static_cast<float>(x.extent[0]);
        float square = 0, product = 0;
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            const float value = x(i, p.i1, p.i2, p.i3);
            square += value * value;
            product += value * dy(i, p.i1, p.i2, p.i3);
        }
        const float squares = block_sum(square), together = block_sum(product);
        const float ratio = together / (squares + n * eps);
        const float size = sqrtf(squares / n + eps);
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            const float change = dy(i, p.i1, p.i2, p.i3) - x(i, p.i1, p.i2, p.i3) * ratio;
            dx.put(change / size, i, p.i1, p.i2, p.i3);
        }
    });
}

// ---- cross entropy -----------------------------------------------------------------------------

/// The number to take off a row's logits to get logarithms of shares. For all threads of a block.
__device__ float log_total(const Operand& logits, const Place& p) {
    float largest = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < logits.extent[0]; i += blockDim.x) {
        largest = fmaxf(largest, logits(i, p.i1, p.i2, p.i3));
    }
    largest = block_max(largest);
    float part = 0;
    for (std::int64_t i = threadIdx.x; i < logits.extent[0]; i += blockDim.x) {
        part += expf(logits(i, p.i1, p.i2, p.i3) - largest);
    }
    return largest + logf(block_sum(part));
}

/// One number for each row.
std::size_t loss_scratch(const Tensor& node, const DeviceFacts&) {
    return static_cast<std::size_t>(row_count(*node.src[0])) * sizeof(float);
}

void launch_loss(const Tensor& node, const Launch& launch) {
    const Operand logits = operand(node.src[0]), labels = operand(node.src[1]), y = operand(&node);
    auto* const losses = reinterpret_cast<float*>(launch.scratch);
    const std::int64_t rows = row_count(*node.src[0]);
    for_each_row(launch, rows, logits.extent[0], [=] __device__(std::int64_t r) {
        const Place p = row_place(r, logits.extent);
        const float total = log_total(logits, p);
        float part = 0;
        for (std::int64_t i = threadIdx.x; i < logits.extent[0]; i += blockDim.x) {
            const float label = labels(i, p.i1, p.i2, p.i3);
            part += label * (logits(i, p.i1, p.i2, p.i3) - total);
        }
        const float loss = block_sum(part);
        if (threadIdx.x == 0) losses[r] = loss;
    });
    for_each_row(launch, 1, 512, [=] __device__(std::int64_t) {
        float part = 0;
        for (std::int64_t r = threadIdx.x; r < rows; r += blockDim.x) part += losses[r];
        const float total = block_sum(part);
        if (threadIdx.x == 0) y.put(-total / static_cast<float>(rows), 0);
    });
}

void launch_loss_back(const Tensor& node, const Launch& launch) {
    const Operand given = operand(node.src[0]), logits = operand(node.src[1]);
    const Operand labels = operand(node.src[2]), y = operand(&node);
    const std::int64_t rows = row_count(node);
    for_each_row(launch, rows, node.ne[0], [=] __device__(std::int64_t r) {
        const Place p = row_place(r, logits.extent);
        const float total = log_total(logits, p);
        const float factor = given(0) / static_cast<float>(rows);
        for (std::int64_t i = threadIdx.x; i < logits.extent[0]; i += blockDim.x) {
            const float share = expf(logits(i, p.i1, p.i2, p.i3) - total);
            y.put((share - labels(i, p.i1, p.i2, p.i3)) * factor, i, p.i1, p.i2, p.i3);
        }
    });
}

// ---- optimiser steps ---------------------------------------------------------------------------

/// Values are alpha, beta1, beta2, eps, weight decay and the corrections of both moments.
void launch_adamw(const Tensor& node, const Launch& launch) {
    const Operand weights = operand(&node), gradient = operand(node.src[1]);
    const Operand m = operand(node.src[2]), v = operand(node.src[3]), p = operand(node.src[4]);
    for_each_place(launch, node, [=] __device__(Place at) {
        const float alpha = p(0), beta1 = p(1), beta2 = p(2), eps = p(3), decay = p(4);
        const float g = gradient(at.i0, at.i1, at.i2, at.i3);
        const float mean = m(at.i0, at.i1, at.i2, at.i3) * beta1 + g * (1 - beta1);
        const float variance = v(at.i0, at.i1, at.i2, at.i3) * beta2 + g * g * (1 - beta2);
        m.put(mean, at.i0, at.i1, at.i2, at.i3);
        v.put(variance, at.i0, at.i1, at.i2, at.i3);
        const float step = alpha * (mean * p(5)) / (sqrtf(variance * p(6)) + eps);
        const float kept = weights(at.i0, at.i1, at.i2, at.i3) * (1 - alpha * decay);
        weights.put(kept - step, at.i0, at.i1, at.i2, at.i3);
    });
}

void launch_sgd(const Tensor& node, const Launch& launch) {
    const Operand weights = operand(&node), gradient = operand(node.src[1]);
    const Operand p = operand(node.src[2]);
    for_each_place(launch, node, [=] __device__(Place at) {
        const float alpha = p(0), decay = p(1);
        const float kept = weights(at.i0, at.i1, at.i2, at.i3) * (1 - alpha * decay);
        weights.put(kept - alpha * gradient(at.i0, at.i1, at.i2, at.i3), at.i0, at.i1, at.i2,
                    at.i3);
    });
}

constexpr Kernel kKernels[] = {
    {"silu_back", GGML_OP_SILU_BACK, silu_objection, nullptr, launch_silu_back},
    {"rms_norm_back_f32", GGML_OP_RMS_NORM_BACK, rms_objection, nullptr, launch_rms_norm_back},
    {"cross_entropy_loss_f32", GGML_OP_CROSS_ENTROPY_LOSS, loss_objection, loss_scratch,
     launch_loss},
    {"cross_entropy_loss_back_f32", GGML_OP_CROSS_ENTROPY_LOSS_BACK, loss_back_objection, nullptr,
     launch_loss_back},
    {"opt_step_adamw_f32", GGML_OP_OPT_STEP_ADAMW, adamw_objection, nullptr, launch_adamw},
    {"opt_step_sgd_f32", GGML_OP_OPT_STEP_SGD, sgd_objection, nullptr, launch_sgd},
};

}  // namespace

std::span<const Kernel> training_kernels() { return kKernels; }

}  // namespace heddle::cuda
