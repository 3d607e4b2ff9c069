#include "ops/norm.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "backends/cpu/kernels/test_support.hpp"
#include "ops/backward.hpp"

namespace heddle::cpu {
namespace {

using Rows = std::vector<double>;

/// Applies `definition` to each row of `x` in place.
Rows by_rows(const Tensor& x, const std::function<void(double*, std::int64_t)>& definition) {
    Rows values = values_of(x);
    for (std::int64_t row = 0; row < row_count(x); ++row) {
        definition(values.data() + row * x.ne[0], x.ne[0]);
    }
    return values;
}

void norm(double* x, std::int64_t n, double eps) {
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < n; ++i) mean += x[i] / double(n);
    for (std::int64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean) / double(n);
    for (std::int64_t i = 0; i < n; ++i) x[i] = (x[i] - mean) / std::sqrt(variance + eps);
}

double squares(const double* x, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    return sum;
}

void rms_norm(double* x, std::int64_t n, double eps) {
    const double factor = 1 / std::sqrt(squares(x, n) / double(n) + eps);
    for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void l2_norm(double* x, std::int64_t n, double eps) {
    const double factor = 1 / std::max(std::sqrt(squares(x, n)), eps);
    for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

template <class D>
void expect_norm(Workbench& bench, Tensor* x, float eps,
                 void (*definition)(double*, std::int64_t, double)) {
    const Rows expected =
        by_rows(*x, [&](double* row, std::int64_t n) { definition(row, n, double{eps}); });
    expect_result(bench, *bench.node<D>({eps}, {x}), expected, 5e-6, 1e-5);
}

TEST(CpuNorm, BringsRowsOfEveryLengthToMeanZeroAndVarianceOne) {
    for (const std::int64_t n : {1, 33, 64, 260, 1025}) {
        for (const float eps : {1e-6f, 1e-1f, 10.0f}) {
            Workbench bench;
            Tensor* x = bench.random(GGML_TYPE_F32, {n, 5, 4, 3}, -10, 10);
            expect_norm<ops::Norm>(bench, x, eps, norm);
            expect_norm<ops::RmsNorm>(bench, x, eps, rms_norm);
            expect_norm<ops::L2Norm>(bench, x, eps, l2_norm);
        }
    }
}

TEST(CpuNorm, ReadsViewsAndTransposedTensors) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {132, 10, 8, 6});
    Tensor* part = bench.slice(x, {0, 0, 0, 0}, {66, 5, 4, 3}, {1, 2, 2, 2});
    expect_norm<ops::Norm>(bench, part, 1e-6f, norm);
    expect_norm<ops::RmsNorm>(bench, part, 1e-6f, rms_norm);
    expect_norm<ops::L2Norm>(bench, part, 1e-6f, l2_norm);
    Tensor* turned = bench.permuted(x, {1, 0, 2, 3});
    expect_norm<ops::Norm>(bench, turned, 1e-6f, norm);
    expect_norm<ops::L2Norm>(bench, turned, 1e-6f, l2_norm);
    EXPECT_EQ(objection_to(*bench.node<ops::RmsNorm>({1e-6f}, {turned})), "rows are not dense");
}

TEST(CpuNorm, WritesIntoItsOperandEvenWhenTransposed) {
    for_each_way([](int tasks) {
        Workbench bench;
        Tensor* x = bench.permuted(bench.random(GGML_TYPE_F32, {7, 70, 2, 1}), {1, 0, 2, 3});
        const Rows expected = by_rows(*x, [](double* row, std::int64_t n) { norm(row, n, 1e-6); });
        Tensor* y = bench.node_in_place<ops::Norm>({1e-6f}, {x});
        ASSERT_TRUE(run_node(*y, tasks));
        expect_close(*x, expected, 5e-6, 1e-5);
    });
    for_each_way([](int tasks) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {70, 7, 2, 1});
        const Rows expected =
            by_rows(*x, [](double* row, std::int64_t n) { rms_norm(row, n, 1e-6); });
        ASSERT_TRUE(run_node(*bench.node_in_place<ops::RmsNorm>({1e-6f}, {x}), tasks));
        expect_close(*x, expected, 5e-6);
    });
}

TEST(CpuNorm, AsksForLittleScratchUnlessRowsHaveGaps) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {300, 200, 4, 1});
    Tensor* y = bench.node<ops::Norm>({1e-6f}, {bench.permuted(x, {1, 0, 2, 3})});
    const Rows expected =
        by_rows(*y->src[0], [](double* row, std::int64_t n) { norm(row, n, 1e-6); });
    for (const int threads : {1, 2, 7}) {
        ASSERT_TRUE(run_demanded(*y, threads));
        expect_close(*y, expected, 5e-6, 1e-5);
    }
    const Tensor* dense = bench.node<ops::Norm>({1e-6f}, {x});
    EXPECT_LT(demand_of(*choose_kernel(*dense), *dense, 4).scratch, 300 * sizeof(float));
}

