#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/elementwise/scale.cpp"
#include "ops/scale.hpp"

#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/map_rows.hpp"
#include "ggml/op_list.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// y = s * x + b. x and y may be the same memory.
void scale(const Tensor& node, const Task& task) {
    const auto [factor, bias] = unpack<ops::Scale::Params>(node);
    map_node(node, task, [factor = factor, bias = bias](auto d, auto x) HWY_ATTR {
        return hn::MulAdd(x, hn::Set(d, factor), hn::Set(d, bias));
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(scale);
namespace {

std::string_view objection(const Tensor& node) {
    return node.type == GGML_TYPE_F32 ? objection_to_map(node) : "only f32";
}

void run(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(scale)(node, task); }

Demand demand(const Tensor& node, int threads) { return spans_demand(node, threads, 1); }

}  // namespace

extern const Kernel kScale{
    .name = "scale_f32", .op = GGML_OP_SCALE, .objection = objection, .run = run, .demand = demand};

}  // namespace heddle::cpu
#endif
