#include "ops/unary.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/elementwise/unary.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/map_rows.hpp"
#include "backends/cpu/kernels/lanes_erf.hpp"
#include "backends/cpu/kernels/lanes_log.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/lanes_sigmoid.hpp"
#include "ggml/op_list.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// A function of one vector; `expression` may use the tag d, the argument x, one and zero, and the
/// constants c.
#define HEDDLE_UNARY_WITH(constants, name, expression)       \
    struct name {                                            \
        decltype(constants) c = constants;                   \
                                                             \
        template <class D, class V>                          \
        HWY_INLINE V operator()(D d, V x) const {            \
            [[maybe_unused]] const V one = hn::Set(d, 1.0f); \
            [[maybe_unused]] const V zero = hn::Zero(d);     \
            return expression;                               \
        }                                                    \
    }
#define HEDDLE_UNARY(name, expression) HEDDLE_UNARY_WITH(ExpConstants::held(), name, expression)

HEDDLE_UNARY(Abs, hn::Abs(x));
HEDDLE_UNARY(Neg, hn::Neg(x));
HEDDLE_UNARY(Sgn, hn::Sub(hn::IfThenElseZero(hn::Gt(x, zero), one),
                          hn::IfThenElseZero(hn::Lt(x, zero), one)));
HEDDLE_UNARY(Step, hn::IfThenElseZero(hn::Gt(x, zero), one));
HEDDLE_UNARY(Relu, hn::IfThenElseZero(hn::Gt(x, zero), x));
HEDDLE_UNARY(Tanh, tanh_of(d, x, c));
HEDDLE_UNARY(Elu, hn::IfThenElse(hn::Gt(x, zero), x, expm1_of(d, x, c)));
HEDDLE_UNARY_WITH(swish_constants(1), Sigmoid, sigmoid_of(d, x, c));
HEDDLE_UNARY_WITH(GrowthConstants::held(1), Gelu, gelu_of(d, x, c));
HEDDLE_UNARY_WITH(swish_constants(kGeluQuick), GeluQuick, swish_of(d, x, c));
HEDDLE_UNARY_WITH(GeluErfConstants::held(), GeluErf, gelu_erf_of(d, x, c));
HEDDLE_UNARY_WITH(swish_constants(1), Silu, swish_of(d, x, c));
HEDDLE_UNARY(HardSigmoid,
             hn::Min(one, hn::Max(zero, hn::Div(hn::Add(x, hn::Set(d, 3.0f)), hn::Set(d, 6.0f)))));
HEDDLE_UNARY(HardSwish, hn::Mul(x, HardSigmoid()(d, x)));
HEDDLE_UNARY(Exp, exp_of(d, x, c));
HEDDLE_UNARY(Expm1, expm1_of(d, x, c));
HEDDLE_UNARY_WITH(SoftplusConstants::held(), Softplus, softplus_of(d, x, c));
HEDDLE_UNARY(Floor, hn::Floor(x));
HEDDLE_UNARY(Ceil, hn::Ceil(x));
HEDDLE_UNARY(Round, round_of(d, x));
HEDDLE_UNARY(Trunc, hn::Trunc(x));
#undef HEDDLE_UNARY
#undef HEDDLE_UNARY_WITH

struct Xielu {
    ops::Unary::Params params;
    ExpConstants c = ExpConstants::held();

    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        const V beta_x = hn::Mul(hn::Set(d, params.beta), x);
        const V right = hn::MulAdd(hn::Mul(hn::Set(d, params.alpha_p), x), x, beta_x);
        const V growth = hn::Sub(expm1_of(d, hn::Min(x, hn::Set(d, params.eps)), c), x);
        const V left = hn::MulAdd(growth, hn::Set(d, params.alpha_n), beta_x);
        return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), right, left);
    }
};

template <class F>
void run_function(const Tensor& node, const Task& task) {
    map_node(node, task, F());
}

void run_xielu(const Tensor& node, const Task& task) {
    map_node(node, task, Xielu{unpack<ops::Unary::Params>(node)});
}

using Runs = std::array<void (*)(const Tensor&, const Task&), GGML_UNARY_OP_COUNT>;

constexpr Runs all_functions() {
    Runs runs{};
    runs[GGML_UNARY_OP_ABS] = run_function<Abs>;
    runs[GGML_UNARY_OP_SGN] = run_function<Sgn>;
    runs[GGML_UNARY_OP_NEG] = run_function<Neg>;
    runs[GGML_UNARY_OP_STEP] = run_function<Step>;
    runs[GGML_UNARY_OP_TANH] = run_function<Tanh>;
    runs[GGML_UNARY_OP_ELU] = run_function<Elu>;
    runs[GGML_UNARY_OP_RELU] = run_function<Relu>;
    runs[GGML_UNARY_OP_SIGMOID] = run_function<Sigmoid>;
    runs[GGML_UNARY_OP_GELU] = run_function<Gelu>;
    runs[GGML_UNARY_OP_GELU_QUICK] = run_function<GeluQuick>;
    runs[GGML_UNARY_OP_SILU] = run_function<Silu>;
    runs[GGML_UNARY_OP_HARDSWISH] = run_function<HardSwish>;
    runs[GGML_UNARY_OP_HARDSIGMOID] = run_function<HardSigmoid>;
    runs[GGML_UNARY_OP_EXP] = run_function<Exp>;
    runs[GGML_UNARY_OP_EXPM1] = run_function<Expm1>;
    runs[GGML_UNARY_OP_SOFTPLUS] = run_function<Softplus>;
    runs[GGML_UNARY_OP_GELU_ERF] = run_function<GeluErf>;
    runs[GGML_UNARY_OP_XIELU] = run_xielu;
    runs[GGML_UNARY_OP_FLOOR] = run_function<Floor>;
    runs[GGML_UNARY_OP_CEIL] = run_function<Ceil>;
    runs[GGML_UNARY_OP_ROUND] = run_function<Round>;
    runs[GGML_UNARY_OP_TRUNC] = run_function<Trunc>;
    return runs;
}

void unary(const Tensor& node, const Task& task) {
    static constexpr Runs runs = all_functions();
    runs[static_cast<std::size_t>(unpack<ops::Unary::Params>(node).function)](node, task);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(unary);
namespace {

std::string_view objection(const Tensor& node) {
    const std::int32_t function = unpack<ops::Unary::Params>(node).function;
    if (function < 0 || function >= GGML_UNARY_OP_COUNT) return "there is no such function";
    return objection_to_map(node);
}

void run(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(unary)(node, task); }

Demand demand(const Tensor& node, int threads) { return spans_demand(node, threads, 8); }

}  // namespace

extern const Kernel kUnary{
    .name = "unary", .op = GGML_OP_UNARY, .objection = objection, .run = run, .demand = demand};

}  // namespace heddle::cpu
#endif
