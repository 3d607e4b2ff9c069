// ROPE and ROPE_BACK in all modes: a thread for each pair of elements.

#include "backends/cuda/kernels/rows/rope.cuh"
#include "backends/cuda/kernels/rows/rope_store.hpp"
#include "backends/gpu/conditions/rope.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

using namespace gpu::rope;

using Params = ops::Rotation::Params;

/// One thread for each element that starts a pair, and for each that is not turned; with one
/// sequence, a group of its own.
void launch_rope(const Tensor& node, const Launch& launch) {
    if (rope_objection(node).empty()) return launch_rope_store({{RopeStore{&node}}, 1}, launch);
    const Rotation rotation(node);
    const Operand x = operand(node.src[0]), positions = operand(node.src[1]);
    const Operand factors = operand(node.src[2]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        rotation.apply(
            p.i0, p.i2, positions, factors, [&](std::int64_t i) { return x(i, p.i1, p.i2, p.i3); },
            [&](std::int64_t i, float value) { y.put(value, i, p.i1, p.i2, p.i3); });
    });
}

constexpr Kernel kKernels[] = {
    {"rope", GGML_OP_ROPE, objection, nullptr, launch_rope},
    {"rope_back", GGML_OP_ROPE_BACK, objection, nullptr, launch_rope},
};

}  // namespace

std::span<const Kernel> rope_kernels() { return kKernels; }

}  // namespace heddle::cuda
