#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/ssm_scan.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/recurrent/operands.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "ops/state_space.hpp"

#ifndef HEDDLE_CPU_SSM_SCAN_ONCE
#define HEDDLE_CPU_SSM_SCAN_ONCE
namespace heddle::cpu {

/// The operands of a scan, and where its results go.
struct SsmScan {
    const Tensor &s, &x, &dt, &a, &b, &c, &ids;
    std::int64_t state, dims, heads, tokens, sequences;
    std::int64_t snapshots, heads_per_group;
    float *outputs, *states;

    explicit SsmScan(const Tensor& node)
        : s(*node.src[0]),
          x(*node.src[1]),
          dt(*node.src[2]),
          a(*node.src[3]),
          b(*node.src[4]),
          c(*node.src[5]),
          ids(*node.src[6]),
          state(s.ne[0]),
          dims(x.ne[0]),
          heads(x.ne[1]),
          tokens(x.ne[2]),
          sequences(x.ne[3]),
          snapshots(unpack<ops::SsmScan::Params>(node).snapshots),
          heads_per_group(b.ne[1] > 0 ? heads / b.ne[1] : 0),
          outputs(static_cast<float*>(node.data)),
          states(outputs + element_count(x)) {}

    std::int64_t head_size() const { return state * dims; }

    /// The state of a head in snapshot `slot`.
    float* snapshot(std::int64_t slot, std::int64_t head, std::int64_t sequence) const {
        return states + ((slot * sequences + sequence) * heads + head) * head_size();
    }
    float* output(std::int64_t head, std::int64_t token, std::int64_t sequence) const {
        return outputs + ((sequence * tokens + token) * heads + head) * dims;
    }
};

}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// ln(1 + e^z); beyond 20 the difference to z is lost.
HWY_INLINE float softplus(float z) { return z > 20.0f ? z : ::log1pf(::expf(z)); }

/// One decay for all elements of the state.
struct OneDecay {
    float factor;

    OneDecay(const float* a, float delta) : factor(::expf(delta * a[0])) {}

    template <class D>
    HWY_INLINE hn::Vec<D> lanes(D d, std::int64_t) const {
        return hn::Set(d, factor);
    }
    HWY_INLINE float one(std::int64_t) const { return factor; }
};

/// Each element of the state has its own.
struct EachDecay {
    const float* a;
    float delta;

    EachDecay(const float* rates, float step) : a(rates), delta(step) {}

    template <class D>
    HWY_INLINE hn::Vec<D> lanes(D d, std::int64_t i) const {
        return exp_of(d, hn::Mul(hn::LoadU(d, a + i), hn::Set(d, delta)));
    }
    HWY_INLINE float one(std::int64_t i) const { return ::expf(delta * a[i]); }
};

/// s = s * decay + b * xd; returns the sum of s * c.
template <class Decay>
HWY_INLINE float step_state(float* s, const Decay& decay, const float* b, const float* c, float xd,
                            std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const auto factor = hn::Set(d, xd);
    auto sum = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        const auto input = hn::Mul(hn::LoadU(d, b + i), factor);
        const auto value = hn::MulAdd(hn::LoadU(d, s + i), decay.lanes(d, i), input);
        hn::StoreU(value, d, s + i);
        sum = hn::MulAdd(value, hn::LoadU(d, c + i), sum);
    }
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < n; ++i) {
        s[i] = s[i] * decay.one(i) + b[i] * xd;
        total += s[i] * c[i];
    }
    return total;
}

/// Works in snapshot 0, which is the state after the last token in the end.
template <class Decay>
void scan_head(const SsmScan& scan, std::int64_t head, std::int64_t sequence) {
    const std::int64_t group = head / scan.heads_per_group;
    const std::int64_t row = *at<const std::int32_t>(scan.ids, sequence);
    const auto bytes = static_cast<std::size_t>(scan.head_size()) * sizeof(float);
    float* state = scan.snapshot(0, head, sequence);
    std::memcpy(state, at(scan.s, 0, 0, head, row), bytes);
    const float* rates = at<const float>(scan.a, 0, head);
    for (std::int64_t token = 0; token < scan.tokens; ++token) {
        const float delta = softplus(*at<const float>(scan.dt, head, token, sequence));
        const Decay decay(rates, delta);
        const float* x = at<const float>(scan.x, 0, head, token, sequence);
        const float* b = at<const float>(scan.b, 0, group, token, sequence);
        const float* c = at<const float>(scan.c, 0, group, token, sequence);
        float* y = scan.output(head, token, sequence);
        for (std::int64_t i = 0; i < scan.dims; ++i) {
            y[i] = step_state(state + i * scan.state, decay, b, c, x[i] * delta, scan.state);
        }
        const std::int64_t slot = scan.tokens - 1 - token;
        if (slot > 0 && slot < scan.snapshots) {
            std::memcpy(scan.snapshot(slot, head, sequence), state, bytes);
        }
    }
}

}  // namespace

void scan_states(const SsmScan& scan, Range units) {
    for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
        if (scan.a.ne[0] == 1) {
            scan_head<OneDecay>(scan, unit % scan.heads, unit / scan.heads);
        } else {
            scan_head<EachDecay>(scan, unit % scan.heads, unit / scan.heads);
        }
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/kernels/node_flops.hpp"

namespace heddle::cpu {
HWY_EXPORT(scan_states);
namespace {

std::string_view objection(const Tensor& node) {
    if (!all_f32(node, 6)) return "only f32";
    const SsmScan scan(node);
    if (scan.ids.type != GGML_TYPE_I32) return "ids are not i32";
    if (scan.heads_per_group * scan.b.ne[1] != scan.heads) {
        return "heads do not divide into the groups of B and C";
    }
    if (scan.a.ne[0] != 1 && scan.snapshots != 1) {
        return "several snapshots of states with a decay for each element";
    }
    return {};
}

void run(const Tensor& node, const Task& task) {
    const SsmScan scan(node);
    if (scan.tokens == 0) return;
    for (std::int64_t i = 0; i < scan.sequences; ++i) {
        const std::int32_t row = *at<const std::int32_t>(scan.ids, i);
        if (row >= 0 && row < scan.s.ne[3]) continue;
        return task.fail([&] {
            return text("ssm_scan: sequence ", i, " starts from state ", row, " of ",
                        describe(scan.s));
        });
    }
    HWY_DYNAMIC_DISPATCH(scan_states)(scan, task.share(scan.heads * scan.sequences));
}

Demand demand(const Tensor& node, int threads) {
    const SsmScan scan(node);
    return flops_demand<ops::SsmScan>(node, scan.heads * scan.sequences, threads);
}

}  // namespace

extern const Kernel kSsmScan{.name = "ssm_scan_f32",
                             .op = GGML_OP_SSM_SCAN,
                             .objection = objection,
                             .run = run,
                             .demand = demand};

}  // namespace heddle::cpu
#endif
