#include "ops/sort.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "backends/cpu/kernels/test_support.hpp"
#include "ggml/ops_reduce.h"

namespace heddle::cpu {
namespace {

/// Indices that sort each row, equal values in the order of their indices.
std::vector<double> sorted_indices(const Tensor& x, bool falling) {
    std::vector<double> result;
    const std::vector<double> values = values_of(x);
    for (std::int64_t row = 0; row < row_count(x); ++row) {
        const double* start = values.data() + row * x.ne[0];
        std::vector<std::size_t> order(static_cast<std::size_t>(x.ne[0]));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return falling ? start[a] > start[b] : start[a] < start[b];
        });
        for (const std::size_t index : order) result.push_back(static_cast<double>(index));
    }
    return result;
}

TEST(CpuArgsort, SortsRowsOfEveryLengthBothWays) {
    for (const std::int64_t n : {1, 2, 3, 7, 16, 60, 96, 97, 192, 193, 1023, 1025, 5000}) {
        for (const auto order : {GGML_SORT_ORDER_ASC, GGML_SORT_ORDER_DESC}) {
            Workbench bench;
            Tensor* x = bench.slice(bench.random(GGML_TYPE_F32, {n + 1, 3, 2, 1}), {0, 0, 0, 0},
                                    {n, 3, 2, 1});
            Tensor* y = bench.node<ops::Argsort>({.order = order}, {x});
            expect_result(bench, *y, sorted_indices(*x, order == GGML_SORT_ORDER_DESC), 0, 0);
            ASSERT_TRUE(run_demanded(*y, 4));
        }
    }
}

TEST(CpuArgsort, KeepsTheOrderOfEqualsAndPutsNanLast) {
    Workbench bench;
    Tensor* x =
        bench.numbers(GGML_TYPE_F32, {6, 1, 1, 1}, {0.0, NAN, -1, -0.0, INFINITY, -INFINITY});
    expect_result(bench, *bench.node<ops::Argsort>({.order = GGML_SORT_ORDER_ASC}, {x}),
                  {5, 2, 0, 3, 4, 1}, 0, 0);
    expect_result(bench, *bench.node<ops::Argsort>({.order = GGML_SORT_ORDER_DESC}, {x}),
                  {4, 0, 3, 2, 5, 1}, 0, 0);
}

/// The first k indices that sort each row, the largest value first.
std::vector<double> largest_indices(const Tensor& x, std::int64_t k) {
    std::vector<double> result;
    const std::vector<double> all = sorted_indices(x, true);
    for (std::int64_t row = 0; row < row_count(x); ++row) {
        const auto start = all.begin() + row * x.ne[0];
        result.insert(result.end(), start, start + k);
    }
    return result;
}

TEST(CpuTopK, GivesTheLargestOfEachRow) {
    for (const auto& [n, k] : {std::pair{1, 1},
                               {7, 7},
                               {64, 8},
                               {100, 3},
                               {128, 8},
                               {300, 1},
                               {1000, 500},
                               {1027, 40},
                               {20000, 1},
                               {20000, 100}}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {n, 3, 2, 1});
        Tensor* y = bench.node<ops::TopK>({.k = k}, {x});
        expect_result(bench, *y, largest_indices(*x, k), 0, 0);
        ASSERT_TRUE(run_demanded(*y, 4));
    }
}

/// Values of a long row, in orders that are hard on a search that looks at columns first.
void expect_largest_of(double (*value)(int)) {
    constexpr int n = 5000, k = 40;
    Workbench bench;
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(value(i));
    Tensor* x = bench.numbers(GGML_TYPE_F32, {n, 1, 1, 1}, values);
    Tensor* y = bench.node<ops::TopK>({.k = k}, {x});
    expect_result(bench, *y, largest_indices(*x, k), 0, 0);
}

TEST(CpuTopK, DoesNotDependOnWhereTheLargestAre) {
    expect_largest_of([](int i) { return double(i); });
    expect_largest_of([](int i) { return double(-i); });
    expect_largest_of([](int i) { return i % 64 == 5 ? double(i) : -double(i); });  // in a column
    expect_largest_of([](int i) { return i % 64 == 5 ? double(-i) : -1e9; });
}

TEST(CpuTopK, TakesTheFirstOfEquals) {
    expect_largest_of([](int) { return 1.0; });
    expect_largest_of([](int i) { return double(i % 3); });
    expect_largest_of([](int i) { return i % 1000 == 7 ? 2.0 : 1.0; });
    expect_largest_of([](int i) { return i % 500 == 7 ? 2.0 : double(-INFINITY); });
    expect_largest_of([](int i) { return i % 2 == 0 ? 0.0 : -0.0; });
}

TEST(CpuTopK, TakesNanOnlyWhereNothingElseIsLeft) {
    constexpr int n = 2000, k = 4;
    Workbench bench;
    std::vector<double> values(n, NAN);
    values[900] = -INFINITY, values[1500] = 3;
    Tensor* x = bench.numbers(GGML_TYPE_F32, {n, 1, 1, 1}, values);
    expect_result(bench, *bench.node<ops::TopK>({.k = k}, {x}), {1500, 900, 0, 1}, 0, 0);
}

TEST(CpuSort, SaysWhyItDeclines) {
    Workbench bench;
    Tensor* x = bench.tensor(GGML_TYPE_F16, {8, 1, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::Argsort>({}, {x})), "x is not f32");
    EXPECT_EQ(objection_to(*bench.node<ops::Argsort>({.order = 2},
                                                     {bench.tensor(GGML_TYPE_F32, {8, 1, 1, 1})})),
              "the order is neither ascending nor descending");
}

}  // namespace
}  // namespace heddle::cpu
