// FILL, ARANGE, TIMESTEP_EMBEDDING, TRI, DIAG, DIAG_MASK_INF and DIAG_MASK_ZERO.

#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/generate.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ops/generate.hpp"
#include "ops/mask.hpp"
#include "ops/triangle.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::generate;

void launch_fill(const Tensor& node, const Launch& launch) {
    const float value = unpack<ops::Fill::Params>(node).value;
    const Operand y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) { y.put(value, p.i0, p.i1, p.i2, p.i3); });
}

void launch_arange(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::Arange::Params>(node);
    const Operand y = operand(&node);
    for_each(launch, node.ne[0], [=] __device__(std::int64_t i) {
        y.put(params.start + params.step * static_cast<float>(i), i);
    });
}

/// Cosines first, then sines; an odd last element is 0.
void launch_timestep_embedding(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::TimestepEmbedding::Params>(node);
    const Operand steps = operand(node.src[0]), y = operand(&node);
    const std::int64_t half = params.dim / 2;
    const float log_period = logf(static_cast<float>(params.max_period));
    for_each_place(launch, node, [=] __device__(Place p) {
        if (p.i0 >= 2 * half) return y.put(0.0f, p.i0, p.i1);
        const std::int64_t j = p.i0 < half ? p.i0 : p.i0 - half;
        const float frequency =
            expf(-log_period * static_cast<float>(j) / static_cast<float>(half));
        const float angle = steps(p.i1) * frequency;
        y.put(p.i0 < half ? cosf(angle) : sinf(angle), p.i0, p.i1);
    });
}

__device__ bool is_kept(int type, std::int64_t column, std::int64_t row) {
    switch (type) {
        case GGML_TRI_TYPE_UPPER_DIAG:
            return column >= row;
        case GGML_TRI_TYPE_UPPER:
            return column > row;
        case GGML_TRI_TYPE_LOWER_DIAG:
            return column <= row;
        default:
            return column < row;
    }
}

void launch_tri(const Tensor& node, const Launch& launch) {
    const int type = unpack<ops::Tri::Params>(node).type;
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const float kept = is_kept(type, p.i0, p.i1) ? x(p.i0, p.i1, p.i2, p.i3) : 0.0f;
        y.put(kept, p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_diag(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        y.put(p.i0 == p.i1 ? x(p.i0, 0, p.i2, p.i3) : 0.0f, p.i0, p.i1, p.i2, p.i3);
    });
}

void mask_right_of_diagonal(const Tensor& node, const Launch& launch, float masked) {
    const std::int64_t past = unpack<ops::DiagMask::Params>(node).n_past;
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const float value = p.i0 > past + p.i1 ? masked : x(p.i0, p.i1, p.i2, p.i3);
        y.put(value, p.i0, p.i1, p.i2, p.i3);
    });
}
void launch_mask_inf(const Tensor& node, const Launch& launch) {
    mask_right_of_diagonal(node, launch, -INFINITY);
}
void launch_mask_zero(const Tensor& node, const Launch& launch) {
    mask_right_of_diagonal(node, launch, 0.0f);
}

constexpr Kernel kKernels[] = {
    {"fill", GGML_OP_FILL, float_result, nullptr, launch_fill},
    {"arange", GGML_OP_ARANGE, float_result, nullptr, launch_arange},
    {"timestep_embedding", GGML_OP_TIMESTEP_EMBEDDING, timestep_objection, nullptr,
     launch_timestep_embedding},
    {"tri", GGML_OP_TRI, tri_objection, nullptr, launch_tri},
    {"diag", GGML_OP_DIAG, float_operand, nullptr, launch_diag},
    {"diag_mask_inf", GGML_OP_DIAG_MASK_INF, same_shape_objection, nullptr, launch_mask_inf},
    {"diag_mask_zero", GGML_OP_DIAG_MASK_ZERO, same_shape_objection, nullptr, launch_mask_zero},
};

}  // namespace

std::span<const Kernel> generate_kernels() { return kKernels; }

}  // namespace heddle::cuda
