// CONCAT, REPEAT, REPEAT_BACK, PAD, PAD_REFLECT_1D, ROLL, SET, ACC, and the windows of image
// models.

#include "backends/cuda/kernels/units.cuh"
#include "backends/gpu/conditions/assemble.hpp"
#include "ggml/op_list.h"
#include "ops/acc_set.hpp"
#include "ops/concat.hpp"
#include "ops/pad.hpp"
#include "ops/roll.hpp"
#include "ops/window.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::assemble;

// ---- CONCAT, REPEAT ----------------------------------------------------------------------------

void launch_concat(const Tensor& node, const Launch& launch) {
    const Operand a = unit_operand(node.src[0]), b = unit_operand(node.src[1]);
    const Operand y = unit_operand(&node);
    const int bytes = unit_bytes(node), dim = unpack<ops::Concat::Params>(node).dim;
    for_each(launch, unit_count(node), [=] __device__(std::int64_t i) {
        const Place p = unravel(i, y.extent);
        std::int64_t at[4] = {p.i0, p.i1, p.i2, p.i3};
        const bool is_first = at[dim] < a.extent[dim];
        if (!is_first) at[dim] -= a.extent[dim];
        const Operand& from = is_first ? a : b;
        copy_unit(y.at(p.i0, p.i1, p.i2, p.i3), from.at(at[0], at[1], at[2], at[3]), bytes);
    });
}

void launch_repeat(const Tensor& node, const Launch& launch) {
    const Operand x = unit_operand(node.src[0]), y = unit_operand(&node);
    const int bytes = unit_bytes(node);
    for_each(launch, unit_count(node), [=] __device__(std::int64_t i) {
        const Place p = unravel(i, y.extent);
        copy_unit(
            y.at(p.i0, p.i1, p.i2, p.i3),
            x.at(p.i0 % x.extent[0], p.i1 % x.extent[1], p.i2 % x.extent[2], p.i3 % x.extent[3]),
            bytes);
    });
}

/// Every tile of the gradient is added up, in order.
void launch_repeat_back(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        float total = 0;
        for (std::int64_t i3 = p.i3; i3 < x.extent[3]; i3 += y.extent[3]) {
            for (std::int64_t i2 = p.i2; i2 < x.extent[2]; i2 += y.extent[2]) {
                for (std::int64_t i1 = p.i1; i1 < x.extent[1]; i1 += y.extent[1]) {
                    for (std::int64_t i0 = p.i0; i0 < x.extent[0]; i0 += y.extent[0]) {
                        total += x(i0, i1, i2, i3);
                    }
                }
            }
        }
        y.put(total, p.i0, p.i1, p.i2, p.i3);
    });
}

// ---- PAD, ROLL ---------------------------------------------------------------------------------

