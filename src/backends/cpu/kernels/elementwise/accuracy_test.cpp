#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iostream>
#include <limits>

#include "backends/cpu/kernels/test_support.hpp"
#include "ops/math.hpp"
#include "ops/unary.hpp"

/// How far functions of floats are from the truth at most, over dense sweeps of their arguments.
namespace heddle::cpu {
namespace {

using Function = std::function<double(double)>;

/// What the last binary digit of a float of this size is worth.
double unit_of(double value) {
    const int exponent = std::max(std::ilogb(std::max(std::abs(value), 0x1p-126)), -126);
    return std::ldexp(1.0, exponent - 23);
}

/// Evenly from `low` to `high`, with odd neighbours, and closer and closer to zero.
std::vector<double> sweep(double low, double high, double least = 0x1p-30) {
    constexpr int count = 60000;
    std::vector<double> arguments;
    for (int i = 0; i <= count; ++i) {
        arguments.push_back(low + (high - low) * (i + 0.37 * (i % 3)) / (count + 1));
    }
    for (double x = std::max(std::abs(low), std::abs(high)); x >= least; x *= 0.9983) {
        if (x <= high) arguments.push_back(x);
        if (-x >= low) arguments.push_back(-x);
    }
    return arguments;
}

/// A function to look at, and how far off it may be: in units of the last place, of which there may
/// be more for large arguments, or absolutely.
struct Subject {
    std::string name;
    std::function<Tensor*(Workbench&, Tensor*)> node;
    Function truth;
    double low, high;
    double units;
    double absolute = 0;
    double units_per_x = 0;
};

template <ggml_unary_op function>
Tensor* unary(Workbench& bench, Tensor* x) {
    return bench.node<ops::Unary>(ops::Unary::of(function), {x});
}

double gelu(double x) {
    return x / (1 + std::exp(-2 * 0.79788456080286535588 * x * (1 + 0.044715 * x * x)));
}

double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

template <Descriptor D>
Tensor* op(Workbench& bench, Tensor* x) {
    return bench.node<D>({}, {x});
}

const std::vector<Subject>& subjects() {
    static const std::vector<Subject> all{
        {"exp, |x| to 20", unary<GGML_UNARY_OP_EXP>, [](double x) { return std::exp(x); }, -20, 20,
         4},
        {"exp", unary<GGML_UNARY_OP_EXP>, [](double x) { return std::exp(x); }, -86.9, 88.72, 6},
        {"expm1", unary<GGML_UNARY_OP_EXPM1>, [](double x) { return std::expm1(x); }, -60, 88.7, 6},
        {"tanh", unary<GGML_UNARY_OP_TANH>, [](double x) { return std::tanh(x); }, -12, 12, 6},
        {"sigmoid", unary<GGML_UNARY_OP_SIGMOID>, [](double x) { return 1 / (1 + std::exp(-x)); },
         -80, 80, 4, 0, 1.25},
        {"silu", unary<GGML_UNARY_OP_SILU>, [](double x) { return x / (1 + std::exp(-x)); }, -80,
         80, 4, 0, 1.25},
        {"gelu", unary<GGML_UNARY_OP_GELU>, gelu, -2, 10, 12},
        {"gelu_erf", unary<GGML_UNARY_OP_GELU_ERF>, gelu_erf, -4, 10, 20},
        {"gelu_erf, x to -13", unary<GGML_UNARY_OP_GELU_ERF>, gelu_erf, -13, 10, 20, 0, 9},
        {"softplus, x from -20", unary<GGML_UNARY_OP_SOFTPLUS>, softplus, -20, 30, 5},
        {"softplus", unary<GGML_UNARY_OP_SOFTPLUS>, softplus, -86.9, 30, 6},
        {"log", op<ops::Log>, [](double x) { return std::log(x); }, 0, 1000, 2},
        {"log, near 1", op<ops::Log>, [](double x) { return std::log(x); }, 0.5, 2, 2},
        {"sin", op<ops::Sin>, [](double x) { return std::sin(x); }, -40000, 40000, 2, 0x1p-22},
        {"sin, |x| to 3", op<ops::Sin>, [](double x) { return std::sin(x); }, -3, 3, 3},
        {"cos", op<ops::Cos>, [](double x) { return std::cos(x); }, -40000, 40000, 2, 0x1p-22},
        {"cos, |x| to 3", op<ops::Cos>, [](double x) { return std::cos(x); }, -3, 3, 3}};
    return all;
}

TEST(CpuAccuracy, OfFunctionsOverDenseSweeps) {
    for (const Subject& subject : subjects()) {
        Workbench bench;
        std::vector<double> arguments = sweep(subject.low, subject.high);
        for (double& x : arguments) x = static_cast<float>(x);
        const auto n = static_cast<std::int64_t>(arguments.size());
        Tensor* x = bench.numbers(GGML_TYPE_F32, {n, 1, 1, 1}, arguments);
        Tensor* y = subject.node(bench, x);
        for_each_target([&] {
            SCOPED_TRACE(subject.name);
            ASSERT_TRUE(run_node(*y, 1));
            double worst = 0, worst_absolute = 0, where = 0;
            for (std::int64_t i = 0; i < n; ++i) {
                const double argument = arguments[static_cast<std::size_t>(i)];
                const double truth = subject.truth(argument), got = value_at(*y, i);
                if (std::isinf(truth)) {
                    ASSERT_EQ(got, truth) << "at " << argument;
                    continue;
                }
                const double error = std::abs(got - truth);
                worst_absolute = std::max(worst_absolute, error);
                if (error <= subject.absolute) continue;
                const double units =
                    error / unit_of(truth) - subject.units_per_x * std::abs(argument);
                if (units <= worst) continue;
                worst = units;
                where = argument;
            }
            std::cout << subject.name << ": " << worst << " units in the last place, at " << where
                      << ", absolute " << worst_absolute << "\n";
            EXPECT_LE(worst, subject.units) << "at " << where;
        });
    }
}

/// f of each argument, bit for bit the same wherever in a row it stands and whatever beside it.
TEST(CpuAccuracy, DoesNotDependOnThePlace) {
    for_each_target([] {
        Workbench bench;
        std::vector<double> arguments(77, 0.7);
        Tensor* x = bench.numbers(GGML_TYPE_F32, {77, 1, 1, 1}, arguments);
        for (std::size_t i = 1; i < 77; i += 2)
            arguments[i] = -9e5;  // out of reach of many a table
        Tensor* mixed = bench.numbers(GGML_TYPE_F32, {77, 1, 1, 1}, arguments);
        for (const Subject& subject : subjects()) {
            SCOPED_TRACE(subject.name);
            Tensor *y = subject.node(bench, x), *z = subject.node(bench, mixed);
            ASSERT_TRUE(run_node(*y, 1));
            ASSERT_TRUE(run_node(*z, 1));
            for (std::int64_t i = 1; i < 77; ++i) ASSERT_EQ(value_at(*y, i), value_at(*y, 0));
            for (std::int64_t i = 0; i < 77; i += 2) ASSERT_EQ(value_at(*z, i), value_at(*y, 0));
        }
    });
}

std::vector<double> of(const Subject& subject, const std::vector<double>& arguments) {
    Workbench bench;
    const auto n = static_cast<std::int64_t>(arguments.size());
    Tensor* y = subject.node(bench, bench.numbers(GGML_TYPE_F32, {n, 1, 1, 1}, arguments));
    EXPECT_TRUE(run_node(*y, 1));
    return values_of(*y);
}

TEST(CpuAccuracy, KeepsZeroAndNanAndPassesOverDenormals) {
    const double tiny = 0x1p-140;
    // A NaN with a payload: its lowest bits must not end up in an exponent.
    const double strange = std::bit_cast<float>(0xffc00001u);
    for_each_target([&] {
        for (const Subject& subject : subjects()) {
            SCOPED_TRACE(subject.name);
            const std::vector<double> y = of(subject, {0, tiny, NAN, strange});
            EXPECT_EQ(y[0], static_cast<float>(subject.truth(0)));
            EXPECT_NEAR(y[1], subject.truth(tiny), 1e-5);
            EXPECT_TRUE(std::isnan(y[2]));
            EXPECT_TRUE(std::isnan(y[3]));
        }
    });
}

TEST(CpuAccuracy, GoesToTheLimits) {
    const double most = std::numeric_limits<float>::max();
    const auto named = [](std::string_view name) -> const Subject& {
        return *std::ranges::find(subjects(), name, &Subject::name);
    };
    using Values = std::vector<double>;
    for_each_target([&] {
        EXPECT_EQ(of(named("exp"), {INFINITY, -INFINITY, most, -most, 88.73, -105}),
                  (Values{INFINITY, 0, INFINITY, 0, INFINITY, 0}));
        // Results that are denormal may come as 0.
        EXPECT_NEAR(of(named("exp"), {-90})[0], std::exp(-90), 1.2e-38);
        EXPECT_EQ(of(named("expm1"), {INFINITY, -INFINITY, most, -most}),
                  (Values{INFINITY, -1, INFINITY, -1}));
        EXPECT_EQ(of(named("tanh"), {INFINITY, -INFINITY, most, -most, 9.2, -9.2}),
                  (Values{1, -1, 1, -1, 1, -1}));
        EXPECT_EQ(of(named("sigmoid"), {INFINITY, -INFINITY, most, -most}), (Values{1, 0, 1, 0}));
        for (const char* name : {"silu", "gelu"}) {
            EXPECT_EQ(of(named(name), {most, -most, 1e6, -1e6, 200, -200}),
                      (Values{most, 0, 1e6, 0, 200, 0}))
                << name;
        }
        EXPECT_EQ(of(named("gelu_erf"), {INFINITY, -INFINITY, most, -most, 1e6, -1e6, 200, -200}),
                  (Values{INFINITY, 0, most, 0, 1e6, 0, 200, 0}));
        EXPECT_EQ(of(named("softplus"), {INFINITY, -INFINITY, most, -most, 20.5, 1e6, -105}),
                  (Values{INFINITY, 0, most, 0, 20.5, 1e6, 0}));
        EXPECT_NEAR(of(named("softplus"), {-90})[0], std::exp(-90), 1.2e-38);
        EXPECT_EQ(of(named("log"), {0, -0.0, INFINITY, 1}),
                  (Values{-INFINITY, -INFINITY, INFINITY, 0}));
        EXPECT_NEAR(of(named("log"), {most})[0], std::log(most), 1e-5);
        EXPECT_NEAR(of(named("log"), {0x1p-149})[0], std::log(0x1p-149), 1e-5);
        for (const double x : of(named("log"), {-1, -INFINITY, -most, -0x1p-149})) {
            EXPECT_TRUE(std::isnan(x));
        }
        for (const char* name : {"sin", "cos"}) {
            for (const double x : of(named(name), {INFINITY, -INFINITY})) {
                EXPECT_TRUE(std::isnan(x)) << name;
            }
        }
        EXPECT_NEAR(of(named("sin"), {1e8})[0], std::sin(1e8), 1e-6);
        EXPECT_NEAR(of(named("cos"), {-400000})[0], std::cos(400000.0), 1e-6);
    });
}

}  // namespace
}  // namespace heddle::cpu
