#include "ops/unary.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "backends/cpu/kernels/test_support.hpp"
#include "ops/backward.hpp"
#include "ops/clamp.hpp"
#include "ops/glu.hpp"
#include "ops/leaky_relu.hpp"
#include "ops/math.hpp"
#include "ops/scale.hpp"

namespace heddle::cpu {
namespace {

using Function = std::function<double(double)>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * x * (1 + 0.044715 * x * x)));
}
double gelu_quick(double x) { return x * sigmoid(1.702 * x); }
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double silu(double x) { return x * sigmoid(x); }
double hard_sigmoid(double x) { return std::min(1.0, std::max(0.0, (x + 3) / 6)); }

const std::vector<std::pair<ggml_unary_op, Function>>& functions() {
    static const std::vector<std::pair<ggml_unary_op, Function>> all{
        {GGML_UNARY_OP_ABS, [](double x) { return std::abs(x); }},
        {GGML_UNARY_OP_SGN, [](double x) { return x > 0   ? 1.0
                                                  : x < 0 ? -1.0
                                                          : 0.0; }},
        {GGML_UNARY_OP_NEG, [](double x) { return -x; }},
        {GGML_UNARY_OP_STEP, [](double x) { return x > 0 ? 1.0 : 0.0; }},
        {GGML_UNARY_OP_TANH, [](double x) { return std::tanh(x); }},
        {GGML_UNARY_OP_ELU, [](double x) { return x > 0 ? x : std::expm1(x); }},
        {GGML_UNARY_OP_RELU, [](double x) { return x > 0 ? x : 0.0; }},
        {GGML_UNARY_OP_SIGMOID, sigmoid},
        {GGML_UNARY_OP_GELU, gelu},
        {GGML_UNARY_OP_GELU_QUICK, gelu_quick},
        {GGML_UNARY_OP_SILU, silu},
        {GGML_UNARY_OP_HARDSWISH, [](double x) { return x * hard_sigmoid(x); }},
        {GGML_UNARY_OP_HARDSIGMOID, hard_sigmoid},
        {GGML_UNARY_OP_EXP, [](double x) { return std::exp(x); }},
        {GGML_UNARY_OP_EXPM1, [](double x) { return std::expm1(x); }},
        {GGML_UNARY_OP_SOFTPLUS, [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); }},
        {GGML_UNARY_OP_GELU_ERF, gelu_erf},
        {GGML_UNARY_OP_FLOOR, [](double x) { return std::floor(x); }},
        {GGML_UNARY_OP_CEIL, [](double x) { return std::ceil(x); }},
        {GGML_UNARY_OP_ROUND, [](double x) { return std::round(x); }},
        {GGML_UNARY_OP_TRUNC, [](double x) { return std::trunc(x); }}};
    return all;
}

/// What the type makes of it: beyond its largest number, infinity.
double as_type(Type type, double value) {
    if (type == GGML_TYPE_F16) return f16_to_f32(f32_to_f16(static_cast<float>(value)));
    return static_cast<float>(value);
}

std::vector<double> mapped(const Tensor& x, const Function& f) {
    std::vector<double> values = values_of(x);
    for (double& value : values) value = as_type(x.type, f(value));
    return values;
}

/// Functions of large arguments magnify the rounding of what goes into the exponential.
constexpr double kRelative = 2e-5;

TEST(CpuUnary, ComputesEveryFunctionInEveryTypeAndLayout) {
    for (const auto& [function, definition] : functions()) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
            SCOPED_TRACE(testing::Message()
                         << ops::Unary::function_name(function) << " " << name_of(type));
            Workbench bench;
            Tensor* x = bench.random(type, {523, 3, 2, 1}, -30, 30);
            Tensor* part = bench.slice(bench.random(type, {39, 6, 5, 4}, -3, 3), {5, 1, 0, 1},
                                       {13, 3, 2, 2}, {1, 2, 2, 1});
            const double relative = std::max(kRelative, rounding_of(type));
            expect_result(bench, *bench.node<ops::Unary>(ops::Unary::of(function), {x}),
                          mapped(*x, definition), relative, 1e-6);
            expect_result(bench, *bench.node<ops::Unary>(ops::Unary::of(function), {part}),
                          mapped(*part, definition), relative, 1e-6);
        }
    }
}

TEST(CpuUnary, StaysFreeOfNanOverTheWholeRange) {
    for (const auto& [function, definition] : functions()) {
        SCOPED_TRACE(ops::Unary::function_name(function));
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {1000, 1, 1, 1}, -150, 150);
        expect_result(bench, *bench.node<ops::Unary>(ops::Unary::of(function), {x}),
                      mapped(*x, definition), kRelative, 1e-6);
    }
}

