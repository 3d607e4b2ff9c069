// SSM_CONV and SSM_SCAN.

#include "backends/cuda/kernels/activations.cuh"
#include "backends/cuda/kernels/faults.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "ops/state_space.hpp"

namespace heddle::cuda {
namespace {

std::string_view conv_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 2); !words.empty()) return words;
    const Tensor &signal = *node.src[0], &kernel = *node.src[1];
    if (kernel.ne[1] != node.ne[0] || signal.ne[1] != node.ne[0] ||
        signal.ne[0] + 1 != node.ne[1] + kernel.ne[0] || signal.ne[2] != node.ne[2] ||
        node.ne[3] != 1) {
        return "shapes do not fit";
    }
    return {};
}

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

std::string_view scan_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 6); !words.empty()) return words;
    const Tensor *ids = node.src[6], &pool = *node.src[0], &x = *node.src[1], &dt = *node.src[2];
    const Tensor &decay = *node.src[3], &b = *node.src[4], &c = *node.src[5];
    if (ids == nullptr || ids->type != GGML_TYPE_I32) return "ids are not I32";
    const std::int64_t slots = unpack<ops::SsmScan::Params>(node).snapshots;
    if (slots < 1) return "there is no room for the state";
    if (!is_contiguous(node)) return "the result is not contiguous";
    const std::int64_t state = pool.ne[0] * x.ne[0] * x.ne[1] * x.ne[3];
    const bool fits = pool.ne[1] == x.ne[0] && pool.ne[2] == x.ne[1] && b.ne[1] > 0 &&
                      x.ne[1] % b.ne[1] == 0 && b.ne[0] == pool.ne[0] && same_shape(b, c) &&
                      b.ne[2] == x.ne[2] && b.ne[3] == x.ne[3] && dt.ne[0] == x.ne[1] &&
                      dt.ne[1] == x.ne[2] && dt.ne[2] == x.ne[3] && decay.ne[1] == x.ne[1] &&
                      (decay.ne[0] == 1 || decay.ne[0] == pool.ne[0]) && ids->ne[0] >= x.ne[3] &&
                      element_count(node) >= element_count(x) + slots * state;
    return fits ? "" : "shapes do not fit";
}

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
