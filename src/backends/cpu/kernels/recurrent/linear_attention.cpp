#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/linear_attention.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <type_traits>

#include "backends/cpu/kernels/recurrent/decayed_states.hpp"
#include "backends/cpu/kernels/recurrent/matrix_states.hpp"
#include "ops/recurrent.hpp"

#ifndef HEDDLE_CPU_LINEAR_ATTENTION_ONCE
#define HEDDLE_CPU_LINEAR_ATTENTION_ONCE
namespace heddle::cpu {

/// Operands of both ops. Row i of the matrices belongs to key i, their columns to values.
struct LinearAttention {
    const float *k, *v;
    const float *q, *decay;
    const float* first;  ///< of WKV6 only
    float scale;
};

/// What a run of tokens does to a matrix.
struct KeyRun {
    std::int64_t tokens, size;
    // Copies with `size` for each token: the distance between tokens in memory is often such that
    // they drive each other out of the cache.
    float *v, *y;
    float *in, *out;              ///< factors of v in the matrix and of the matrix in y
    float own[kMostTokensOfRun];  ///< factors of v in y
    float* product;               ///< of all decays
    const float* from;
    float* to;

    KeyRun(std::int64_t keys, float* scratch)
        : size(keys),
          v(scratch),
          y(v + kMostTokensOfRun * size),
          in(y + kMostTokensOfRun * size),
          out(in + kMostTokensOfRun * size),
          product(out + kMostTokensOfRun * size) {}
};

inline RunMemory run_memory(const MatrixStates& states) { return {states.size, 4}; }

}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// The first tokens of those that are left: as many as a run takes.
template <bool kReadsOld>
void begin_run(const LinearAttention& x, std::int64_t head, std::int64_t offset, std::int64_t pitch,
               std::int64_t left, KeyRun& run) {
    const std::int64_t n = run.size;
    const std::int64_t most = left < kMostTokensOfRun ? left : kMostTokensOfRun;
    bool is_last = false;
    for (run.tokens = 0; !is_last; ++run.tokens) {
        const std::int64_t t = run.tokens, at = offset + t * pitch;
        std::memcpy(run.v + t * n, x.v + at, static_cast<std::size_t>(n) * sizeof(float));
        float* out = run.out + t * n;
        if (t + kMostTokensOfRun < left) {
            for (const float* next : {x.k, x.v, x.q, x.decay}) {
                fetch(next + at + kMostTokensOfRun * pitch, n);
            }
        }
        if constexpr (kReadsOld) {
            multiply_by_product(x.q + at, x.scale, t > 0 ? run.product : nullptr, out, n);
            run.own[t] = sum_of_products(x.q + at, x.k + at, x.first + head * n, n);
        }
        is_last = !extend_product(x.decay + at, t == 0, run.product, n) || t + 1 == most;
        divide_by_product(x.k + at, run.product, is_last, run.in + t * n, n);
        if constexpr (!kReadsOld) {
            multiply_by_product(x.q + at, x.scale, is_last ? nullptr : run.product, out, n);
        }
    }
}

/// All tokens of a run for some keys, from `key` on, and some values. The part of the matrix stays
/// in registers.
template <bool kReadsOld, int kKeys, int kWide, class D>
HWY_INLINE void run_tile(D d, const KeyRun& run, std::int64_t key, std::int64_t value) {
    using V = hn::Vec<D>;
    constexpr std::int64_t kLanes = hn::MaxLanes(D());
    const std::int64_t n = run.size;
    V matrix[kKeys][kWide];
    HWY_UNROLL(8)
    for (int i = 0; i < kKeys; ++i) {
        HWY_UNROLL(2)
        for (int j = 0; j < kWide; ++j) {
            matrix[i][j] = hn::LoadU(d, run.from + (key + i) * n + value + j * kLanes);
        }
    }
    const auto step = [&](std::int64_t t, auto is_last) HWY_ATTR {
        const float* in = run.in + t * n + key;
        const float* out = run.out + t * n + key;
        float* to = run.y + t * n + value;
        V v[kWide], y[kWide];
        HWY_UNROLL(2)
        for (int j = 0; j < kWide; ++j) {
            v[j] = hn::LoadU(d, run.v + t * n + value + j * kLanes);
            if (key > 0) {
                y[j] = hn::LoadU(d, to + j * kLanes);
            } else {
                y[j] = kReadsOld ? hn::Mul(v[j], hn::Set(d, run.own[t])) : hn::Zero(d);
            }
        }
        HWY_UNROLL(8)
        for (int i = 0; i < kKeys; ++i) {
            const V factor = hn::Set(d, in[i]), weight = hn::Set(d, out[i]);
            HWY_UNROLL(2)
            for (int j = 0; j < kWide; ++j) {
                V& m = matrix[i][j];
                if constexpr (kReadsOld) y[j] = hn::MulAdd(weight, m, y[j]);
                if constexpr (is_last) m = hn::Mul(m, hn::Set(d, run.product[key + i]));
                m = hn::MulAdd(factor, v[j], m);
                if constexpr (!kReadsOld) y[j] = hn::MulAdd(weight, m, y[j]);
            }
        }
        HWY_UNROLL(2)
        for (int j = 0; j < kWide; ++j) hn::StoreU(y[j], d, to + j * kLanes);
    };
    for (std::int64_t t = 0; t + 1 < run.tokens; ++t) step(t, std::false_type());
    step(run.tokens - 1, std::true_type());
    HWY_UNROLL(8)
    for (int i = 0; i < kKeys; ++i) {
        HWY_UNROLL(2)
        for (int j = 0; j < kWide; ++j) {
            hn::StoreU(matrix[i][j], d, run.to + (key + i) * n + value + j * kLanes);
        }
    }
}

