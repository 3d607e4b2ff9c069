#include "ops/soft_max.hpp"

#include <gtest/gtest.h>

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

double slope(double max_bias, std::int64_t heads, std::int64_t head) {
    if (max_bias <= 0) return 1;
    const double whole = std::exp2(std::floor(std::log2(double(heads))));
    if (double(head) < whole) return std::pow(std::exp2(-max_bias / whole), double(head + 1));
    return std::pow(std::exp2(-max_bias / 2 / whole), 2 * (double(head) - whole) + 1);
}

std::vector<double> expected_of(const Tensor& node) {
    const auto params = unpack<ops::SoftMax::Params>(node);
    const Tensor& x = *node.src[0];
    const Tensor *mask = node.src[1], *sinks = node.src[2];
    std::vector<double> result;
    for (std::int64_t r = 0; r < row_count(x); ++r) {
        const std::int64_t i1 = r % x.ne[1], i2 = r / x.ne[1] % x.ne[2],
                           i3 = r / (x.ne[1] * x.ne[2]);
        std::vector<double> row;
        for (std::int64_t i = 0; i < x.ne[0]; ++i) {
            double logit = params.scale * value_at(x, i, i1, i2, i3);
            if (mask != nullptr) {
                logit += slope(params.max_bias, x.ne[2], i2) *
                         value_at(*mask, i, i1, i2 % mask->ne[2], i3 % mask->ne[3]);
            }
            row.push_back(logit);
        }
        double largest = *std::max_element(row.begin(), row.end()), sum = 0;
        if (sinks != nullptr) largest = std::max(largest, value_at(*sinks, i2));
        for (double& value : row) sum += value = std::exp(value - largest);
        if (sinks != nullptr) sum += std::exp(value_at(*sinks, i2) - largest);
        for (const double value : row) result.push_back(value / sum);
    }
    return result;
}

TEST(CpuSoftMax, WeighsRowsWithMaskSlopesAndSinks) {
    for (const std::int64_t n : {1, 15, 16, 1023}) {
        for (const Type mask_type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            for (const float max_bias : {0.0f, 8.0f}) {
                for (const bool has_sinks : {false, true}) {
                    Workbench bench;
                    Tensor* x = bench.random(GGML_TYPE_F32, {n, 4, 6, 3}, -5, 5);
                    Tensor* mask = bench.random(mask_type, {n, 5, 2, 3}, -2, 2);
                    Tensor* y =
                        bench.node<ops::SoftMax>({.scale = 0.7f, .max_bias = max_bias}, {x, mask});
                    if (has_sinks) y->src[2] = bench.random(GGML_TYPE_F32, {6, 1, 1, 1}, -10, 10);
                    expect_result(bench, *y, expected_of(*y), 1e-5, 1e-9);
                }
            }
        }
    }
}

TEST(CpuSoftMax, NeedsNoMask) {
    Workbench bench;
    Tensor* y = bench.node<ops::SoftMax>({.scale = 1},
                                         {bench.random(GGML_TYPE_F32, {20001, 3, 2, 1}, -9, 9)});
    expect_result(bench, *y, expected_of(*y), 1e-5, 1e-9);
}

TEST(CpuSoftMax, TakesAnyScale) {
    for (const float scale : {0.125f, -0.5f, 0.0f, 30.0f}) {
        for (const std::int64_t n : {5, 70, 4100}) {
            Workbench bench;
            Tensor* x = bench.random(GGML_TYPE_F32, {n, 3, 2, 1}, -9, 9);
            Tensor* y = bench.node<ops::SoftMax>({.scale = scale}, {x});
            expect_result(bench, *y, expected_of(*y), 3e-5, 1e-12);
        }
    }
}

/// Pieces of a long row may have far smaller logits than others, or none that counts.
TEST(CpuSoftMax, SharesLongRowsAndGivesTheSameBits) {
    constexpr std::int64_t n = 9001;
    for (const std::int64_t rows : {1, 3}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {n, rows, 1, 1}, -9, 9);
        Tensor* mask = bench.random(GGML_TYPE_F16, {n, rows, 1, 1}, -2, 2);
        std::vector<double> weights = values_of(*mask);
        for (std::size_t i = 2000; i < 7000; ++i) weights[i] = -INFINITY;
        for (std::size_t i = 7000; i < 9001; ++i) weights[i] -= 40;
        set_values(*mask, weights);
        Tensor* y = bench.node<ops::SoftMax>({.scale = 0.5f}, {x, mask});
        expect_result(bench, *y, expected_of(*y), 1e-5, 1e-12);
        ASSERT_TRUE(run_node(*y, 1));
        const std::vector<double> once = values_of(*y);
        EXPECT_EQ(once[3000], 0);
        for (const int tasks : {2, 3, 7}) {
            ASSERT_TRUE(run_node(*y, tasks));
            EXPECT_EQ(values_of(*y), once);
        }
        ASSERT_TRUE(run_demanded(*y, 4));
        EXPECT_EQ(values_of(*y), once);
    }
}

TEST(CpuSoftMax, IsNanAsAWholeWhereOneLogitIs) {
    for (const double strange : {double{NAN}, double{INFINITY}}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {5000, 1, 1, 1}, -9, 9);
        *at<float>(*x, 2500) = static_cast<float>(strange);
        Tensor* y = bench.node<ops::SoftMax>({.scale = 1}, {x});
        expect_result(bench, *y, std::vector<double>(5000, NAN), 0);
    }
}

