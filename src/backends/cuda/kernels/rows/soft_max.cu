// SOFT_MAX with mask, ALiBi slopes and sinks, and its gradient: a block of threads for each row.

#include "backends/cuda/kernels/alibi.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/soft_max.hpp"
#include "ggml/op_list.h"
#include "ops/soft_max.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::soft_max;

/// The logit of an element: scaled, and masked if there is a mask.
struct Logits {
    Operand x, mask;
    float scale, slope;
    Place row;

    __device__ float operator()(std::int64_t i) const {
        const float value = scale * x(i, row.i1, row.i2, row.i3);
        if (!mask.is_there()) return value;
        return value + slope * mask(i, row.i1, row.i2 % mask.extent[2], row.i3 % mask.extent[3]);
    }
};

/// Logits are computed three times rather than kept: rows may be longer than any memory of a block.
void launch_soft_max(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::SoftMax::Params>(node);
    const Operand x = operand(node.src[0]), mask = operand(node.src[1]);
    const Operand sinks = operand(node.src[2]), y = operand(&node);
    const Alibi alibi(params.max_bias, node.ne[2]);
    for_each_row(launch, row_count(node), node.ne[0], [=] __device__(std::int64_t r) {
        const Place row = row_place(r, x.extent);
        const Logits logit{x, mask, params.scale, alibi.slope(row.i2), row};
        float largest = sinks.is_there() ? sinks(row.i2) : -INFINITY;
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            largest = fmaxf(largest, logit(i));
        }
        largest = block_max(largest);
        float part = 0;
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            part += expf(logit(i) - largest);
        }
        float total = block_sum(part);
        if (sinks.is_there()) total += expf(sinks(row.i2) - largest);
        const float share = 1.0f / total;
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            y.put(expf(logit(i) - largest) * share, i, row.i1, row.i2, row.i3);
        }
    });
}

void launch_back(const Tensor& node, const Launch& launch) {
    const float scale = unpack<ops::SoftMaxBack::Params>(node).scale;
    const Operand dy = operand(node.src[0]), y = operand(node.src[1]), dx = operand(&node);
    for_each_row(launch, row_count(node), node.ne[0], [=] __device__(std::int64_t r) {
        const Place p = row_place(r, y.extent);
        float part = 0;
        for (std::int64_t i = threadIdx.x; i < y.extent[0]; i += blockDim.x) {
            part += y(i, p.i1, p.i2, p.i3) * dy(i, p.i1, p.i2, p.i3);
        }
        const float dot = block_sum(part);
        for (std::int64_t i = threadIdx.x; i < y.extent[0]; i += blockDim.x) {
            const float change = dy(i, p.i1, p.i2, p.i3) - dot;
            dx.put(scale * y(i, p.i1, p.i2, p.i3) * change, i, p.i1, p.i2, p.i3);
        }
    });
}

constexpr Kernel kKernels[] = {
    {"soft_max_f32", GGML_OP_SOFT_MAX, objection, nullptr, launch_soft_max},
    {"soft_max_back_f32", GGML_OP_SOFT_MAX_BACK, back_objection, nullptr, launch_back},
};

}  // namespace

std::span<const Kernel> soft_max_kernels() { return kKernels; }

}  // namespace heddle::cuda
