#include "ops/generate.hpp"

#include <gtest/gtest.h>

#include "backends/cpu/kernels/test_support.hpp"
#include "ops/mask.hpp"
#include "ops/triangle.hpp"

namespace heddle::cpu {
namespace {

TEST(CpuFill, WritesOneValueEverywhere) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Workbench bench;
        Tensor* x = bench.tensor(type, {303, 7, 3, 2});
        Tensor* y = bench.node<ops::Fill>({.value = 1.5f}, {x});
        expect_result(bench, *y, std::vector<double>(303 * 42, 1.5), 0);
    }
}

TEST(CpuArange, CountsInSteps) {
    Workbench bench;
    Tensor* y = bench.node<ops::Arange>({.start = 2, .stop = 500, .step = 0.75f}, {});
    std::vector<double> expected;
    for (int i = 0; i < 664; ++i) expected.push_back(2 + 0.75 * i);
    expect_result(bench, *y, expected, 0);
    y->ne[0] = 663;
    EXPECT_EQ(objection_to(*y), "the result is not contiguous");
}

TEST(CpuTimestepEmbedding, HasCosinesThenSinesAndAZeroIfOdd) {
    for (const int dim : {15, 320}) {
        Workbench bench;
        Tensor* steps = bench.numbers(GGML_TYPE_F32, {3, 1, 1, 1}, {12, 24, 0.5});
        Tensor* y = bench.node<ops::TimestepEmbedding>({.dim = dim, .max_period = 10000}, {steps});
        std::vector<double> expected;
        const int half = dim / 2;
        for_elements(*y, [&](std::int64_t i0, std::int64_t i1, auto...) {
            const double frequency = std::exp(-std::log(10000.0) * double(i0 % half) / half);
            const double angle = value_at(*steps, i1) * frequency;
            expected.push_back(i0 == 2 * half ? 0 : i0 < half ? std::cos(angle) : std::sin(angle));
        });
        expect_result(bench, *y, expected, 0, 5e-6);
    }
}

TEST(CpuDiag, PutsVectorsOnDiagonals) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {19, 1, 4, 3});
    Tensor* y = bench.node<ops::Diag>({}, {x});
    std::vector<double> expected;
    for_elements(*y, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        expected.push_back(i0 == i1 ? value_at(*x, i0, 0, i2, i3) : 0);
    });
    expect_result(bench, *y, expected, 0);
}

TEST(CpuTri, KeepsTheTriangleByTypeAndSelectsRatherThanMultiplies) {
    for (const int type : {0, 1, 2, 3}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {10, 10, 2, 3});
        *at<float>(*x, 9, 0) = NAN;
        *at<float>(*x, 0, 9) = INFINITY;
        Tensor* y = bench.node<ops::Tri>({.type = type}, {x});
        std::vector<double> expected;
        for_elements(*y, [&](std::int64_t i0, std::int64_t i1, auto... rest) {
            const bool keep[] = {i0 >= i1, i0 > i1, i0 <= i1, i0 < i1};
            expected.push_back(keep[type] ? value_at(*x, i0, i1, rest...) : 0);
        });
        expect_result(bench, *y, expected, 0);
    }
}

template <class D>
void expect_mask(double fill) {
    for (const bool in_place : {false, true}) {
        for_each_way([&](int tasks) {
            Workbench bench;
            Tensor* x = bench.random(GGML_TYPE_F32, {21, 10, 3, 2});
            std::vector<double> expected;
            for_elements(*x, [&](std::int64_t i0, std::int64_t i1, auto... rest) {
                expected.push_back(i0 > 5 + i1 ? fill : value_at(*x, i0, i1, rest...));
            });
            Tensor* y = in_place ? bench.node_in_place<D>({5}, {x}) : bench.node<D>({5}, {x});
            ASSERT_TRUE(run_node(*y, tasks));
            expect_close(*y, expected, 0);
        });
    }
}

TEST(CpuDiagMask, ReplacesWhatLiesAboveTheDiagonal) {
    expect_mask<ops::DiagMaskInf>(-INFINITY);
    expect_mask<ops::DiagMaskZero>(0);
}

TEST(CpuDiagMask, SaysWhyItDeclines) {
    Workbench bench;
    Tensor* x = bench.tensor(GGML_TYPE_F16, {4, 4, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::DiagMaskInf>({0}, {x})), "x is not f32");
    Tensor* negative =
        bench.node<ops::DiagMaskInf>({-1}, {bench.tensor(GGML_TYPE_F32, {4, 4, 1, 1})});
    EXPECT_EQ(objection_to(*negative), "n_past is negative");
}

}  // namespace
}  // namespace heddle::cpu