std::vector<double> results_of(ggml_unary_op function, const std::vector<double>& arguments) {
    Workbench bench;
    const auto n = static_cast<std::int64_t>(arguments.size());
    Tensor* x = bench.numbers(GGML_TYPE_F32, {n, 1, 1, 1}, arguments);
    Tensor* y = bench.node<ops::Unary>(ops::Unary::of(function), {x});
    EXPECT_TRUE(run_node(*y, 1));
    return values_of(*y);
}

TEST(CpuUnary, GoesToItsLimits) {
    for_each_target([] {
        const auto exp = results_of(GGML_UNARY_OP_EXP, {88.7, 89, INFINITY, -INFINITY, -200, NAN});
        EXPECT_NEAR(exp[0], 3.326e38, 1e35);
        EXPECT_EQ(exp[1], INFINITY);
        EXPECT_EQ(exp[2], INFINITY);
        EXPECT_EQ(exp[3], 0);
        EXPECT_EQ(exp[4], 0);
        EXPECT_TRUE(std::isnan(exp[5]));
        const auto silu = results_of(GGML_UNARY_OP_SILU, {-1e30, -100, 1e30});
        EXPECT_EQ(silu[0], 0);
        EXPECT_TRUE(std::signbit(silu[0]));
        EXPECT_EQ(silu[1], 0);
        EXPECT_EQ(silu[2], static_cast<double>(1e30f));
        const auto tanh = results_of(GGML_UNARY_OP_TANH, {INFINITY, -INFINITY, NAN});
        EXPECT_EQ(tanh[0], 1);
        EXPECT_EQ(tanh[1], -1);
        EXPECT_TRUE(std::isnan(tanh[2]));
        const auto round =
            results_of(GGML_UNARY_OP_ROUND, {0.5, -0.5, 1.5, 2.5, 0.49999997, 8388609});
        EXPECT_EQ(round, (std::vector<double>{1, -1, 2, 3, 0, 8388609}));
        EXPECT_EQ(results_of(GGML_UNARY_OP_SGN, {NAN})[0], 0);
        EXPECT_EQ(results_of(GGML_UNARY_OP_RELU, {NAN})[0], 0);
        for (const auto function : {GGML_UNARY_OP_GELU, GGML_UNARY_OP_GELU_ERF}) {
            EXPECT_EQ(results_of(function, {-1e20})[0], 0);
        }
    });
}

TEST(CpuUnary, ComputesXielu) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Workbench bench;
        const auto params = ops::Unary::xielu(4, 20, 0.5f, 1e-7f);
        Tensor* x = bench.random(type, {67, 5, 4, 3}, -4, 4);
        const auto expected = mapped(*x, [&](double v) {
            if (v > 0) return params.alpha_p * v * v + params.beta * v;
            return (std::expm1(std::min<double>(v, params.eps)) - v) * params.alpha_n +
                   params.beta * v;
        });
        expect_result(bench, *bench.node<ops::Unary>(params, {x}), expected,
                      std::max(kRelative, rounding_of(type)), 1e-5);
    }
}

TEST(CpuUnary, WritesIntoItsOperand) {
    for_each_way([](int tasks) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F16, {1100, 2, 1, 1});
        const auto expected = mapped(*x, silu);
        Tensor* y = bench.node_in_place<ops::Unary>(ops::Unary::of(GGML_UNARY_OP_SILU), {x});
        ASSERT_TRUE(run_node(*y, tasks));
        expect_close(*x, expected, 0x1p-10);
    });
}

TEST(CpuUnary, SaysWhyItDeclines) {
    Workbench bench;
    Tensor* y = bench.node<ops::Unary>(ops::Unary::of(GGML_UNARY_OP_ABS),
                                       {bench.tensor(GGML_TYPE_I32, {4, 1, 1, 1})});
    EXPECT_EQ(objection_to(*y), "x is not f32, f16 or bf16");
    Tensor* unknown = bench.node<ops::Unary>(ops::Unary::of(GGML_UNARY_OP_ABS),
                                             {bench.tensor(GGML_TYPE_F32, {4, 1, 1, 1})});
    unknown->op_params[0] = 99;
    EXPECT_EQ(objection_to(*unknown), "there is no such function");
}

// ---- ops of their own --------------------------------------------------------------------------