TEST(CpuSoftMax, WritesIntoItsOperandOrItsMask) {
    for (const bool into_mask : {false, true}) {
        for_each_way([&](int tasks) {
            Workbench bench;
            Tensor* x = bench.random(GGML_TYPE_F32, {70, 4, 2, 1}, -5, 5);
            Tensor* mask = bench.random(GGML_TYPE_F32, {70, 4, 2, 1}, -5, 5);
            Tensor* y = bench.node<ops::SoftMax>({.scale = 1}, {x, mask});
            const auto expected = expected_of(*y);
            y->data = into_mask ? mask->data : x->data;
            ASSERT_TRUE(run_node(*y, tasks));
            expect_close(*y, expected, 1e-5);
        });
    }
}

/// Rows of one piece, or of equal ones, are finished while later rows are computed.
TEST(CpuSoftMax, KeepsRowsApartThatAreUnderWayTogether) {
    for (const std::int64_t n : {70, 2048, 4096}) {
        for_each_way([&](int tasks) {
            Workbench bench;
            Tensor* x = bench.random(GGML_TYPE_F32, {n, 5, 3, 1}, -9, 9);
            Tensor* y = bench.node<ops::SoftMax>({.scale = 1}, {x});
            auto expected = expected_of(*y);
            *at<float>(*x, n - 1, 4, 1) = NAN;
            std::fill_n(expected.begin() + 9 * n, n, NAN);
            y->data = x->data;
            ASSERT_TRUE(run_node(*y, tasks));
            expect_close(*y, expected, 1e-5);
        });
    }
}

TEST(CpuSoftMax, GivesMaskedElementsExactlyNothing) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {3, 2, 1, 1});
    Tensor* mask = bench.numbers(GGML_TYPE_F16, {3, 2, 1, 1},
                                 {0, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY});
    Tensor* y = bench.node<ops::SoftMax>({.scale = 1}, {x, mask});
    expect_result(bench, *y, {1, 0, 0, NAN, NAN, NAN}, 0, 0);
    y->src[2] = bench.numbers(GGML_TYPE_F32, {1, 1, 1, 1}, {-1000});
    expect_result(bench, *y, {1, 0, 0, 0, 0, 0}, 0, 0);
}

/// Rows that are far apart take as much memory as a large result, with less to compute.
TEST(CpuSoftMax, IsTheSameToTheBitWhereNoCacheHoldsResults) {
    constexpr std::int64_t rows = 24, pitch = 1 << 20;
    for (const std::int64_t n : {100, 2048, 4096, 4100}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {n, rows, 1, 1}, -9, 9);
        Tensor* mask = bench.random(GGML_TYPE_F16, {n, rows, 1, 1}, -2, 2);
        Tensor* near = bench.node<ops::SoftMax>({.scale = 0.3f}, {x, mask});
        Tensor* far = bench.node<ops::SoftMax>({.scale = 0.3f}, {x, mask});
        auto* memory =
            static_cast<std::byte*>(bench.tensor(GGML_TYPE_F32, {pitch / 4, rows + 1, 1, 1})->data);
        far->nb[1] = pitch;
        far->nb[2] = far->nb[3] = rows * pitch;
        for (const std::size_t offset : {0, 16}) {  // with 16, rows do not begin a cache line
            far->data = memory + offset;
            for_each_way([&](int tasks) {
                ASSERT_TRUE(run_node(*near, tasks));
                ASSERT_TRUE(run_node(*far, tasks));
                EXPECT_EQ(values_of(*near), values_of(*far)) << n << " by " << tasks;
            });
        }
        const Kernel& kernel = *choose_kernel(*far);
        EXPECT_GT(demand_of(kernel, *far, 1).scratch, demand_of(kernel, *near, 1).scratch);
    }
}

TEST(CpuSoftMax, SaysWhyItDeclines) {
    Workbench bench;
    Tensor* halves = bench.tensor(GGML_TYPE_F16, {8, 2, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::SoftMax>({.scale = 1}, {halves})), "x is not f32");
    Tensor* x = bench.tensor(GGML_TYPE_F32, {8, 2, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::SoftMaxBack>({.scale = 1, .max_bias = 8}, {x, x})),
              "max_bias is not 0");
    Tensor* short_mask = bench.node<ops::SoftMax>({.scale = 1}, {x, x});
    short_mask->src[1] = bench.tensor(GGML_TYPE_F32, {8, 1, 1, 1});
    EXPECT_EQ(objection_to(*short_mask), "the mask does not cover the rows of x");
}

TEST(CpuSoftMaxBack, IsTheGradientOfSoftMax) {
    for (const int alias : {0, 1, 2}) {
        for_each_way([&](int tasks) {
            Workbench bench;
            Tensor* dy = bench.random(GGML_TYPE_F32, {77, 3, 2, 1});
            Tensor* y = bench.random(GGML_TYPE_F32, {77, 3, 2, 1}, 0, 1);
            const std::vector<double> values_dy = values_of(*dy), values_y = values_of(*y);
            std::vector<double> expected(values_y.size());
            for (std::size_t start = 0; start < expected.size(); start += 77) {
                double sum = 0;
                for (std::size_t i = start; i < start + 77; ++i) sum += values_dy[i] * values_y[i];
                for (std::size_t i = start; i < start + 77; ++i) {
                    expected[i] = 0.5 * values_y[i] * (values_dy[i] - sum);
                }
            }
            Tensor* dx = bench.node<ops::SoftMaxBack>({.scale = 0.5f}, {dy, y});
            if (alias != 0) dx->data = alias == 1 ? dy->data : y->data;
            ASSERT_TRUE(run_node(*dx, tasks));
            expect_close(*dx, expected, 1e-5, 1e-5);
        });
    }
}

}  // namespace
}  // namespace heddle::cpu
