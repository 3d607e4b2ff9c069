// GLU: an activation of one half times the other half, or of one tensor times another.

#include "backends/cuda/kernels/elementwise/glu_functions.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/glu.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

using namespace gpu::glu;

using Params = ops::Glu::Params;

void launch_glu(const Tensor& node, const Launch& launch) {
    const auto params = unpack<Params>(node);
    const Operand a = operand(node.src[0]), y = operand(&node);
    const bool is_split = node.src[1] != nullptr;
    const Operand b = is_split ? operand(node.src[1]) : a;
    const std::int64_t half = node.ne[0];
    const std::int64_t x_begin = !is_split && params.swapped != 0 ? half : 0;
    const std::int64_t g_begin = !is_split && params.swapped == 0 ? half : 0;
    for_each_place(launch, node, [=] __device__(Place p) {
        const float x = a(p.i0 + x_begin, p.i1, p.i2, p.i3);
        const float g = b(p.i0 + g_begin, p.i1, p.i2, p.i3);
        y.put(glu_of(params, x, g), p.i0, p.i1, p.i2, p.i3);
    });
}

constexpr Kernel kKernels[] = {{"glu", GGML_OP_GLU, objection, nullptr, launch_glu}};

}  // namespace

std::span<const Kernel> glu_kernels() { return kKernels; }

}  // namespace heddle::cuda