__device__ std::int64_t wrapped(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

void launch_pad(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::Pad::Params>(node);
    const Operand x = operand(node.src[0]), y = operand(&node);
    const std::int64_t before[4] = {params.amount[0].before, params.amount[1].before,
                                    params.amount[2].before, params.amount[3].before};
    const bool is_circular = params.circular != 0;
    for_each_place(launch, node, [=] __device__(Place p) {
        std::int64_t at[4] = {p.i0, p.i1, p.i2, p.i3};
        bool is_inside = true;
        for (int d = 0; d < 4; ++d) {
            at[d] -= before[d];
            if (is_circular) at[d] = wrapped(at[d], x.extent[d]);
            is_inside = is_inside && at[d] >= 0 && at[d] < x.extent[d];
        }
        y.put(is_inside ? x(at[0], at[1], at[2], at[3]) : 0.0f, p.i0, p.i1, p.i2, p.i3);
    });
}

/// The edge itself is not repeated.
void launch_reflect(const Tensor& node, const Launch& launch) {
    const std::int64_t before = unpack<ops::PadReflect1d::Params>(node).before;
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        std::int64_t j = p.i0 - before;
        if (j < 0) j = -j;
        if (j >= x.extent[0]) j = 2 * (x.extent[0] - 1) - j;
        y.put(x(j, p.i1, p.i2, p.i3), p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_roll(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::Roll::Params>(node);
    const Operand x = operand(node.src[0]), y = operand(&node);
    const std::int64_t shift[4] = {params.shift[0], params.shift[1], params.shift[2],
                                   params.shift[3]};
    for_each_place(launch, node, [=] __device__(Place p) {
        y.put(x(wrapped(p.i0 - shift[0], x.extent[0]), wrapped(p.i1 - shift[1], x.extent[1]),
                wrapped(p.i2 - shift[2], x.extent[2]), wrapped(p.i3 - shift[3], x.extent[3])),
              p.i0, p.i1, p.i2, p.i3);
    });
}

// ---- SET, ACC ----------------------------------------------------------------------------------

using RegionParams = ops::RegionOp::Params;

/// The part of the result that b is written to.
Operand region_of(const Tensor& node) {
    const auto params = unpack<RegionParams>(node);
    Operand region = operand(&node);
    region.data += params.offset;
    region.stride[1] = params.nb1, region.stride[2] = params.nb2, region.stride[3] = params.nb3;
    return region;
}

/// The result starts as a copy of a, unless it is a.
void copy_first(const Tensor& node, const Launch& launch) {
    const bool is_in_place = unpack<RegionParams>(node).in_place != 0;
    if (is_in_place || node.data == node.src[0]->data) return;
    cudaMemcpyAsync(node.data, node.src[0]->data, byte_size(node), cudaMemcpyDeviceToDevice,
                    launch.stream);
}

void launch_set(const Tensor& node, const Launch& launch) {
    copy_first(node, launch);
    const Operand b = operand(node.src[1]), y = region_of(node);
    for_each_place(launch, *node.src[1], [=] __device__(Place p) {
        copy_unit(y.at(p.i0, p.i1, p.i2, p.i3), b.at(p.i0, p.i1, p.i2, p.i3), 4);
    });
}

void launch_acc(const Tensor& node, const Launch& launch) {
    copy_first(node, launch);
    const Operand b = operand(node.src[1]), y = region_of(node);
    for_each_place(launch, *node.src[1], [=] __device__(Place p) {
        const float sum = y(p.i0, p.i1, p.i2, p.i3) + b(p.i0, p.i1, p.i2, p.i3);
        y.put(sum, p.i0, p.i1, p.i2, p.i3);
    });
}

// ---- windows and relative positions ------------------------------------------------------------

void launch_win_part(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::WinPart::Params>(node);
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const std::int64_t i1 = p.i3 % params.across * params.width + p.i1;
        const std::int64_t i2 = p.i3 / params.across * params.width + p.i2;
        const bool is_inside = i1 < x.extent[1] && i2 < x.extent[2];
        y.put(is_inside ? x(p.i0, i1, i2) : 0.0f, p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_win_unpart(const Tensor& node, const Launch& launch) {
    const std::int64_t width = unpack<ops::WinUnpart::Params>(node).width;
    const std::int64_t across = (node.ne[1] + width - 1) / width;
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const std::int64_t window = p.i2 / width * across + p.i1 / width;
        y.put(x(p.i0, p.i1 % width, p.i2 % width, window), p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_get_rel_pos(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        y.put(x(p.i0, y.extent[1] - 1 - p.i1 + p.i2), p.i0, p.i1, p.i2, p.i3);
    });
}

/// Rows are queries; the two tables vary with the fast and the slow half of the key's index.
void launch_add_rel_pos(const Tensor& node, const Launch& launch) {
    const auto* x = static_cast<const float*>(node.src[0]->data);
    const auto* fast = static_cast<const float*>(node.src[1]->data);
    const auto* slow = static_cast<const float*>(node.src[2]->data);
    auto* y = static_cast<float*>(node.data);
    const std::int64_t n = node.src[1]->ne[0];
    for_each(launch, element_count(node), [=] __device__(std::int64_t i) {
        const std::int64_t query = i / (n * n), key = i % (n * n);
        y[i] = x[i] + fast[query * n + key % n] + slow[query * n + key / n];
    });
}

constexpr Kernel kKernels[] = {
    {"concat", GGML_OP_CONCAT, concat_objection, nullptr, launch_concat},
    {"repeat", GGML_OP_REPEAT, repeat_objection, nullptr, launch_repeat},
    {"repeat_back", GGML_OP_REPEAT_BACK, repeat_back_objection, nullptr, launch_repeat_back},
    {"pad", GGML_OP_PAD, pad_objection, nullptr, launch_pad},
    {"pad_reflect_1d", GGML_OP_PAD_REFLECT_1D, reflect_objection, nullptr, launch_reflect},
    {"roll", GGML_OP_ROLL, roll_objection, nullptr, launch_roll},
    {"set", GGML_OP_SET, set_objection, nullptr, launch_set},
    {"acc", GGML_OP_ACC, acc_objection, nullptr, launch_acc},
    {"win_part", GGML_OP_WIN_PART, win_part_objection, nullptr, launch_win_part},
    {"win_unpart", GGML_OP_WIN_UNPART, win_unpart_objection, nullptr, launch_win_unpart},
    {"get_rel_pos", GGML_OP_GET_REL_POS, get_rel_pos_objection, nullptr, launch_get_rel_pos},
    {"add_rel_pos", GGML_OP_ADD_REL_POS, add_rel_pos_objection, nullptr, launch_add_rel_pos},
};

}  // namespace

std::span<const Kernel> assemble_kernels() { return kKernels; }

}  // namespace heddle::cuda
