// GET_ROWS, SET_ROWS and GET_ROWS_BACK. An index outside of the table reads zeros, writes nothing,
// and is reported.

#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/formats/encode.cuh"
#include "backends/cuda/kernels/faults.cuh"
#include "backends/cuda/kernels/units.cuh"
#include "backends/gpu/conditions/index.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

using namespace gpu::index;

// ---- GET_ROWS ----------------------------------------------------------------------------------

void launch_get_plain(const Tensor& node, const Launch& launch) {
    const Operand table = operand(node.src[0]), indices = operand(node.src[1]), y = operand(&node);
    const bool is_integer = node.type == GGML_TYPE_I32;
    const IndexCheck is_index_inside = index_check(node, launch);
    for_each_place(launch, node, [=] __device__(Place p) {
        const std::int64_t row = indices.integer(p.i1, p.i2, p.i3);
        const bool is_inside = is_index_inside(row, table.extent[1]);
        std::byte* const to = y.at(p.i0, p.i1, p.i2, p.i3);
        if (!is_inside) {
            store_float(to, 0.0f, y.type);
        } else if (is_integer) {
            copy_unit(to, table.at(p.i0, row, p.i2, p.i3), 4);
        } else {
            store_float(to, table(p.i0, row, p.i2, p.i3), y.type);
        }
    });
}

template <class F>
void launch_get_blocks_of(const Tensor& node, const Launch& launch) {
    const Operand table = operand(node.src[0]), indices = operand(node.src[1]), y = operand(&node);
    const IndexCheck is_index_inside = index_check(node, launch);
    const Shape groups{{node.ne[0] / 8, node.ne[1], node.ne[2], node.ne[3]}};
    for_each(launch, element_count(node) / 8, [=] __device__(std::int64_t i) {
        const Place p = unravel(i, groups.extent);
        const std::int64_t row = indices.integer(p.i1, p.i2, p.i3);
        float values[8] = {};
        if (is_index_inside(row, table.extent[1])) {
            decode8_of_row<F>(table.at(0, row, p.i2, p.i3), 8 * p.i0, values);
        }
        for (int j = 0; j < 8; ++j) y.put(values[j], 8 * p.i0 + j, p.i1, p.i2, p.i3);
    });
}

void launch_get_blocks(const Tensor& node, const Launch& launch) {
    dispatch_format(node.src[0]->type, [&](auto format) {
        // Plain types have a kernel of their own.
        if constexpr (decltype(format)::block_elements > 1) {
            launch_get_blocks_of<decltype(format)>(node, launch);
        }
    });
}

// ---- SET_ROWS ----------------------------------------------------------------------------------

void launch_set_plain(const Tensor& node, const Launch& launch) {
    const Operand rows = operand(node.src[0]), indices = operand(node.src[1]), y = operand(&node);
    const IndexCheck is_index_inside = index_check(node, launch);
    for_each_place(launch, *node.src[0], [=] __device__(Place p) {
        const std::int64_t row =
            indices.integer(p.i1, p.i2 % indices.extent[1], p.i3 % indices.extent[2]);
        if (!is_index_inside(row, y.extent[1])) return;
        y.put(rows(p.i0, p.i1, p.i2, p.i3), p.i0, row, p.i2, p.i3);
    });
}

template <class E>
void launch_set_blocks_of(const Tensor& node, const Launch& launch) {
    const Operand rows = operand(node.src[0]), indices = operand(node.src[1]);
    const Operand y = unit_operand(&node);
    const IndexCheck is_index_inside = index_check(node, launch);
    const Shape blocks{
        {node.ne[0] / 32, node.src[0]->ne[1], node.src[0]->ne[2], node.src[0]->ne[3]}};
    for_each(launch, element_count(*node.src[0]) / 32, [=] __device__(std::int64_t i) {
        const Place p = unravel(i, blocks.extent);
        const std::int64_t row =
            indices.integer(p.i1, p.i2 % indices.extent[1], p.i3 % indices.extent[2]);
        if (!is_index_inside(row, y.extent[1])) return;
        float values[32];
        for (int j = 0; j < 32; ++j) values[j] = rows(32 * p.i0 + j, p.i1, p.i2, p.i3);
        E::encode(values, reinterpret_cast<std::uint8_t*>(y.at(p.i0, row, p.i2, p.i3)));
    });
}

void launch_set_blocks(const Tensor& node, const Launch& launch) {
    dispatch_encoder(node.type,
                     [&](auto encoder) { launch_set_blocks_of<decltype(encoder)>(node, launch); });
}

// ---- GET_ROWS_BACK -----------------------------------------------------------------------------

/// Each element of the table goes through all indices in order: sums are the same in every run.
void launch_back(const Tensor& node, const Launch& launch) {
    const Operand given = operand(node.src[0]), indices = operand(node.src[1]), y = operand(&node);
    const std::int64_t count = element_count(*node.src[1]);
    for_each_place(launch, node, [=] __device__(Place p) {
        float total = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            const Place at = unravel(i, indices.extent);
            if (indices.integer(at.i0, at.i1, at.i2, at.i3) != p.i1) continue;
            const Place from = row_place(i, given.extent);
            total += given(p.i0, from.i1, from.i2, from.i3);
        }
        y.put(total, p.i0, p.i1);
    });
}

constexpr Kernel kKernels[] = {
    {"get_rows_plain", GGML_OP_GET_ROWS, get_plain_objection, nullptr, launch_get_plain},
    {"get_rows_blocks", GGML_OP_GET_ROWS, get_blocks_objection, nullptr, launch_get_blocks},
    {"set_rows_plain", GGML_OP_SET_ROWS, set_plain_objection, nullptr, launch_set_plain},
    {"set_rows_blocks", GGML_OP_SET_ROWS, set_blocks_objection, nullptr, launch_set_blocks},
    {"get_rows_back", GGML_OP_GET_ROWS_BACK, back_objection, nullptr, launch_back},
};

}  // namespace

std::span<const Kernel> index_kernels() { return kKernels; }

}  // namespace heddle::cuda
