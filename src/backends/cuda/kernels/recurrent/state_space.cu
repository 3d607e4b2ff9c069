// SSM_CONV and SSM_SCAN.

#include "backends/cuda/kernels/activations.cuh"
#include "backends/cuda/kernels/faults.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/state_space.hpp"
#include "ggml/op_list.h"
#include "ops/state_space.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::state_space;

void launch_conv(const Tensor& node, const Launch& launch) {
    const Operand signal = operand(node.src[0]), kernel = operand(node.src[1]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        float total = 0;
        for (std::int64_t k = 0; k < kernel.extent[0]; ++k) {
            total += signal(p.i1 + k, p.i0, p.i2) * kernel(k, p.i0);
        }
        y.put(total, p.i0, p.i1, p.i2);
    });
}

// ---- SSM_SCAN ----------------------------------------------------------------------------------

/// A block for each dimension of each head. Its state lies where the newest snapshot goes, and
/// every element of it belongs to one thread.
void launch_scan(const Tensor& node, const Launch& launch) {
    const Operand pool = operand(node.src[0]), x = operand(node.src[1]), dt = operand(node.src[2]);
    const Operand decay = operand(node.src[3]), b = operand(node.src[4]), c = operand(node.src[5]);
    const Operand ids = operand(node.src[6]);
    auto* const y = static_cast<float*>(node.data);
    const std::int64_t slots = unpack<ops::SsmScan::Params>(node).snapshots;
    const std::int64_t size = pool.extent[0], dims = x.extent[0], heads = x.extent[1];
    const std::int64_t tokens = x.extent[2], sequences = x.extent[3];
    const std::int64_t group = heads / b.extent[1], snapshot = size * dims * heads * sequences;
    float* const snapshots = y + element_count(*node.src[1]);
    if (tokens == 0) return;
    const IndexCheck is_index_inside = index_check(node, launch);
    for_each_row(launch, dims * heads * sequences, size, [=] __device__(std::int64_t r) {
        const std::int64_t d = r % dims, h = r / dims % heads, s = r / (dims * heads);
        const std::int64_t origin = ids.integer(s), g = h / group;
        float* const state = snapshots + size * r;
        const bool is_known = is_index_inside(origin, pool.extent[3]);
        for (std::int64_t n = threadIdx.x; n < size; n += blockDim.x) {
            state[n] = is_known ? pool(n, d, h, origin) : 0.0f;
        }
        for (std::int64_t t = 0; t < tokens; ++t) {
            const float step = softplus(dt(h, t, s)), input = x(d, h, t, s) * step;
            const std::int64_t slot = tokens - 1 - t;
            float part = 0;
            for (std::int64_t n = threadIdx.x; n < size; n += blockDim.x) {
                const float rate = decay(decay.extent[0] == 1 ? 0 : n, h);
                const float value = state[n] * expf(step * rate) + b(n, g, t, s) * input;
                state[n] = value;
                if (slot > 0 && slot < slots) state[slot * snapshot + n] = value;
                part += value * c(n, g, t, s);
            }
            const float total = block_sum(part);
            if (threadIdx.x == 0) y[d + dims * (h + heads * (t + tokens * s))] = total;
        }
    });
}

constexpr Kernel kKernels[] = {
    {"ssm_conv_f32", GGML_OP_SSM_CONV, conv_objection, nullptr, launch_conv},
    {"ssm_scan_f32", GGML_OP_SSM_SCAN, scan_objection, nullptr, launch_scan},
};

}  // namespace

std::span<const Kernel> state_space_kernels() { return kKernels; }

}  // namespace heddle::cuda
