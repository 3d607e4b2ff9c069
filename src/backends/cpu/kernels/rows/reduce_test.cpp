#include "ops/reduce.hpp"

#include <gtest/gtest.h>

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

double sum_of_all(const Tensor& x) {
    double sum = 0;
    for (const double value : values_of(x)) sum += value;
    return sum;
}

TEST(CpuSum, AddsUpTensorsOfAnyLayout) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {11, 5, 6, 3}, -0.9, 1.1);
    Tensor* wide = bench.random(GGML_TYPE_F32, {33, 600, 1, 1}, -0.9, 1.1);
    for (Tensor* from : {x, bench.permuted(x, {0, 2, 1, 3}), bench.permuted(x, {0, 3, 2, 1}),
                         bench.permuted(x, {0, 1, 3, 2}), bench.permuted(wide, {1, 0, 2, 3}), wide,
                         bench.slice(x, {2, 1, 0, 0}, {7, 2, 6, 3}, {1, 2, 1, 1})}) {
        expect_result(bench, *bench.node<ops::Sum>({}, {from}), {sum_of_all(*from)}, 1e-6);
    }
}

TEST(CpuSum, KeepsTheTypeOfHalfFloats) {
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_BF16}) {
        Workbench bench;
        Tensor* x = bench.random(type, {1300, 3, 1, 1}, 0, 1);
        expect_result(bench, *bench.node<ops::Sum>({}, {x}), {sum_of_all(*x)}, rounding_of(type));
    }
}

TEST(CpuSum, OfNothingIsZero) {
    Workbench bench;
    Tensor* x = bench.tensor(GGML_TYPE_F32, {0, 5, 1, 1});
    expect_result(bench, *bench.node<ops::Sum>({}, {x}), {0}, 0);
}

TEST(CpuSum, HasTheSameBitsForAnyNumberOfTasks) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {1000, 300, 1, 1});
    Tensor* y = bench.node<ops::Sum>({}, {x});
    ASSERT_TRUE(run_node(*y, 1));
    const float once = *static_cast<float*>(y->data);
    for (const int tasks : {2, 3, 5, 16}) {
        ASSERT_TRUE(run_node(*y, tasks));
        EXPECT_EQ(*static_cast<float*>(y->data), once);
    }
    ASSERT_TRUE(run_demanded(*y, 8));
    EXPECT_EQ(*static_cast<float*>(y->data), once);
}

std::vector<double> row_sums(const Tensor& x) {
    std::vector<double> sums(static_cast<std::size_t>(row_count(x)));
    std::size_t i = 0;
    for (const double value : values_of(x)) sums[i++ / static_cast<std::size_t>(x.ne[0])] += value;
    return sums;
}

/// What overflows on the way comes back in the end.
TEST(CpuSumRows, TakesValuesOfWhichAFewOverflow) {
    for (const std::int64_t n : {6, 70, 5000}) {
        Workbench bench;
        std::vector<double> values(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = i < values.size() / 2 ? 3e38 : -3e38;
        Tensor* x = bench.numbers(GGML_TYPE_F32, {n, 1, 1, 1}, values);
        expect_result(bench, *bench.node<ops::SumRows>({}, {x}), {0}, 0);
        *at<float>(*x, 1) = INFINITY;
        expect_result(bench, *bench.node<ops::SumRows>({}, {x}), {INFINITY}, 0);
    }
}

TEST(CpuSumRows, AddsUpEachRow) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {33, 5, 6, 3}, -0.9, 1.1);
    for (Tensor* from : {x, bench.permuted(x, {0, 2, 3, 1}),
                         bench.slice(x, {0, 0, 0, 1}, {33, 5, 3, 2}, {1, 1, 2, 1}),
                         bench.permuted(x, {1, 0, 2, 3})}) {
        expect_result(bench, *bench.node<ops::SumRows>({}, {from}), row_sums(*from), 1e-6, 1e-6);
    }
}

TEST(CpuSumRows, SharesALongRowAndGivesTheSameBits) {
    for (const std::int64_t rows : {1, 3}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {100003, rows, 1, 1}, -0.9, 1.1);
        Tensor* y = bench.node<ops::SumRows>({}, {x});
        expect_result(bench, *y, row_sums(*x), 1e-6);
        ASSERT_TRUE(run_node(*y, 1));
        const std::vector<double> once = values_of(*y);
        for (const int tasks : {2, 5, 16}) {
            ASSERT_TRUE(run_node(*y, tasks));
            EXPECT_EQ(values_of(*y), once);
        }
        EXPECT_EQ(demand_of(*choose_kernel(*y), *y, 2).tasks, 2);
        ASSERT_TRUE(run_demanded(*y, 4));
        EXPECT_EQ(values_of(*y), once);
    }
}

