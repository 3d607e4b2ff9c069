// ADD, SUB, MUL, DIV with broadcasting, ADD1 and ADD_ID. Any strides; F32, F16 and BF16 in any
// mixture.

#include "backends/cuda/kernels/faults.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/binary.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

using namespace gpu::binary;

struct Add {
    __device__ float operator()(float a, float b) const { return a + b; }
};
struct Subtract {
    __device__ float operator()(float a, float b) const { return a - b; }
};
struct Multiply {
    __device__ float operator()(float a, float b) const { return a * b; }
};
struct Divide {
    __device__ float operator()(float a, float b) const { return a / b; }
};

/// One element of each operand after the other, all dense F32 of one shape.
template <class Combine>
void launch_dense(const Tensor& node, const Launch& launch) {
    const auto* a = static_cast<const float*>(node.src[0]->data);
    const auto* b = static_cast<const float*>(node.src[1]->data);
    auto* y = static_cast<float*>(node.data);
    for_each(launch, element_count(node),
             [=] __device__(std::int64_t i) { y[i] = Combine{}(a[i], b[i]); });
}

/// The second operand is tiled over the first.
template <class Combine>
void launch_broadcast(const Tensor& node, const Launch& launch) {
    const Operand a = operand(node.src[0]), b = operand(node.src[1]), y = operand(&node);
    const bool tiles = !same_shape(*node.src[1], node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const float second = tiles ? b(p.i0 % b.extent[0], p.i1 % b.extent[1], p.i2 % b.extent[2],
                                       p.i3 % b.extent[3])
                                   : b(p.i0, p.i1, p.i2, p.i3);
        y.put(Combine{}(a(p.i0, p.i1, p.i2, p.i3), second), p.i0, p.i1, p.i2, p.i3);
    });
}

/// Ids outside of b add nothing and are reported.
void launch_add_id(const Tensor& node, const Launch& launch) {
    const Operand a = operand(node.src[0]), b = operand(node.src[1]), ids = operand(node.src[2]);
    const Operand y = operand(&node);
    const IndexCheck is_index_inside = index_check(node, launch);
    for_each_place(launch, node, [=] __device__(Place p) {
        const std::int64_t row = ids.integer(p.i1, p.i2);
        const float added = is_index_inside(row, b.extent[1]) ? b(p.i0, row) : 0.0f;
        y.put(a(p.i0, p.i1, p.i2, p.i3) + added, p.i0, p.i1, p.i2, p.i3);
    });
}

constexpr Kernel kKernels[] = {
    {"add_f32_dense", GGML_OP_ADD, dense_objection, nullptr, launch_dense<Add>},
    {"sub_f32_dense", GGML_OP_SUB, dense_objection, nullptr, launch_dense<Subtract>},
    {"mul_f32_dense", GGML_OP_MUL, dense_objection, nullptr, launch_dense<Multiply>},
    {"div_f32_dense", GGML_OP_DIV, dense_objection, nullptr, launch_dense<Divide>},
    {"add_broadcast", GGML_OP_ADD, binary_objection, nullptr, launch_broadcast<Add>},
    {"sub_broadcast", GGML_OP_SUB, binary_objection, nullptr, launch_broadcast<Subtract>},
    {"mul_broadcast", GGML_OP_MUL, binary_objection, nullptr, launch_broadcast<Multiply>},
    {"div_broadcast", GGML_OP_DIV, binary_objection, nullptr, launch_broadcast<Divide>},
    {"add1_broadcast", GGML_OP_ADD1, binary_objection, nullptr, launch_broadcast<Add>},
    {"add_id_f32", GGML_OP_ADD_ID, add_id_objection, nullptr, launch_add_id},
};

}  // namespace

std::span<const Kernel> binary_kernels() { return kKernels; }

}  // namespace heddle::cuda
