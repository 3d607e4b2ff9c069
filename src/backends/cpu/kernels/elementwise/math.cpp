#include "ops/math.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/elementwise/math.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/map_rows.hpp"
#include "backends/cpu/kernels/lanes_angle.hpp"
#include "backends/cpu/kernels/lanes_log.hpp"
#include "ggml/op_list.h"
#include "ops/clamp.hpp"
#include "ops/leaky_relu.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

void sqr(const Tensor& node, const Task& task) {
    map_node(node, task, [](auto, auto x) HWY_ATTR { return hn::Mul(x, x); });
}

void sqrt(const Tensor& node, const Task& task) {
    map_node(node, task, [](auto, auto x) HWY_ATTR { return hn::Sqrt(x); });
}

void log(const Tensor& node, const Task& task) {
    const auto c = LogConstants::held();
    map_node(node, task, [c](auto d, auto x) HWY_ATTR { return log_of(d, x, c); });
}

void sin(const Tensor& node, const Task& task) {
    const auto c = AngleConstants::held();
    map_node(node, task, [c](auto d, auto x) HWY_ATTR { return sin_of(d, x, c); });
}

void cos(const Tensor& node, const Task& task) {
    const auto c = AngleConstants::held();
    map_node(node, task, [c](auto d, auto x) HWY_ATTR { return cos_of(d, x, c); });
}

/// A NaN becomes `max`; where min > max everything becomes `min`.
void clamp(const Tensor& node, const Task& task) {
    const auto [min, max] = unpack<ops::Clamp::Params>(node);
    map_node(node, task, [min = min, max = max](auto d, auto x) HWY_ATTR {
        const auto low = hn::Set(d, min), high = hn::Set(d, max);
        const auto below = hn::IfThenElse(hn::Lt(x, high), x, high);
        return hn::IfThenElse(hn::Gt(below, low), below, low);
    });
}

void leaky_relu(const Tensor& node, const Task& task) {
    const float slope = unpack<ops::LeakyRelu::Params>(node).slope;
    map_node(node, task, [slope](auto d, auto x) HWY_ATTR {
        return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(hn::Set(d, slope), x));
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(sqr);
HWY_EXPORT(sqrt);
HWY_EXPORT(log);
HWY_EXPORT(sin);
HWY_EXPORT(cos);
HWY_EXPORT(clamp);
HWY_EXPORT(leaky_relu);
namespace {

void run_sqr(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(sqr)(node, task); }
void run_sqrt(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(sqrt)(node, task); }
void run_log(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(log)(node, task); }
void run_sin(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(sin)(node, task); }
void run_cos(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(cos)(node, task); }
void run_clamp(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(clamp)(node, task); }
void run_leaky_relu(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(leaky_relu)(node, task);
}

std::string_view objection_but_bf16(const Tensor& node) {
    if (node.src[0]->type == GGML_TYPE_BF16) return "x is not f32 or f16";
    return objection_to_map(node);
}

Demand cheap(const Tensor& node, int threads) { return spans_demand(node, threads, 1); }
Demand costly(const Tensor& node, int threads) { return spans_demand(node, threads, 8); }

}  // namespace

extern const Kernel kSqr{.name = "sqr",
                         .op = GGML_OP_SQR,
                         .objection = objection_to_map,
                         .run = run_sqr,
                         .demand = cheap};
extern const Kernel kSqrt{.name = "sqrt",
                          .op = GGML_OP_SQRT,
                          .objection = objection_to_map,
                          .run = run_sqrt,
                          .demand = cheap};
extern const Kernel kLog{.name = "log",
                         .op = GGML_OP_LOG,
                         .objection = objection_to_map,
                         .run = run_log,
                         .demand = costly};
extern const Kernel kSin{.name = "sin",
                         .op = GGML_OP_SIN,
                         .objection = objection_to_map,
                         .run = run_sin,
                         .demand = costly};
extern const Kernel kCos{.name = "cos",
                         .op = GGML_OP_COS,
                         .objection = objection_to_map,
                         .run = run_cos,
                         .demand = costly};
extern const Kernel kClamp{.name = "clamp",
                           .op = GGML_OP_CLAMP,
                           .objection = objection_but_bf16,
                           .run = run_clamp,
                           .demand = cheap};
extern const Kernel kLeakyRelu{.name = "leaky_relu",
                               .op = GGML_OP_LEAKY_RELU,
                               .objection = objection_but_bf16,
                               .run = run_leaky_relu,
                               .demand = cheap};

}  // namespace heddle::cpu
#endif
