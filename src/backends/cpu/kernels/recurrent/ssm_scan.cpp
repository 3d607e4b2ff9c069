#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/ssm_scan.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/lanes_log.hpp"
#include "backends/cpu/kernels/recurrent/decayed_states.hpp"
#include "backends/cpu/kernels/recurrent/operands.hpp"
#include "ops/state_space.hpp"

#ifndef HEDDLE_CPU_SSM_SCAN_ONCE
#define HEDDLE_CPU_SSM_SCAN_ONCE
namespace heddle::cpu {

/// The operands of a scan, and where its results go.
struct SsmScan {
    const Tensor &s, &x, &dt, &a, &b, &c, &ids;
    std::int64_t state, dims, heads, tokens, sequences;
    std::int64_t snapshots, heads_per_group;
    float* outputs;  // null while the plan is made

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
          outputs(static_cast<float*>(node.data)) {}

    std::int64_t head_size() const { return state * dims; }

    /// Most tokens of a run from `token` on: it ends where a snapshot is taken.
    std::int64_t longest_run(std::int64_t token) const {
        return longest_run_between_snapshots(token, tokens, snapshots);
    }
    RunMemory run_memory() const { return {dims, 2}; }

    /// The state of a head before the first token.
    const float* initial(std::int64_t head, std::int64_t sequence) const {
        return at<const float>(s, 0, 0, head, *at<const std::int32_t>(ids, sequence));
    }
    /// The state of a head in snapshot `slot`.
    float* snapshot(std::int64_t slot, std::int64_t head, std::int64_t sequence) const {
        float* states = outputs + element_count(x);
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

// ---- a decay for each element ------------------------------------------------------------------

/// A run of tokens for rows of the states, as many at a time as L1 holds. Models have
/// one row for each head.
struct RowsRun {
    static constexpr std::int64_t kMostRows = 16;

    std::int64_t tokens, rows, state;
    const float *b[kMostTokensOfRun], *c[kMostTokensOfRun];
    float delta[kMostTokensOfRun][kMostRows], x[kMostTokensOfRun][kMostRows],
        y[kMostTokensOfRun][kMostRows];
    std::int64_t head[kMostRows];
    const float* rates[kMostRows];
    const float* from;
    float* to;
};

/// All tokens of a run for `kRows` rows, from element `first` on.
template <int kRows, class D>
HWY_INLINE void run_own_decays(D d, RowsRun& run, std::int64_t row, std::int64_t first) {
    using V = hn::Vec<D>;
    const ExpConstants constants = ExpConstants::held();
    V state[kRows], rates[kRows], sum[kRows];
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
        state[r] = hn::LoadU(d, run.from + (row + r) * run.state + first);
        rates[r] = hn::LoadU(d, run.rates[row + r] + first);
    }
    for (std::int64_t t = 0; t < run.tokens; ++t) {
        const V b = hn::LoadU(d, run.b[t] + first), c = hn::LoadU(d, run.c[t] + first);
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) {
            const V exponent = hn::Mul(rates[r], hn::Set(d, run.delta[t][row + r]));
            const V input = hn::Mul(b, hn::Set(d, run.x[t][row + r]));
            state[r] = hn::MulAdd(state[r], exp_of(d, exponent, constants), input);
            sum[r] = hn::Mul(state[r], c);
        }
        float part[kRows];
        add_lanes(d, sum, part);
        float* y = run.y[t] + row;
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) y[r] = first == 0 ? part[r] : y[r] + part[r];
    }
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
        hn::StoreU(state[r], d, run.to + (row + r) * run.state + first);
    }
}

template <int kRows>
HWY_INLINE void run_own_decays(RowsRun& run, std::int64_t row) {
    for_lanes(run.state, [&](auto d, std::int64_t first)
                             HWY_ATTR { run_own_decays<kRows>(d, run, row, first); });
}

/// The tokens of a run for the rows of a group from `row` on.
void begin_run(const SsmScan& scan, std::int64_t row, std::int64_t sequence, std::int64_t token,
               RowsRun& run) {
    const std::int64_t group = run.head[0] / scan.heads_per_group;
    run.tokens = scan.longest_run(token);
    const SoftplusConstants constants = SoftplusConstants::held();
    for (std::int64_t t = 0; t < run.tokens; ++t) {
        run.b[t] = at<const float>(scan.b, 0, group, token + t, sequence);
        run.c[t] = at<const float>(scan.c, 0, group, token + t, sequence);
        const float* steps = at<const float>(scan.dt, 0, token + t, sequence);
        const float* x = at<const float>(scan.x, 0, 0, token + t, sequence) + row;
        float* delta = run.delta[t];
        for (std::int64_t r = 0; r < run.rows; ++r) delta[r] = steps[run.head[r]];
        map_floats(delta, delta, run.rows,
                   [&](auto d, auto z) HWY_ATTR { return softplus_of(d, z, constants); });
        for (std::int64_t r = 0; r < run.rows; ++r) run.x[t][r] = x[r] * delta[r];
    }
}

