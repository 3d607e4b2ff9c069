// NORM, RMS_NORM, L2_NORM and GROUP_NORM: a block of threads for each row or group.

#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/norm.hpp"
#include "ggml/op_list.h"
#include "ops/norm.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::norm;

/// The row of this block, element by element.
struct RowOf {
    Operand x, y;
    Place row;

    __device__ float get(std::int64_t i) const { return x(i, row.i1, row.i2, row.i3); }
    __device__ void put(std::int64_t i, float value) const {
        y.put(value, i, row.i1, row.i2, row.i3);
    }
    __device__ float sum_of_squares(float mean) const {
        float part = 0;
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            const float difference = get(i) - mean;
            part += difference * difference;
        }
        return block_sum(part);
    }
};

void launch_norm(const Tensor& node, const Launch& launch) {
    const float eps = unpack<ops::Norm::Params>(node).eps;
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_row(launch, row_count(node), node.ne[0], [=] __device__(std::int64_t r) {
        const RowOf row{x, y, row_place(r, x.extent)};
        const auto n = static_cast<float>(x.extent[0]);
        float part = 0;
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) part += row.get(i);
        const float mean = block_sum(part) / n;
        const float scale = 1.0f / sqrtf(row.sum_of_squares(mean) / n + eps);
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            row.put(i, (row.get(i) - mean) * scale);
        }
    });
}

void launch_rms_norm(const Tensor& node, const Launch& launch) {
    const float eps = unpack<ops::RmsNorm::Params>(node).eps;
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_row(launch, row_count(node), node.ne[0], [=] __device__(std::int64_t r) {
        const RowOf row{x, y, row_place(r, x.extent)};
        const auto n = static_cast<float>(x.extent[0]);
        const float scale = 1.0f / sqrtf(row.sum_of_squares(0) / n + eps);
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            row.put(i, row.get(i) * scale);
        }
    });
}

/// The epsilon is the least length divided by; it is not added.
void launch_l2_norm(const Tensor& node, const Launch& launch) {
    const float eps = unpack<ops::L2Norm::Params>(node).eps;
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_row(launch, row_count(node), node.ne[0], [=] __device__(std::int64_t r) {
        const RowOf row{x, y, row_place(r, x.extent)};
        const float scale = 1.0f / fmaxf(sqrtf(row.sum_of_squares(0)), eps);
        for (std::int64_t i = threadIdx.x; i < x.extent[0]; i += blockDim.x) {
            row.put(i, row.get(i) * scale);
        }
    });
}

// ---- GROUP_NORM --------------------------------------------------------------------------------

/// A group is a run of channels (dimension 2) of one image.
struct GroupOf {
    Operand x, y;
    std::int64_t first, count, image;

    __device__ Place place(std::int64_t i) const {
        const std::int64_t plane = x.extent[0] * x.extent[1];
        return {i % x.extent[0], i % plane / x.extent[0], first + i / plane, image};
    }
    __device__ std::int64_t size() const { return x.extent[0] * x.extent[1] * count; }
    __device__ float get(std::int64_t i) const {
        const Place p = place(i);
        return x(p.i0, p.i1, p.i2, p.i3);
    }
    __device__ void put(std::int64_t i, float value) const {
        const Place p = place(i);
        y.put(value, p.i0, p.i1, p.i2, p.i3);
    }
};

void launch_group_norm(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::GroupNorm::Params>(node);
    const Operand x = operand(node.src[0]), y = operand(&node);
    const std::int64_t groups = params.n_groups;
    const std::int64_t per_group = (node.ne[2] + groups - 1) / groups;
    for_each_row(launch, groups * node.ne[3], 512, [=] __device__(std::int64_t r) {
        const std::int64_t first = r % groups * per_group, left = x.extent[2] - first;
        if (left <= 0) return;  // as for all threads of the block
        const GroupOf group{x, y, first, left < per_group ? left : per_group, r / groups};
        const auto n = static_cast<float>(group.size());
        float part = 0;
        for (std::int64_t i = threadIdx.x; i < group.size(); i += blockDim.x) part += group.get(i);
        const float mean = block_sum(part) / n;
        float squares = 0;
        for (std::int64_t i = threadIdx.x; i < group.size(); i += blockDim.x) {
            const float difference = group.get(i) - mean;
            squares += difference * difference;
        }
        const float scale = 1.0f / sqrtf(block_sum(squares) / n + params.eps);
        for (std::int64_t i = threadIdx.x; i < group.size(); i += blockDim.x) {
            group.put(i, (group.get(i) - mean) * scale);
        }
    });
}

constexpr Kernel kKernels[] = {
    {"norm_f32", GGML_OP_NORM, row_objection, nullptr, launch_norm},
    {"rms_norm_f32", GGML_OP_RMS_NORM, row_objection, nullptr, launch_rms_norm},
    {"l2_norm_f32", GGML_OP_L2_NORM, row_objection, nullptr, launch_l2_norm},
    {"group_norm_f32", GGML_OP_GROUP_NORM, group_objection, nullptr, launch_group_norm},
};

}  // namespace

std::span<const Kernel> norm_kernels() { return kKernels; }

}  // namespace heddle::cuda
