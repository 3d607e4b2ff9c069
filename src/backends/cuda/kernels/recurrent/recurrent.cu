// RWKV_WKV6, RWKV_WKV7, GATED_LINEAR_ATTN, GATED_DELTA_NET and SOLVE_TRI. States lie in the result,
// where they are wanted in the end; every element of them belongs to one thread.

#include <initializer_list>

#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/recurrent.hpp"
#include "ggml/op_list.h"
#include "ops/recurrent.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::recurrent;

// ---- heads with a matrix as state --------------------------------------------------------------

/// Where a head's tokens and its state are.
struct Heads {
    std::int64_t size, heads, tokens, sequences, per_sequence;
    const float* before;  ///< states to begin with
    float *y, *states;

    Heads(const Tensor& node, const Tensor& like, const Tensor& states_of)
        : size(like.ne[0]),
          heads(like.ne[1]),
          tokens(like.ne[2]),
          sequences(states_of.ne[1]),
          per_sequence(like.ne[2] / states_of.ne[1]),
          before(static_cast<const float*>(states_of.data)),
          y(static_cast<float*>(node.data)),
          states(static_cast<float*>(node.data) + size * heads * tokens) {}
};

/// State (key, value): a thread has the column of one value.
void launch_wkv6(const Tensor& node, const Launch& launch) {
    const Operand k = operand(node.src[0]), v = operand(node.src[1]), r = operand(node.src[2]);
    const Operand bonus = operand(node.src[3]), decay = operand(node.src[4]);
    const Heads all(node, *node.src[0], *node.src[5]);
    for_each_row(launch, all.heads * all.sequences, all.size, [=] __device__(std::int64_t head) {
        const std::int64_t h = head % all.heads, s = head / all.heads, n = all.size;
        for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) {
            float* const state = all.states + head * n * n + j;
            const float* const before = all.before + head * n * n + j;
            for (std::int64_t i = 0; i < n; ++i) state[i * n] = before[i * n];
            for (std::int64_t t = s * all.per_sequence; t < (s + 1) * all.per_sequence; ++t) {
                const float value = v(j, h, t);
                float total = 0;
                for (std::int64_t i = 0; i < n; ++i) {
                    const float kv = k(i, h, t) * value, kept = state[i * n];
                    total += r(i, h, t) * (bonus(i, h) * kv + kept);
                    state[i * n] = kept * decay(i, h, t) + kv;
                }
                all.y[(t * all.heads + h) * n + j] = total;
            }
        }
    });
}

/// State (key, value): a thread has the column of one value.
void launch_gla(const Tensor& node, const Launch& launch) {
    const float scale = unpack<ops::GatedLinearAttn::Params>(node).scale;
    const Operand k = operand(node.src[0]), v = operand(node.src[1]), q = operand(node.src[2]);
    const Operand gate = operand(node.src[3]);
    const Heads all(node, *node.src[0], *node.src[4]);
    for_each_row(launch, all.heads * all.sequences, all.size, [=] __device__(std::int64_t head) {
        const std::int64_t h = head % all.heads, s = head / all.heads, n = all.size;
        for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) {
            float* const state = all.states + head * n * n + j;
            const float* const before = all.before + head * n * n + j;
            for (std::int64_t i = 0; i < n; ++i) state[i * n] = before[i * n];
            for (std::int64_t t = s * all.per_sequence; t < (s + 1) * all.per_sequence; ++t) {
                const float value = v(j, h, t);
                float total = 0;
                for (std::int64_t i = 0; i < n; ++i) {
                    const float kept = state[i * n] * gate(i, h, t) + k(i, h, t) * value;
                    state[i * n] = kept;
                    total += q(i, h, t) * scale * kept;
                }
                all.y[(t * all.heads + h) * n + j] = total;
            }
        }
    });
}

/// State (value, key): a block has the row of one value.
void launch_wkv7(const Tensor& node, const Launch& launch) {
    const Operand r = operand(node.src[0]), w = operand(node.src[1]), k = operand(node.src[2]);
    const Operand v = operand(node.src[3]), a = operand(node.src[4]), b = operand(node.src[5]);
    const Heads all(node, *node.src[2], *node.src[6]);
    const std::int64_t rows = all.heads * all.sequences * all.size;
    for_each_row(launch, rows, all.size, [=] __device__(std::int64_t row) {
        const std::int64_t n = all.size, i = row % n;
        const std::int64_t h = row / n % all.heads, s = row / n / all.heads;
        float* const state = all.states + row * n;
        for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) {
            state[j] = all.before[row * n + j];
        }
        for (std::int64_t t = s * all.per_sequence; t < (s + 1) * all.per_sequence; ++t) {
            float part = 0;
            for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) {
                part += a(j, h, t) * state[j];
            }
            const float removed = block_sum(part), value = v(i, h, t);
            part = 0;
            for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) {
                const float kept =
                    state[j] * w(j, h, t) + value * k(j, h, t) + removed * b(j, h, t);
                state[j] = kept;
                part += kept * r(j, h, t);
            }
            const float total = block_sum(part);
            if (threadIdx.x == 0) all.y[(t * all.heads + h) * n + i] = total;
        }
    });
}