/// Long rows are cut into pieces, which are the same for any number of tasks.
TEST(CpuNorm, SharesLongRowsAndGivesTheSameBits) {
    for (const std::int64_t n : {4096, 20001}) {
        for (const std::int64_t rows : {1, 3, 9}) {
            Workbench bench;
            Tensor* x = bench.random(GGML_TYPE_F32, {n, rows, 1, 1}, 90, 91);  // far from zero
            Tensor* y = bench.node<ops::Norm>({1e-6f}, {x});
            expect_result(
                bench, *y,
                by_rows(*x, [](double* row, std::int64_t count) { norm(row, count, 1e-6); }), 1e-4,
                1e-4);
            Tensor* r = bench.node<ops::RmsNorm>({1e-6f}, {x});
            Tensor* l = bench.node<ops::L2Norm>({1e-6f}, {x});
            for (Tensor* node : {y, r, l}) {
                ASSERT_TRUE(run_node(*node, 1));
                const Rows once = values_of(*node);
                for (const int tasks : {2, 3, 7}) {
                    ASSERT_TRUE(run_node(*node, tasks));
                    EXPECT_EQ(values_of(*node), once) << tasks << " tasks, " << rows << " rows";
                }
                ASSERT_TRUE(run_demanded(*node, 4));
                EXPECT_EQ(values_of(*node), once);
            }
        }
    }
}

/// Single squares fit a float, but the sum of a few of them does not.
TEST(CpuNorm, TakesValuesWhoseSquaresHardlyFit) {
    for (const std::int64_t n : {70, 5000}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {n, 3, 1, 1}, 4e18, 1e19);
        expect_norm<ops::RmsNorm>(bench, x, 1e-6f, rms_norm);
        expect_norm<ops::L2Norm>(bench, x, 1e-6f, l2_norm);
    }
}

TEST(CpuGroupNorm, NormsGroupsOfChannels) {
    for (const auto& [shape, groups] : {std::pair{Extents{8, 5, 12, 2}, 4},
                                        {Extents{9, 9, 10, 1}, 4},
                                        {Extents{7, 3, 5, 2}, 4},
                                        {Extents{16, 4, 6, 1}, 1}}) {
        for (const bool padded : {false, true}) {
            SCOPED_TRACE(testing::Message() << describe(shape) << " " << groups << " " << padded);
            Workbench bench;
            const Extents room{shape[0] + (padded ? 3 : 0), shape[1], shape[2], shape[3]};
            Tensor* x = bench.slice(bench.random(GGML_TYPE_F32, room, -3, 5), {0, 0, 0, 0}, shape);
            Rows expected = values_of(*x);
            const std::int64_t plane = shape[0] * shape[1], each = (shape[2] + groups - 1) / groups;
            for (std::int64_t batch = 0; batch < shape[3]; ++batch) {
                for (std::int64_t first = 0; first < shape[2]; first += each) {
                    const std::int64_t count = std::min(each, shape[2] - first);
                    norm(expected.data() + (batch * shape[2] + first) * plane, plane * count, 1e-6);
                }
            }
            Tensor* y = bench.node<ops::GroupNorm>({.n_groups = groups, .eps = 1e-6f}, {x});
            expect_result(bench, *y, expected, 5e-6, 1e-5);
        }
    }
}

TEST(CpuGroupNorm, KeepsItsDigitsWhereTheStartOfAGroupIsUnlikeTheRest) {
    for (const double start : {0.0, 3.0, 1000.0}) {
        Workbench bench;
        const Extents shape{9, 20, 3, 1};
        Tensor* x = bench.slice(bench.random(GGML_TYPE_F32, {10, 20, 3, 1}, 2, 4), {0, 0, 0, 0},
                                shape);  // in rows of their own, of which the first is the start
        for (std::int64_t i = 0; i < shape[0]; ++i) *at<float>(*x, i) = static_cast<float>(start);
        Rows expected = values_of(*x);
        norm(expected.data(), element_count(*x), 1e-6);
        Tensor* y = bench.node<ops::GroupNorm>({.n_groups = 1, .eps = 1e-6f}, {x});
        expect_result(bench, *y, expected, 5e-6, 1e-5);
    }
}

TEST(CpuRmsNormBack, IsTheGradientOfRmsNorm) {
    for (const std::int64_t n : {64, 1025}) {
        Workbench bench;
        Tensor* dy = bench.random(GGML_TYPE_F32, {n, 3, 2, 1}, -10, 10);
        Tensor* x = bench.slice(bench.random(GGML_TYPE_F32, {n + 5, 3, 2, 1}, -10, 10),
                                {2, 0, 0, 0}, {n, 3, 2, 1});
        constexpr double eps = 1e-3;
        const Rows values_dy = values_of(*dy), values_x = values_of(*x);
        Rows expected(values_x.size());
        for (std::size_t start = 0; start < expected.size(); start += static_cast<std::size_t>(n)) {
            double sxx = 0, sxd = 0;
            for (std::size_t i = start; i < start + static_cast<std::size_t>(n); ++i) {
                sxx += values_x[i] * values_x[i];
                sxd += values_x[i] * values_dy[i];
            }
            for (std::size_t i = start; i < start + static_cast<std::size_t>(n); ++i) {
                expected[i] = (values_dy[i] - values_x[i] * sxd / (sxx + double(n) * eps)) /
                              std::sqrt(sxx / double(n) + eps);
            }
        }
        expect_result(bench, *bench.node<ops::RmsNormBack>({1e-3f}, {dy, x}), expected, 5e-6, 1e-5);
    }
}

TEST(CpuNorm, SaysWhyItDeclines) {
    Workbench bench;
    Tensor* halves = bench.tensor(GGML_TYPE_F16, {8, 2, 1, 1});
    Tensor* x = bench.tensor(GGML_TYPE_F32, {8, 2, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::Norm>({0}, {halves})), "x is not f32");
    EXPECT_EQ(objection_to(*bench.node<ops::RmsNorm>({-1}, {x})), "eps is negative");
    EXPECT_EQ(objection_to(*bench.node<ops::GroupNorm>({.n_groups = 1, .eps = 0}, {halves})),
              "x is not f32");
}

}  // namespace
}  // namespace heddle::cpu