/// Rows of one group, counted through all heads of the sequence.
void scan_own_decays(const SsmScan& scan, Range rows, std::int64_t sequence) {
    RowsRun run;
    run.state = scan.state;
    for (std::int64_t row = rows.begin; row < rows.end; row += run.rows) {
        const std::int64_t left = rows.end - row;
        run.rows = left < RowsRun::kMostRows ? left : RowsRun::kMostRows;
        run.from = scan.initial(0, sequence) + row * run.state;
        run.to = scan.snapshot(0, 0, sequence) + row * run.state;
        for (std::int64_t r = 0; r < run.rows; ++r) {
            run.head[r] = (row + r) / scan.dims;
            run.rates[r] = at<const float>(scan.a, 0, run.head[r]);
        }
        for (std::int64_t token = 0; token < scan.tokens; token += run.tokens) {
            begin_run(scan, row, sequence, token, run);
            std::int64_t r = 0;
            for (; r + 4 <= run.rows; r += 4) run_own_decays<4>(run, r);
            for (; r < run.rows; ++r) run_own_decays<1>(run, r);
            for (std::int64_t t = 0; t < run.tokens; ++t) {
                std::memcpy(scan.output(0, token + t, sequence) + row, run.y[t],
                            static_cast<std::size_t>(run.rows) * sizeof(float));
            }
            run.from = run.to;
        }
    }
}

// ---- one decay for all elements of a head ------------------------------------------------------

/// What a run of tokens does to the states of a head.
struct ScanRun {
    std::int64_t tokens, dims, state;
    const float *b[kMostTokensOfRun], *c[kMostTokensOfRun];
    float *x, *y;                   ///< `dims` for each token
    float scale[kMostTokensOfRun];  ///< of y
    float product;
    const float* from;
    float* to;
};

/// The first tokens from `token` on: as many as a run takes.
void begin_run(const SsmScan& scan, std::int64_t head, std::int64_t sequence, std::int64_t token,
               ScanRun& run) {
    const std::int64_t group = head / scan.heads_per_group, most = scan.longest_run(token);
    const float rate = *at<const float>(scan.a, 0, head);
    bool is_last = false;
    for (run.tokens = 0; !is_last; ++run.tokens) {
        const std::int64_t i = run.tokens, t = token + i;
        const float delta = softplus(*at<const float>(scan.dt, head, t, sequence));
        const float decay = ::expf(delta * rate);
        is_last = !extend_product(&decay, i == 0, &run.product, 1) || i + 1 == most;
        run.scale[i] = is_last ? 1 : run.product;
        run.b[i] = at<const float>(scan.b, 0, group, t, sequence);
        run.c[i] = at<const float>(scan.c, 0, group, t, sequence);
        const float* x = at<const float>(scan.x, 0, head, t, sequence);
        if (t + kMostTokensOfRun < scan.tokens) {
            fetch(at<const float>(scan.x, 0, head, t + kMostTokensOfRun, sequence), run.dims);
        }
        multiply_by_product(x, delta / run.scale[i], nullptr, run.x + i * run.dims, run.dims);
    }
}