template <bool kReadsOld, int kWide, class D>
HWY_INLINE void run_columns(D d, const KeyRun& run, std::int64_t value) {
    constexpr int kKeys = kStateVectors / 2;
    std::int64_t key = 0;
    for (; key + kKeys <= run.size; key += kKeys) {
        run_tile<kReadsOld, kKeys, kWide>(d, run, key, value);
    }
    for (; key < run.size; ++key) run_tile<kReadsOld, 1, kWide>(d, run, key, value);
}

template <bool kReadsOld>
void run_head(const LinearAttention& x, const MatrixStates& states, const HeadTokens& head,
              float* scratch) {
    const std::int64_t n = states.size;
    KeyRun run(n, scratch);
    run.from = head.initial;
    run.to = head.matrix;
    for (std::int64_t token = 0; token < head.tokens; token += run.tokens) {
        const std::int64_t offset = head.offset + token * states.pitch();
        begin_run<kReadsOld>(x, head.head, offset, states.pitch(), head.tokens - token, run);
        std::int64_t value = 0;
        for (; value + 2 * kStateLanes <= n; value += 2 * kStateLanes) {
            run_columns<kReadsOld, 2>(StateLanes(), run, value);
        }
        for (; value + kStateLanes <= n; value += kStateLanes) {
            run_columns<kReadsOld, 1>(StateLanes(), run, value);
        }
        for (; value < n; ++value) run_columns<kReadsOld, 1>(OneLane(), run, value);
        for (std::int64_t t = 0; t < run.tokens; ++t) {
            std::memcpy(states.outputs + offset + t * states.pitch(), run.y + t * n,
                        static_cast<std::size_t>(n) * sizeof(float));
        }
        run.from = run.to;
    }
}

}  // namespace

/// `kReadsOld`: y is what the matrix gives before the token changes it.
template <bool kReadsOld>
void attend(const LinearAttention& x, const MatrixStates& states, const Task& task) {
    float* scratch = run_memory(states).of(task);
    states.for_heads(task.share(states.units()), [&](const HeadTokens& head) HWY_ATTR {
        run_head<kReadsOld>(x, states, head, scratch);
    });
}

void wkv6(const LinearAttention& x, const MatrixStates& states, const Task& task) {
    attend<true>(x, states, task);
}

void gated_linear_attn(const LinearAttention& x, const MatrixStates& states, const Task& task) {
    attend<false>(x, states, task);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/kernels/node_flops.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
HWY_EXPORT(wkv6);
HWY_EXPORT(gated_linear_attn);
namespace {

template <Descriptor D>
Demand demand(const Tensor& node, const MatrixStates& states, int threads) {
    return run_memory(states).demand(flops_demand<D>(node, states.units(), threads));
}

std::string_view wkv6_objection(const Tensor& node) {
    if (!all_f32(node, 6)) return "only f32";
    const Tensor& k = *node.src[0];
    if (element_count(*node.src[3]) < k.ne[0] * k.ne[1])
        return "tf has fewer values than there are keys";
    return MatrixStates(node, k, *node.src[5]).objection();
}

void run_wkv6(const Tensor& node, const Task& task) {
    const LinearAttention x{.k = floats(node, 0),
                            .v = floats(node, 1),
                            .q = floats(node, 2),
                            .decay = floats(node, 4),
                            .first = floats(node, 3),
                            .scale = 1};
    HWY_DYNAMIC_DISPATCH(wkv6)(x, MatrixStates(node, *node.src[0], *node.src[5]), task);
}

Demand wkv6_demand(const Tensor& node, int threads) {
    return demand<ops::RwkvWkv6>(node, MatrixStates(node, *node.src[0], *node.src[5]), threads);
}

std::string_view gated_objection(const Tensor& node) {
    if (!all_f32(node, 5)) return "only f32";
    return MatrixStates(node, *node.src[0], *node.src[4]).objection();
}

void run_gated(const Tensor& node, const Task& task) {
    const LinearAttention x{.k = floats(node, 0),
                            .v = floats(node, 1),
                            .q = floats(node, 2),
                            .decay = floats(node, 3),
                            .first = nullptr,
                            .scale = unpack<ops::GatedLinearAttn::Params>(node).scale};
    HWY_DYNAMIC_DISPATCH(gated_linear_attn)
    (x, MatrixStates(node, *node.src[0], *node.src[4]), task);
}

Demand gated_demand(const Tensor& node, int threads) {
    return demand<ops::GatedLinearAttn>(node, MatrixStates(node, *node.src[0], *node.src[4]),
                                        threads);
}

}  // namespace

extern const Kernel kRwkvWkv6{.name = "rwkv_wkv6_f32",
                              .op = GGML_OP_RWKV_WKV6,
                              .objection = wkv6_objection,
                              .run = run_wkv6,
                              .demand = wkv6_demand};

extern const Kernel kGatedLinearAttn{.name = "gated_linear_attn_f32",
                                     .op = GGML_OP_GATED_LINEAR_ATTN,
                                     .objection = gated_objection,
                                     .run = run_gated,
                                     .demand = gated_demand};

}  // namespace heddle::cpu
#endif