template <Descriptor D>
void expect_map(double low, double high, const Function& definition, const Args<D>& args = {},
                std::initializer_list<Type> types = {GGML_TYPE_F32, GGML_TYPE_F16,
                                                     GGML_TYPE_BF16}) {
    for (const Type type : types) {
        SCOPED_TRACE(testing::Message() << D::name << " " << name_of(type));
        Workbench bench;
        Tensor* x = bench.random(type, {531, 3, 1, 1}, low, high);
        Tensor* part = bench.slice(bench.random(type, {40, 6, 4, 2}, low, high), {3, 0, 0, 0},
                                   {17, 6, 4, 2});  // rows with gaps
        const double relative = rounding_of(type);
        for (Tensor* from : {x, part}) {
            const auto expected = mapped(*from, definition);
            expect_result(bench, *bench.node<D>(args, {from}), expected, relative, 1e-6);
        }
    }
}

TEST(CpuMath, ComputesItsFunctions) {
    expect_map<ops::Sqr>(-10, 10, [](double x) { return x * x; });
    expect_map<ops::Sqrt>(0, 100, [](double x) { return std::sqrt(x); });
    expect_map<ops::Log>(0.01, 50, [](double x) { return std::log(x); });
    expect_map<ops::Sin>(-6.5, 6.5, [](double x) { return std::sin(x); });
    expect_map<ops::Cos>(-6.5, 6.5, [](double x) { return std::cos(x); });
    expect_map<ops::Scale>(-5, 5, [](double x) { return 2 * x + 1; }, {.scale = 2, .bias = 1},
                           {GGML_TYPE_F32});
    expect_map<ops::LeakyRelu>(-5, 5, [](double x) { return x > 0 ? x : double{0.1f} * x; },
                               {.slope = 0.1f}, {GGML_TYPE_F32, GGML_TYPE_F16});
}

TEST(CpuMath, FollowsTheLibraryOutsideItsDomain) {
    Workbench bench;
    Tensor* x = bench.numbers(GGML_TYPE_F32, {5, 1, 1, 1}, {0, -1, INFINITY, 1e-40, NAN});
    expect_result(bench, *bench.node<ops::Log>({}, {x}),
                  {-INFINITY, NAN, INFINITY, std::log(double{1e-40f}), NAN}, 1e-6);
    expect_result(bench, *bench.node<ops::Sqrt>({}, {x}), {0, NAN, INFINITY, 0, NAN}, 1e-6);
    Tensor* far = bench.numbers(GGML_TYPE_F32, {4, 1, 1, 1}, {1e6, -123456, 3, INFINITY});
    expect_result(bench, *bench.node<ops::Sin>({}, {far}),
                  {std::sin(1e6), std::sin(-123456.0), std::sin(3.0), NAN}, 1e-6);
    expect_result(bench, *bench.node<ops::Cos>({}, {far}),
                  {std::cos(1e6), std::cos(-123456.0), std::cos(3.0), NAN}, 1e-6);
}

TEST(CpuClamp, BoundsInPlaceAndNothingElse) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        for_each_way([&](int tasks) {
            Workbench bench;
            Tensor* whole = bench.random(type, {30, 5, 4, 1});
            const std::vector<double> before = values_of(*whole);
            Tensor* part = bench.slice(whole, {2, 0, 0, 0}, {21, 5, 4, 1});
            Tensor* y = bench.node<ops::Clamp>({.min = -0.5f, .max = 0.25f}, {part});
            ASSERT_TRUE(run_node(*y, tasks));
            std::vector<double> expected = before;
            for (std::size_t i = 0; i < expected.size(); ++i) {
                if (i % 30 >= 2 && i % 30 < 23) expected[i] = std::clamp(expected[i], -0.5, 0.25);
            }
            expect_close(*whole, expected, 0);
        });
    }
}

TEST(CpuClamp, GivesTheMinimumWhereBoundsCross) {
    Workbench bench;
    Tensor* x = bench.numbers(GGML_TYPE_F32, {3, 1, 1, 1}, {-2, 0, 2});
    Tensor* y = bench.node<ops::Clamp>({.min = 1, .max = -1}, {x});
    expect_result(bench, *y, {1, 1, 1}, 0);
}

// ---- GLU ---------------------------------------------------------------------------------------

double glu(ggml_glu_op function, double x, double g, double alpha, double limit) {
    switch (function) {
        case GGML_GLU_OP_REGLU:
            return x > 0 ? x * g : 0;
        case GGML_GLU_OP_GEGLU:
            return gelu(x) * g;
        case GGML_GLU_OP_SWIGLU:
            return silu(x) * g;
        case GGML_GLU_OP_GEGLU_ERF:
            return gelu_erf(x) * g;
        case GGML_GLU_OP_GEGLU_QUICK:
            return gelu_quick(x) * g;
        default:
            break;
    }
    const double bounded = std::min(x, limit);
    return bounded * sigmoid(alpha * bounded) * (std::clamp(g, -limit, limit) + 1);
}