/// All tokens of a run for some rows of the state, which stay in registers, from element `first`
/// on.
template <int kRows, int kWide, class D>
HWY_INLINE void run_tile(D d, const ScanRun& run, std::int64_t row, std::int64_t first) {
    using V = hn::Vec<D>;
    constexpr std::int64_t kLanes = hn::MaxLanes(D());
    V state[kRows][kWide];
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL(4)
        for (int j = 0; j < kWide; ++j) {
            state[r][j] = hn::LoadU(d, run.from + (row + r) * run.state + first + j * kLanes);
        }
    }
    for (std::int64_t t = 0; t < run.tokens; ++t) {
        if (t + 1 == run.tokens) {
            HWY_UNROLL(4)
            for (int r = 0; r < kRows; ++r) {
                HWY_UNROLL(4)
                for (int j = 0; j < kWide; ++j) {
                    state[r][j] = hn::Mul(state[r][j], hn::Set(d, run.product));
                }
            }
        }
        const float *b = run.b[t] + first, *c = run.c[t] + first;
        const float* x = run.x + t * run.dims + row;
        V sum[kRows];
        HWY_UNROLL(4)
        for (int j = 0; j < kWide; ++j) {
            const V in = hn::LoadU(d, b + j * kLanes), out = hn::LoadU(d, c + j * kLanes);
            HWY_UNROLL(4)
            for (int r = 0; r < kRows; ++r) {
                V& s = state[r][j];
                s = hn::MulAdd(hn::Set(d, x[r]), in, s);
                sum[r] = j == 0 ? hn::Mul(s, out) : hn::MulAdd(s, out, sum[r]);
            }
        }
        float part[kRows];
        add_lanes(d, sum, part);
        float* y = run.y + t * run.dims + row;
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) y[r] = first == 0 ? part[r] : y[r] + part[r];
    }
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL(4)
        for (int j = 0; j < kWide; ++j) {
            hn::StoreU(state[r][j], d, run.to + (row + r) * run.state + first + j * kLanes);
        }
    }
}

template <int kRows>
HWY_INLINE void run_rows(const ScanRun& run, std::int64_t row) {
    constexpr int kWide = kStateVectors / 4;
    std::int64_t i = 0;
    for (; i + kWide * kStateLanes <= run.state; i += kWide * kStateLanes) {
        run_tile<kRows, kWide>(StateLanes(), run, row, i);
    }
    for (; i + kStateLanes <= run.state; i += kStateLanes) {
        run_tile<kRows, 1>(StateLanes(), run, row, i);
    }
    for (; i < run.state; ++i) run_tile<kRows, 1>(OneLane(), run, row, i);
}

void scan_one_decay(const SsmScan& scan, std::int64_t head, std::int64_t sequence, float* scratch) {
    ScanRun run;
    run.dims = scan.dims;
    run.state = scan.state;
    run.x = scratch;
    run.y = run.x + kMostTokensOfRun * run.dims;
    run.from = scan.initial(head, sequence);
    run.to = scan.snapshot(0, head, sequence);
    for (std::int64_t token = 0; token < scan.tokens; token += run.tokens) {
        begin_run(scan, head, sequence, token, run);
        std::int64_t row = 0;
        for (; row + 4 <= run.dims; row += 4) run_rows<4>(run, row);
        for (; row < run.dims; ++row) run_rows<1>(run, row);
        for (std::int64_t t = 0; t < run.tokens; ++t) {
            multiply_by_product(run.y + t * run.dims, run.scale[t], nullptr,
                                scan.output(head, token + t, sequence), run.dims);
        }
        run.from = run.to;
        const std::int64_t slot = scan.tokens - token - run.tokens;
        if (slot > 0 && slot < scan.snapshots) {
            std::memcpy(scan.snapshot(slot, head, sequence), run.to,
                        static_cast<std::size_t>(scan.head_size()) * sizeof(float));
        }
    }
}

}  // namespace

void scan_states(const SsmScan& scan, Range units, float* scratch) {
    for (std::int64_t unit = units.begin, next; unit < units.end; unit = next) {
        const std::int64_t head = unit % scan.heads, sequence = unit / scan.heads;
        if (scan.a.ne[0] == 1) {
            scan_one_decay(scan, head, sequence, scratch);
            next = unit + 1;
        } else {
            const std::int64_t group_end =
                unit + scan.heads_per_group - head % scan.heads_per_group;
            next = group_end < units.end ? group_end : units.end;
            scan_own_decays(scan, {head * scan.dims, (head + next - unit) * scan.dims}, sequence);
        }
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/kernels/node_flops.hpp"
#include "ggml/op_list.h"

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
    HWY_DYNAMIC_DISPATCH(scan_states)
    (scan, task.share(scan.heads * scan.sequences), scan.run_memory().of(task));
}

Demand demand(const Tensor& node, int threads) {
    const SsmScan scan(node);
    return scan.run_memory().demand(
        flops_demand<ops::SsmScan>(node, scan.heads * scan.sequences, threads));
}

}  // namespace

extern const Kernel kSsmScan{.name = "ssm_scan_f32",
                             .op = GGML_OP_SSM_SCAN,
                             .objection = objection,
                             .run = run,
                             .demand = demand};

}  // namespace heddle::cpu
#endif