// ---- GATED_DELTA_NET ---------------------------------------------------------------------------

/// State (value, key): a block has the row of one value. It is decayed, corrected by what it
/// predicts wrongly, then read.
void launch_delta(const Tensor& node, const Launch& launch) {
    const Operand q = operand(node.src[0]), k = operand(node.src[1]), v = operand(node.src[2]);
    const Operand gate = operand(node.src[3]), beta = operand(node.src[4]);
    const auto* const before = static_cast<const float*>(node.src[5]->data);
    auto* const y = static_cast<float*>(node.data);
    float* const snapshots = y + element_count(*node.src[2]);
    const std::int64_t slots = unpack<ops::GatedDeltaNet::Params>(node).snapshots;
    const std::int64_t size = v.extent[0], heads = v.extent[1];
    const std::int64_t tokens = v.extent[2], sequences = v.extent[3];
    const std::int64_t snapshot = size * size * heads * sequences;
    if (tokens == 0 && slots > 1) return;
    for_each_row(launch, size * heads * sequences, size, [=] __device__(std::int64_t row) {
        const std::int64_t j = row % size, h = row / size % heads, s = row / size / heads;
        const std::int64_t sk = s / (sequences / k.extent[3]), hk = h % k.extent[1];
        const std::int64_t sq = s / (sequences / q.extent[3]), hq = h % q.extent[1];
        float* const state = snapshots + row * size;
        for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
            state[i] = before[row * size + i];
        }
        for (std::int64_t t = 0; t < tokens; ++t) {
            float part = 0;
            for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
                const float kept = state[i] * expf(gate(gate.extent[0] == 1 ? 0 : i, h, t, s));
                state[i] = kept;
                part += kept * k(i, hk, t, sk);
            }
            const float correction = beta(0, h, t, s) * (v(j, h, t, s) - block_sum(part));
            const std::int64_t slot = tokens - 1 - t;
            part = 0;
            for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
                const float kept = state[i] + correction * k(i, hk, t, sk);
                state[i] = kept;
                if (slot > 0 && slot < slots) state[slot * snapshot + i] = kept;
                part += kept * q(i, hq, t, sq);
            }
            const float total = block_sum(part) / sqrtf(static_cast<float>(size));
            if (threadIdx.x == 0) y[((s * tokens + t) * heads + h) * size + j] = total;
        }
    });
}

// ---- SOLVE_TRI ---------------------------------------------------------------------------------

/// Forward substitution; a thread has one right-hand side.
void launch_solve(const Tensor& node, const Launch& launch) {
    const Operand a = operand(node.src[0]), b = operand(node.src[1]), x = operand(&node);
    const Shape sides{{node.ne[0], 1, node.ne[2], node.ne[3]}};
    for_each(launch, node.ne[0] * node.ne[2] * node.ne[3], [=] __device__(std::int64_t i) {
        const Place p = unravel(i, sides.extent);
        for (std::int64_t r = 0; r < x.extent[1]; ++r) {
            float value = b(p.i0, r, p.i2, p.i3);
            for (std::int64_t t = 0; t < r; ++t) {
                value -= a(t, r, p.i2, p.i3) * x(p.i0, t, p.i2, p.i3);
            }
            x.put(value / a(r, r, p.i2, p.i3), p.i0, r, p.i2, p.i3);
        }
    });
}

constexpr Kernel kKernels[] = {
    {"rwkv_wkv6_f32", GGML_OP_RWKV_WKV6, wkv6_objection, nullptr, launch_wkv6},
    {"rwkv_wkv7_f32", GGML_OP_RWKV_WKV7, wkv7_objection, nullptr, launch_wkv7},
    {"gated_linear_attn_f32", GGML_OP_GATED_LINEAR_ATTN, gla_objection, nullptr, launch_gla},
    {"gated_delta_net_f32", GGML_OP_GATED_DELTA_NET, delta_objection, nullptr, launch_delta},
    {"solve_tri_f32", GGML_OP_SOLVE_TRI, solve_objection, nullptr, launch_solve},
};

}  // namespace

std::span<const Kernel> recurrent_kernels() { return kKernels; }

}  // namespace heddle::cuda