class CpuGlu : public testing::TestWithParam<ggml_glu_op> {};

TEST_P(CpuGlu, MultipliesTheHalvesOfARow) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        for (const int swapped : {0, 1}) {
            for (const std::int64_t n : {5, 128, 1300}) {
                Workbench bench;
                Tensor* a = bench.slice(bench.random(type, {n + 9, 4, 2, 1}, -15, 15), {0, 0, 0, 0},
                                        {n, 4, 2, 1});
                const ops::Glu::Params params{
                    .function = GetParam(), .swapped = swapped, .alpha = 1.702f, .limit = 7};
                Tensor* y = bench.node<ops::Glu>(params, {a});
                ASSERT_EQ(y->ne[0], n / 2);
                std::vector<double> expected;
                for_elements(*y, [&](std::int64_t i0, auto... rest) {
                    const double first = value_at(*a, i0, rest...);
                    const double second = value_at(*a, i0 + n / 2, rest...);
                    expected.push_back(glu(GetParam(), swapped ? second : first,
                                           swapped ? first : second, double{1.702f}, 7));
                });
                expect_result(bench, *y, expected, std::max(kRelative, rounding_of(type)), 1e-5);
            }
        }
    }
}

TEST_P(CpuGlu, MultipliesTwoTensors) {
    Workbench bench;
    Tensor* a = bench.random(GGML_TYPE_F32, {77, 4, 2, 1}, -150, 150);
    Tensor* b = bench.random(GGML_TYPE_F32, {77, 4, 2, 1}, -150, 150);
    const ops::Glu::Params params{.function = GetParam(), .swapped = 1, .alpha = 0.5f, .limit = 2};
    Tensor* y = bench.node<ops::Glu>(params, {a, b});
    std::vector<double> expected;
    for_elements(*y, [&](auto... i) {
        expected.push_back(glu(GetParam(), value_at(*a, i...), value_at(*b, i...), 0.5, 2));
    });
    expect_result(bench, *y, expected, 2e-5, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(EveryFunction, CpuGlu,
                         testing::Values(GGML_GLU_OP_REGLU, GGML_GLU_OP_GEGLU, GGML_GLU_OP_SWIGLU,
                                         GGML_GLU_OP_SWIGLU_OAI, GGML_GLU_OP_GEGLU_ERF,
                                         GGML_GLU_OP_GEGLU_QUICK),
                         [](const auto& info) {
                             return std::string(ops::Glu::function_name(info.param));
                         });

TEST(CpuSwigluOai, TakesAnySlope) {
    for (const float alpha : {0.0f, -0.7f, 1e-30f}) {
        Workbench bench;
        Tensor* a = bench.random(GGML_TYPE_F32, {77, 4, 1, 1}, -15, 15);
        Tensor* b = bench.random(GGML_TYPE_F32, {77, 4, 1, 1}, -15, 15);
        const ops::Glu::Params params{
            .function = GGML_GLU_OP_SWIGLU_OAI, .alpha = alpha, .limit = 7};
        Tensor* y = bench.node<ops::Glu>(params, {a, b});
        std::vector<double> expected;
        for_elements(*y, [&](auto... i) {
            expected.push_back(glu(GGML_GLU_OP_SWIGLU_OAI, value_at(*a, i...), value_at(*b, i...),
                                   double{alpha}, 7));
        });
        expect_result(bench, *y, expected, 2e-5, 1e-4);
    }
}

TEST(CpuGluRefusal, SaysWhyItDeclines) {
    Workbench bench;
    Tensor* y = bench.node<ops::Glu>({.function = GGML_GLU_OP_REGLU},
                                     {bench.tensor(GGML_TYPE_BF16, {8, 1, 1, 1})});
    EXPECT_EQ(objection_to(*y), "a is not f32 or f16");
}

TEST(CpuSiluBack, FollowsTheSlopeOfSilu) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Workbench bench;
        Tensor* dy = bench.random(type, {530, 3, 2, 1});
        Tensor* x = bench.random(type, {530, 3, 2, 1}, -8, 8);
        std::vector<double> expected;
        for_elements(*x, [&](auto... i) {
            const double v = value_at(*x, i...), s = sigmoid(v);
            expected.push_back(value_at(*dy, i...) * s * (1 + v * (1 - s)));
        });
        expect_result(bench, *bench.node<ops::SiluBack>({}, {dy, x}), expected, rounding_of(type),
                      1e-6);
    }
}

}  // namespace
}  // namespace heddle::cpu
