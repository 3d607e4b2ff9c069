#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/linear_attention.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/recurrent/matrix_states.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "ops/recurrent.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Row i of the matrices belongs to key i, their columns to values. What is done to one row:
struct Wkv6Row {
    float k, r, first, decay;

    /// y += r (first k v + m), then m = decay m + k v.
    template <class D, class V>
    HWY_INLINE void step(D d, V v, V& m, V& y) const {
        const V kv = hn::Mul(hn::Set(d, k), v);
        y = hn::MulAdd(hn::Set(d, r), hn::MulAdd(hn::Set(d, first), kv, m), y);
        m = hn::MulAdd(m, hn::Set(d, decay), kv);
    }
};

struct GatedRow {
    float k, q, gate;

    /// m = gate m + k v, then y += q m.
    template <class D, class V>
    HWY_INLINE void step(D d, V v, V& m, V& y) const {
        m = hn::MulAdd(m, hn::Set(d, gate), hn::Mul(hn::Set(d, k), v));
        y = hn::MulAdd(hn::Set(d, q), m, y);
    }
};

template <class D, class RowStep>
HWY_INLINE void step_lanes(D d, const RowStep& row, const float* v, float* m, float* y) {
    auto matrix = hn::LoadU(d, m), output = hn::LoadU(d, y);
    row.step(d, hn::LoadU(d, v), matrix, output);
    hn::StoreU(matrix, d, m);
    hn::StoreU(output, d, y);
}

template <class RowStep>
HWY_INLINE void step_row(const RowStep& row, const float* v, float* m, float* y, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) step_lanes(d, row, v + i, m + i, y + i);
    for (; i < n; ++i) step_lanes(hn::CappedTag<float, 1>(), row, v + i, m + i, y + i);
}

const float* floats(const Tensor& t) { return static_cast<const float*>(t.data); }

}  // namespace

void wkv6(const Tensor& node, const Task& task) {
    const MatrixStates states(node, *node.src[0], *node.src[5]);
    const float *all_k = floats(*node.src[0]), *all_v = floats(*node.src[1]),
                *all_r = floats(*node.src[2]), *all_first = floats(*node.src[3]),
                *all_decay = floats(*node.src[4]);
    const std::int64_t n = states.size;
    states.for_tokens(task.share(states.units()), [&](std::int64_t head, std::int64_t offset,
                                                      float* y, float* matrix) HWY_ATTR {
        const float *k = all_k + offset, *r = all_r + offset, *decay = all_decay + offset;
        const float* first = all_first + head * n;
        for (std::int64_t i = 0; i < n; ++i) y[i] = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            const Wkv6Row row{k[i], r[i], first[i], decay[i]};
            step_row(row, all_v + offset, matrix + i * n, y, n);
        }
    });
}

void gated_linear_attn(const Tensor& node, const Task& task) {
    const float scale = unpack<ops::GatedLinearAttn::Params>(node).scale;
    const MatrixStates states(node, *node.src[0], *node.src[4]);
    const float *all_k = floats(*node.src[0]), *all_v = floats(*node.src[1]),
                *all_q = floats(*node.src[2]), *all_gates = floats(*node.src[3]);
    const std::int64_t n = states.size;
    states.for_tokens(task.share(states.units()), [&](std::int64_t, std::int64_t offset, float* y,
                                                      float* matrix) HWY_ATTR {
        const float *k = all_k + offset, *q = all_q + offset, *gate = all_gates + offset;
        for (std::int64_t i = 0; i < n; ++i) y[i] = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            const GatedRow row{k[i], q[i] * scale, gate[i]};
            step_row(row, all_v + offset, matrix + i * n, y, n);
        }
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/kernels/node_flops.hpp"

namespace heddle::cpu {
HWY_EXPORT(wkv6);
HWY_EXPORT(gated_linear_attn);
namespace {

std::string_view wkv6_objection(const Tensor& node) {
    if (!all_f32(node, 6)) return "only f32";
    const Tensor& k = *node.src[0];
    if (element_count(*node.src[3]) < k.ne[0] * k.ne[1]) return "tf has not a value for each key";
    return MatrixStates(node, k, *node.src[5]).objection();
}

void run_wkv6(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(wkv6)(node, task); }

Demand wkv6_demand(const Tensor& node, int threads) {
    const MatrixStates states(node, *node.src[0], *node.src[5]);
    return flops_demand<ops::RwkvWkv6>(node, states.units(), threads);
}

std::string_view gated_objection(const Tensor& node) {
    if (!all_f32(node, 5)) return "only f32";
    return MatrixStates(node, *node.src[0], *node.src[4]).objection();
}

void run_gated(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(gated_linear_attn)(node, task);
}

Demand gated_demand(const Tensor& node, int threads) {
    const MatrixStates states(node, *node.src[0], *node.src[4]);
    return flops_demand<ops::GatedLinearAttn>(node, states.units(), threads);
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
