#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/rwkv_wkv7.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/recurrent/delta_rows.hpp"
#include "backends/cpu/kernels/recurrent/matrix_states.hpp"
#include "ops/recurrent.hpp"

#ifndef HEDDLE_CPU_RWKV_WKV7_ONCE
#define HEDDLE_CPU_RWKV_WKV7_ONCE
namespace heddle::cpu {

struct Wkv7 {
    const float *r, *w, *k, *v, *a, *b;
};

inline RunMemory run_memory(const MatrixStates& states) { return {states.size, 4}; }

}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

void run_head(const Wkv7& x, const MatrixStates& states, const HeadTokens& head, float* scratch) {
    const std::int64_t n = states.size;
    const float* from = head.initial;
    for (std::int64_t token = 0, count; token < head.tokens; token += count) {
        const std::int64_t left = head.tokens - token;
        const std::int64_t most = left < kMostTokensOfRun ? left : kMostTokensOfRun;
        DeltaToken run[kMostTokensOfRun];
        float *product = scratch, *factors = scratch + n;
        bool is_last = false;
        for (count = 0; !is_last; ++count, factors += 4 * n) {
            const std::int64_t at = head.offset + (token + count) * states.pitch();
            if (count + kMostTokensOfRun < left) {
                for (const float* next : {x.r, x.w, x.k, x.v, x.a, x.b}) {
                    fetch(next + at + kMostTokensOfRun * states.pitch(), n);
                }
            }
            float *ask = factors, *bring = ask + n, *read = bring + n, *value = read + n;
            multiply_by_product(x.a + at, 1, count > 0 ? product : nullptr, ask, n);
            is_last = !extend_product(x.w + at, count == 0, product, n) || count + 1 == most;
            divide_by_product(x.b + at, product, is_last, bring, n);
            divide_by_product(x.k + at, product, is_last, value, n);
            multiply_by_product(x.r + at, 1, is_last ? nullptr : product, read, n);
            run[count] = {.ask = ask,
                          .bring = bring,
                          .read = read,
                          .brings_value = value,
                          .product = product,
                          .rate = 1,
                          .v = x.v + at,
                          .y = states.outputs + at};
        }
        run_rows<true>(run, count, from, head.matrix, n);
        from = head.matrix;
    }
}

}  // namespace

void wkv7(const Wkv7& x, const MatrixStates& states, const Task& task) {
    float* scratch = run_memory(states).of(task);
    states.for_heads(task.share(states.units()),
                     [&](const HeadTokens& head) HWY_ATTR { run_head(x, states, head, scratch); });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/kernels/node_flops.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
HWY_EXPORT(wkv7);
namespace {

std::string_view objection(const Tensor& node) {
    if (!all_f32(node, 7)) return "only f32";
    const Tensor& k = *node.src[2];
    if (element_count(*node.src[0]) < element_count(k))
        return "r has fewer values than there are keys";
    return MatrixStates(node, k, *node.src[6]).objection();
}

void run(const Tensor& node, const Task& task) {
    const Wkv7 x{.r = floats(node, 0),
                 .w = floats(node, 1),
                 .k = floats(node, 2),
                 .v = floats(node, 3),
                 .a = floats(node, 4),
                 .b = floats(node, 5)};
    HWY_DYNAMIC_DISPATCH(wkv7)(x, MatrixStates(node, *node.src[2], *node.src[6]), task);
}

Demand demand(const Tensor& node, int threads) {
    const MatrixStates states(node, *node.src[2], *node.src[6]);
    return run_memory(states).demand(flops_demand<ops::RwkvWkv7>(node, states.units(), threads));
}

}  // namespace

extern const Kernel kRwkvWkv7{.name = "rwkv_wkv7_f32",
                              .op = GGML_OP_RWKV_WKV7,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
#endif
