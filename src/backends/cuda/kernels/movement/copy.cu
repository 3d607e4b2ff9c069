// CPY, DUP and CONT: element number e of the source becomes element number e of the result.

#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/formats/encode.cuh"
#include "backends/cuda/kernels/units.cuh"
#include "backends/gpu/conditions/copy.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

using namespace gpu::copy;

// ---- equal types -------------------------------------------------------------------------------

void launch_dense(const Tensor& node, const Launch& launch) {
    if (node.data == node.src[0]->data) return;
    cudaMemcpyAsync(node.data, node.src[0]->data, byte_size(node), cudaMemcpyDeviceToDevice,
                    launch.stream);
}

void launch_units(const Tensor& node, const Launch& launch) {
    const Operand x = unit_operand(node.src[0]), y = unit_operand(&node);
    const int bytes = unit_bytes(node);
    const bool is_same_shape = same_shape(*node.src[0], node);
    for_each(launch, unit_count(node), [=] __device__(std::int64_t i) {
        const Place to = unravel(i, y.extent);
        const Place from = is_same_shape ? to : unravel(i, x.extent);
        copy_unit(y.at(to.i0, to.i1, to.i2, to.i3), x.at(from.i0, from.i1, from.i2, from.i3),
                  bytes);
    });
}

// ---- plain types -------------------------------------------------------------------------------

void launch_plain(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), y = operand(&node);
    const bool is_same_shape = same_shape(*node.src[0], node);
    for_each(launch, element_count(node), [=] __device__(std::int64_t i) {
        const Place to = unravel(i, y.extent);
        const Place from = is_same_shape ? to : unravel(i, x.extent);
        y.put(x(from.i0, from.i1, from.i2, from.i3), to.i0, to.i1, to.i2, to.i3);
    });
}

// ---- blocks ------------------------------------------------------------------------------------

/// Eight elements per thread: every block is made of so many.
template <class F>
void launch_decode_of(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each(launch, element_count(node) / 8, [=] __device__(std::int64_t i) {
        const Place from = unravel(8 * i, x.extent);
        float values[8];
        decode8_of_row<F>(x.at(0, from.i1, from.i2, from.i3), from.i0, values);
        for (int j = 0; j < 8; ++j) {
            const Place to = unravel(8 * i + j, y.extent);
            y.put(values[j], to.i0, to.i1, to.i2, to.i3);
        }
    });
}

void launch_decode(const Tensor& node, const Launch& launch) {
    dispatch_format(node.src[0]->type, [&](auto format) {
        // Plain types are converted above.
        if constexpr (decltype(format)::block_elements > 1) {
            launch_decode_of<decltype(format)>(node, launch);
        }
    });
}

/// One block of 32 elements per thread.
template <class E>
void launch_encode_of(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), y = unit_operand(&node);
    for_each(launch, unit_count(node), [=] __device__(std::int64_t block) {
        float values[32];
        for (int j = 0; j < 32; ++j) {
            const Place from = unravel(32 * block + j, x.extent);
            values[j] = x(from.i0, from.i1, from.i2, from.i3);
        }
        const Place to = unravel(block, y.extent);
        E::encode(values, reinterpret_cast<std::uint8_t*>(y.at(to.i0, to.i1, to.i2, to.i3)));
    });
}

void launch_encode(const Tensor& node, const Launch& launch) {
    dispatch_encoder(node.type,
                     [&](auto encoder) { launch_encode_of<decltype(encoder)>(node, launch); });
}

constexpr Kernel rows_of(Op op, int which) {
    const Kernel all[] = {
        {"copy_dense", op, dense_objection, nullptr, launch_dense},
        {"copy_units", op, units_objection, nullptr, launch_units},
        {"copy_plain", op, plain_objection, nullptr, launch_plain},
        {"copy_decode", op, decode_objection, nullptr, launch_decode},
        {"copy_encode", op, encode_objection, nullptr, launch_encode},
    };
    return all[which];
}

constexpr Kernel kKernels[] = {
    rows_of(GGML_OP_CPY, 0),  rows_of(GGML_OP_CPY, 1),  rows_of(GGML_OP_CPY, 2),
    rows_of(GGML_OP_CPY, 3),  rows_of(GGML_OP_CPY, 4),  rows_of(GGML_OP_DUP, 0),
    rows_of(GGML_OP_DUP, 1),  rows_of(GGML_OP_DUP, 2),  rows_of(GGML_OP_DUP, 3),
    rows_of(GGML_OP_DUP, 4),  rows_of(GGML_OP_CONT, 0), rows_of(GGML_OP_CONT, 1),
    rows_of(GGML_OP_CONT, 2), rows_of(GGML_OP_CONT, 3), rows_of(GGML_OP_CONT, 4),
};

}  // namespace

std::span<const Kernel> copy_kernels() { return kKernels; }

}  // namespace heddle::cuda
