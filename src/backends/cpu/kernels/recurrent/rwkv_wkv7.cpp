#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/rwkv_wkv7.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/recurrent/matrix_states.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "ops/recurrent.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// What a token brings to every row of the matrix: a value for each key.
struct Wkv7Token {
    const float *r, *w, *k, *b;
};

template <class D, class V>
HWY_INLINE V step_lanes(D d, const Wkv7Token& token, std::int64_t i, V v, V sa, float* m) {
    const V inflow =
        hn::MulAdd(v, hn::LoadU(d, token.k + i), hn::Mul(sa, hn::LoadU(d, token.b + i)));
    const V value = hn::MulAdd(hn::LoadU(d, m + i), hn::LoadU(d, token.w + i), inflow);
    hn::StoreU(value, d, m + i);
    return hn::Mul(value, hn::LoadU(d, token.r + i));
}

/// m = w m + v k + sa b; returns the sum of m r.
HWY_INLINE float step_row(const Wkv7Token& token, float v, float sa, float* m, std::int64_t n) {
    const Floats d;
    const hn::CappedTag<float, 1> one;
    const std::int64_t step = lane_count(d);
    auto sum = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        sum = hn::Add(sum, step_lanes(d, token, i, hn::Set(d, v), hn::Set(d, sa), m));
    }
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < n; ++i) {
        total += hn::GetLane(step_lanes(one, token, i, hn::Set(one, v), hn::Set(one, sa), m));
    }
    return total;
}

const float* floats(const Tensor& t) { return static_cast<const float*>(t.data); }

}  // namespace

/// Row i of the matrices belongs to value i, their columns to keys.
void wkv7(const Tensor& node, const Task& task) {
    const MatrixStates states(node, *node.src[2], *node.src[6]);
    const float *r = floats(*node.src[0]), *w = floats(*node.src[1]), *k = floats(*node.src[2]),
                *v = floats(*node.src[3]), *a = floats(*node.src[4]), *b = floats(*node.src[5]);
    const std::int64_t n = states.size;
    states.for_tokens(task.share(states.units()),
                      [&](std::int64_t, std::int64_t offset, float* y, float* matrix) HWY_ATTR {
                          const Wkv7Token token{r + offset, w + offset, k + offset, b + offset};
                          for (std::int64_t i = 0; i < n; ++i) {
                              float* row = matrix + i * n;
                              const float sa = dot_rows(a + offset, row, n);
                              y[i] = step_row(token, v[offset + i], sa, row, n);
                          }
                      });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/kernels/node_flops.hpp"

namespace heddle::cpu {
HWY_EXPORT(wkv7);
namespace {

std::string_view objection(const Tensor& node) {
    if (!all_f32(node, 7)) return "only f32";
    const Tensor& k = *node.src[2];
    if (element_count(*node.src[0]) < element_count(k)) return "r has not a value for each key";
    return MatrixStates(node, k, *node.src[6]).objection();
}

void run(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(wkv7)(node, task); }

Demand demand(const Tensor& node, int threads) {
    const MatrixStates states(node, *node.src[2], *node.src[6]);
    return flops_demand<ops::RwkvWkv7>(node, states.units(), threads);
}

}  // namespace

extern const Kernel kRwkvWkv7{.name = "rwkv_wkv7_f32",
                              .op = GGML_OP_RWKV_WKV7,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
#endif
