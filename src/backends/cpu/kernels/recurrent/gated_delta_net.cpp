#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/gated_delta_net.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/recurrent/operands.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "ops/recurrent.hpp"

#ifndef HEDDLE_CPU_GATED_DELTA_NET_ONCE
#define HEDDLE_CPU_GATED_DELTA_NET_ONCE
namespace heddle::cpu {

/// The operands of a node, and where its results go.
struct DeltaNet {
    const Tensor &q, &k, &v, &gate, &beta, &state;
    std::int64_t size, heads, tokens, sequences, snapshots;
    float *outputs, *states;

    explicit DeltaNet(const Tensor& node)
        : q(*node.src[0]),
          k(*node.src[1]),
          v(*node.src[2]),
          gate(*node.src[3]),
          beta(*node.src[4]),
          state(*node.src[5]),
          size(v.ne[0]),
          heads(v.ne[1]),
          tokens(v.ne[2]),
          sequences(v.ne[3]),
          snapshots(unpack<ops::GatedDeltaNet::Params>(node).snapshots),
          outputs(static_cast<float*>(node.data)),
          states(outputs + size * heads * tokens * sequences) {}

    std::int64_t units() const { return heads * sequences; }

    /// The matrix of a head in snapshot `slot`; heads are counted through all sequences.
    float* snapshot(std::int64_t slot, std::int64_t unit) const {
        return states + (slot * units() + unit) * size * size;
    }

    /// The row of q or k that a head of v uses: heads repeat as a whole, sequences one by one.
    const float* row(const Tensor& x, std::int64_t head, std::int64_t token,
                     std::int64_t sequence) const {
        return at<const float>(x, 0, head % x.ne[1], token, sequence / (sequences / x.ne[3]));
    }

    /// Floats that a task needs for the decays of a token.
    std::size_t decays() const { return (static_cast<std::size_t>(size) + 15) / 16 * 16; }
};

}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// m *= decay; returns the sum of m k.
HWY_INLINE float decay_row(float* m, const float* decay, const float* k, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    auto sum = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        const auto value = hn::Mul(hn::LoadU(d, m + i), hn::LoadU(d, decay + i));
        hn::StoreU(value, d, m + i);
        sum = hn::MulAdd(value, hn::LoadU(d, k + i), sum);
    }
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < n; ++i) {
        m[i] *= decay[i];
        total += m[i] * k[i];
    }
    return total;
}

/// m += delta k; returns the sum of m q.
HWY_INLINE float update_row(float* m, float delta, const float* k, const float* q, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const auto factor = hn::Set(d, delta);
    auto sum = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        const auto value = hn::MulAdd(factor, hn::LoadU(d, k + i), hn::LoadU(d, m + i));
        hn::StoreU(value, d, m + i);
        sum = hn::MulAdd(value, hn::LoadU(d, q + i), sum);
    }
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < n; ++i) {
        m[i] += delta * k[i];
        total += m[i] * q[i];
    }
    return total;
}

/// One for each key; the same for all where there is one gate.
HWY_INLINE void exponentiate(const float* gates, std::int64_t gate_count, float* decay,
                             std::int64_t n) {
    if (gate_count == n) {
        map_floats(gates, decay, n, [](auto d, auto x) HWY_ATTR { return exp_of(d, x); });
        return;
    }
    const float factor = ::expf(gates[0]);
    for (std::int64_t i = 0; i < n; ++i) decay[i] = factor;
}

/// Works in snapshot 0, which is the state after the last token in the end. Rows of the matrix
/// belong to values, columns to keys; so each row goes its own way.
void run_head(const DeltaNet& net, std::int64_t unit, float* decay) {
    const std::int64_t head = unit % net.heads, sequence = unit / net.heads, n = net.size;
    const auto bytes = static_cast<std::size_t>(n * n) * sizeof(float);
    const float scale = 1.0f / ::sqrtf(static_cast<float>(n));
    float* matrix = net.snapshot(0, unit);
    std::memcpy(matrix, at(net.state, 0, 0, head, sequence), bytes);
    for (std::int64_t token = 0; token < net.tokens; ++token) {
        const float* q = net.row(net.q, head, token, sequence);
        const float* k = net.row(net.k, head, token, sequence);
        const float* v = at<const float>(net.v, 0, head, token, sequence);
        const float beta = *at<const float>(net.beta, 0, head, token, sequence);
        float* y = net.outputs + ((sequence * net.tokens + token) * net.heads + head) * n;
        exponentiate(at<const float>(net.gate, 0, head, token, sequence), net.gate.ne[0], decay, n);
        for (std::int64_t j = 0; j < n; ++j) {
            float* row = matrix + j * n;
            const float delta = beta * (v[j] - decay_row(row, decay, k, n));
            y[j] = scale * update_row(row, delta, k, q, n);
        }
        const std::int64_t slot = net.tokens - 1 - token;
        if (slot > 0 && slot < net.snapshots) std::memcpy(net.snapshot(slot, unit), matrix, bytes);
    }
}

}  // namespace

void run_delta_net(const DeltaNet& net, Range units, float* decay) {
    for (std::int64_t unit = units.begin; unit < units.end; ++unit) run_head(net, unit, decay);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/kernels/node_flops.hpp"

namespace heddle::cpu {
HWY_EXPORT(run_delta_net);
namespace {

std::string_view objection(const Tensor& node) { return all_f32(node, 6) ? "" : "only f32"; }

void run(const Tensor& node, const Task& task) {
    const DeltaNet net(node);
    // Slots for more tokens than there are stay as they are; a single slot always has the state.
    if (net.tokens == 0 && net.snapshots > 1) return;
    float* decay = reinterpret_cast<float*>(task.scratch) +
                   static_cast<std::size_t>(task.index) * net.decays();
    HWY_DYNAMIC_DISPATCH(run_delta_net)(net, task.share(net.units()), decay);
}

Demand demand(const Tensor& node, int threads) {
    const DeltaNet net(node);
    Demand demand = flops_demand<ops::GatedDeltaNet>(node, net.units(), threads);
    demand.scratch = static_cast<std::size_t>(demand.tasks) * net.decays() * sizeof(float);
    return demand;
}

}  // namespace

extern const Kernel kGatedDeltaNet{.name = "gated_delta_net_f32",
                                   .op = GGML_OP_GATED_DELTA_NET,
                                   .objection = objection,
                                   .run = run,
                                   .demand = demand};

}  // namespace heddle::cpu
#endif
