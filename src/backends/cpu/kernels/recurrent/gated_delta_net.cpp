#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/gated_delta_net.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/recurrent/delta_rows.hpp"
#include "backends/cpu/kernels/recurrent/operands.hpp"
#include "ops/recurrent.hpp"

#ifndef HEDDLE_CPU_GATED_DELTA_NET_ONCE
#define HEDDLE_CPU_GATED_DELTA_NET_ONCE
namespace heddle::cpu {

/// The operands of a node, and where its results go.
struct DeltaNet {
    const Tensor &q, &k, &v, &gate, &beta, &state;
    std::int64_t size, heads, tokens, sequences, snapshots;
    float* outputs;  // null while the plan is made

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
          outputs(static_cast<float*>(node.data)) {}

    std::int64_t units() const { return heads * sequences; }

    /// The matrix of a head in snapshot `slot`; heads are counted through all sequences.
    float* snapshot(std::int64_t slot, std::int64_t unit) const {
        float* states = outputs + size * heads * tokens * sequences;
        return states + (slot * units() + unit) * size * size;
    }

    /// The row of q or k that a head of v uses: heads repeat as a whole, sequences one by one.
    const float* row(const Tensor& x, std::int64_t head, std::int64_t token,
                     std::int64_t sequence) const {
        return at<const float>(x, 0, head % x.ne[1], token, sequence / (sequences / x.ne[3]));
    }

    /// Most tokens of a run from `token` on: it ends where a snapshot is taken.
    std::int64_t longest_run(std::int64_t token) const {
        return longest_run_between_snapshots(token, tokens, snapshots);
    }

    RunMemory run_memory() const { return {size, 3}; }
};

}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

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

/// Works in snapshot 0, which is the state after the last token in the end.
void run_head(const DeltaNet& net, std::int64_t unit, float* scratch) {
    const std::int64_t head = unit % net.heads, sequence = unit / net.heads, n = net.size;
    const auto bytes = static_cast<std::size_t>(n * n) * sizeof(float);
    const float scale = 1.0f / ::sqrtf(static_cast<float>(n));
    const float* from = at<const float>(net.state, 0, 0, head, sequence);
    float* matrix = net.snapshot(0, unit);
    if (net.tokens == 0) std::memcpy(matrix, from, bytes);
    for (std::int64_t token = 0, count; token < net.tokens; token += count) {
        const std::int64_t most = net.longest_run(token);
        DeltaToken run[kMostTokensOfRun];
        float *product = scratch, *decay = product + n, *factors = decay + n;
        bool is_last = false;
        for (count = 0; !is_last; ++count, factors += 3 * n) {
            const std::int64_t t = token + count;
            const float* q = net.row(net.q, head, t, sequence);
            const float* k = net.row(net.k, head, t, sequence);
            if (t + kMostTokensOfRun < net.tokens) {
                fetch(net.row(net.q, head, t + kMostTokensOfRun, sequence), n);
                fetch(net.row(net.k, head, t + kMostTokensOfRun, sequence), n);
                fetch(at<const float>(net.v, 0, head, t + kMostTokensOfRun, sequence), n);
            }
            float *ask = factors, *bring = ask + n, *read = bring + n;
            exponentiate(at<const float>(net.gate, 0, head, t, sequence), net.gate.ne[0], decay, n);
            is_last = !extend_product(decay, count == 0, product, n) || count + 1 == most;
            multiply_by_product(k, 1, product, ask, n);
            divide_by_product(k, product, is_last, bring, n);
            multiply_by_product(q, scale, is_last ? nullptr : product, read, n);
            run[count] = {.ask = ask,
                          .bring = bring,
                          .read = read,
                          .brings_value = nullptr,
                          .product = product,
                          .rate = *at<const float>(net.beta, 0, head, t, sequence),
                          .v = at<const float>(net.v, 0, head, t, sequence),
                          .y = net.outputs + ((sequence * net.tokens + t) * net.heads + head) * n};
        }
        run_rows<false>(run, count, from, matrix, n);
        from = matrix;
        const std::int64_t slot = net.tokens - token - count;
        if (slot > 0 && slot < net.snapshots) std::memcpy(net.snapshot(slot, unit), matrix, bytes);
    }
}

}  // namespace

void run_delta_net(const DeltaNet& net, Range units, float* scratch) {
    for (std::int64_t unit = units.begin; unit < units.end; ++unit) run_head(net, unit, scratch);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/kernels/node_flops.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
HWY_EXPORT(run_delta_net);
namespace {

std::string_view objection(const Tensor& node) { return all_f32(node, 6) ? "" : "only f32"; }

void run(const Tensor& node, const Task& task) {
    const DeltaNet net(node);
    // Slots for more tokens than there are stay as they are; a single slot always has the state.
    if (net.tokens == 0 && net.snapshots > 1) return;
    HWY_DYNAMIC_DISPATCH(run_delta_net)
    (net, task.share(net.units()), net.run_memory().of(task));
}

Demand demand(const Tensor& node, int threads) {
    const DeltaNet net(node);
    return net.run_memory().demand(flops_demand<ops::GatedDeltaNet>(node, net.units(), threads));
}

}  // namespace

extern const Kernel kGatedDeltaNet{.name = "gated_delta_net_f32",
                                   .op = GGML_OP_GATED_DELTA_NET,
                                   .objection = objection,
                                   .run = run,
                                   .demand = demand};

}  // namespace heddle::cpu
#endif