TEST(CpuMean, DividesBySizeAndIsNanForEmptyRows) {
    for (const std::int64_t n : {1, 32, 33, 32769}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {n, 3, 1, 1}, -0.9, 1.1);
        std::vector<double> expected = row_sums(*x);
        for (double& value : expected) value /= static_cast<double>(n);
        expect_result(bench, *bench.node<ops::Mean>({}, {x}), expected, 1e-6);
    }
    Workbench bench;
    Tensor* nothing = bench.tensor(GGML_TYPE_F32, {0, 2, 1, 1});
    expect_result(bench, *bench.node<ops::Mean>({}, {nothing}), {NAN, NAN}, 0);
}

TEST(CpuCumsum, AddsUpAlongRows) {
    for (const std::int64_t n : {1, 3, 10, 127, 128, 20481}) {
        Workbench bench;
        Tensor* x =
            bench.slice(bench.random(GGML_TYPE_F32, {n + 3, 4, 2, 1}), {0, 0, 0, 0}, {n, 4, 2, 1});
        std::vector<double> expected = values_of(*x);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            if (i % static_cast<std::size_t>(n) != 0) expected[i] += expected[i - 1];
        }
        expect_result(bench, *bench.node<ops::CumSum>({}, {x}), expected, 1e-6, 1e-5);
    }
}

TEST(CpuArgmax, FindsTheLargestOfEachRow) {
    for (const std::int64_t n : {1, 3, 32, 100, 1027}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {n, 13, 1, 1});
        std::vector<double> expected;
        for (std::int64_t row = 0; row < 13; ++row) {
            std::int64_t best = 0;
            for (std::int64_t i = 0; i < n; ++i) {
                if (value_at(*x, i, row) >= value_at(*x, best, row)) best = i;
            }
            expected.push_back(static_cast<double>(best));
        }
        expect_result(bench, *bench.node<ops::Argmax>({}, {x}), expected, 0, 0);
    }
}

TEST(CpuArgmax, GivesAnIndexInRangeWhateverTheRow) {
    Workbench bench;
    Tensor* x = bench.numbers(GGML_TYPE_F32, {3, 3, 1, 1},
                              {NAN, NAN, NAN, -INFINITY, -INFINITY, -INFINITY, NAN, 2, NAN});
    expect_result(bench, *bench.node<ops::Argmax>({}, {x}), {0, 2, 1}, 0, 0);
}

TEST(CpuArgmax, PassesOverNan) {
    Workbench bench;
    std::vector<double> values(300, NAN);
    for (std::size_t i = 0; i < values.size(); i += 7) values[i] = -static_cast<double>(i);
    values[203] = values[210] = 5;
    Tensor* x = bench.numbers(GGML_TYPE_F32, {300, 1, 1, 1}, values);
    expect_result(bench, *bench.node<ops::Argmax>({}, {x}), {210}, 0, 0);
}

TEST(CpuCountEqual, CountsEqualElementsOfAnyLayout) {
    Workbench bench;
    Tensor* a = bench.random(GGML_TYPE_I32, {131, 7, 3, 2}, 0, 4);
    for (Tensor* b :
         {bench.permuted(bench.random(GGML_TYPE_I32, {7, 131, 3, 2}, 0, 4), {1, 0, 2, 3}),
          bench.permuted(bench.random(GGML_TYPE_I32, {131, 3, 7, 2}, 0, 4), {0, 2, 1, 3}),
          bench.random(GGML_TYPE_I32, {131, 7, 3, 2}, 0, 4)}) {
        double equal = 0;
        for_elements(*a, [&](auto... i) { equal += value_at(*a, i...) == value_at(*b, i...); });
        expect_result(bench, *bench.node<ops::CountEqual>({}, {a, b}), {equal}, 0, 0);
    }
    Tensor* floats = bench.tensor(GGML_TYPE_F32, {131, 7, 3, 2});
    EXPECT_EQ(objection_to(*bench.node<ops::CountEqual>({}, {a, floats})), "a and b are not i32");
}

TEST(CpuReduce, SaysWhyItDeclines) {
    Workbench bench;
    Tensor* halves = bench.tensor(GGML_TYPE_F16, {8, 2, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::SumRows>({}, {halves})), "x is not f32");
    EXPECT_EQ(objection_to(*bench.node<ops::Mean>({}, {halves})), "x is not f32");
    EXPECT_EQ(objection_to(*bench.node<ops::Argmax>({}, {halves})), "x is not f32");
    Tensor* integers = bench.tensor(GGML_TYPE_I32, {8, 2, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::Sum>({}, {integers})), "x is not f32, f16 or bf16");
}

}  // namespace
}  // namespace heddle::cpu
