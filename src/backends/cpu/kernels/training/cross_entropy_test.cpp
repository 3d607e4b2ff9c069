#include "backends/cpu/kernels/test_support.hpp"
#include "ops/loss.hpp"

namespace heddle::cpu {
namespace {

/// soft_max of a row, in double.
std::vector<double> soft_max(const Tensor& x, const Row& row) {
    std::vector<double> values;
    double most = -INFINITY, sum = 0;
    for (std::int64_t i = 0; i < x.ne[0]; ++i) {
        values.push_back(value_at(x, i, row.i1, row.i2, row.i3));
        most = std::max(most, values.back());
    }
    for (double& value : values) sum += value = std::exp(value - most);
    for (double& value : values) value /= sum;
    return values;
}

/// Rows of labels that sum to 1.
Tensor* make_labels(Workbench& bench, const Extents& extent) {
    Tensor* labels = bench.random(GGML_TYPE_F32, extent, 0, 1);
    for_rows(*labels, {0, row_count(*labels)}, [&](const Row& row) {
        auto* values = row_at<float>(*labels, row);
        float sum = 0;
        for (std::int64_t i = 0; i < extent[0]; ++i) sum += values[i];
        for (std::int64_t i = 0; i < extent[0]; ++i) values[i] /= sum;
    });
    return labels;
}

const Extents kShapes[] = {
    {10, 5, 4, 3}, {1, 3, 1, 1}, {513, 2, 1, 1}, {1537, 7, 1, 1}, {30000, 3, 1, 1}};

TEST(CrossEntropy, IsTheMeanOverRows) {
    for (const Extents& extent : kShapes) {
        SCOPED_TRACE(describe(extent));
        Workbench bench;
        Tensor* logits = bench.random(GGML_TYPE_F32, extent, -100, 100);
        Tensor* labels = make_labels(bench, extent);
        double expected = 0;
        for_rows(*logits, {0, row_count(*logits)}, [&](const Row& row) {
            const std::vector<double> shares = soft_max(*logits, row);
            for (std::int64_t i = 0; i < extent[0]; ++i) {
                // Logarithms of shares that are too small for a double would be infinite.
                const double best = value_at(*logits, 0, row.i1, row.i2, row.i3);
                const double log_share =
                    value_at(*logits, i, row.i1, row.i2, row.i3) - best + std::log(shares[0]);
                expected -= value_at(*labels, i, row.i1, row.i2, row.i3) * log_share;
            }
        });
        expected /= static_cast<double>(row_count(*logits));
        Tensor* loss = bench.node<ops::CrossEntropyLoss>({}, {logits, labels});
        // Sums of few hundred positive numbers in single precision, the rest in double.
        expect_result(bench, *loss, {expected}, 2e-6, 1e-6);
    }
}

TEST(CrossEntropy, DoesNotDependOnTheNumberOfTasks) {
    Workbench bench;
    Tensor* logits = bench.random(GGML_TYPE_F32, {777, 13, 1, 1}, -10, 10);
    Tensor* labels = make_labels(bench, {777, 13, 1, 1});
    Tensor* loss = bench.node<ops::CrossEntropyLoss>({}, {logits, labels});
    for_each_target([&] {
        ASSERT_TRUE(run_node(*loss, 1));
        const double first = value_at(*loss, 0);
        for (const int tasks : {2, 3, 5, 16}) {
            ASSERT_TRUE(run_node(*loss, tasks));
            ASSERT_EQ(value_at(*loss, 0), first) << tasks << " tasks";
        }
    });
}

TEST(CrossEntropy, FollowsThePitchOfRows) {
    Workbench bench;
    Tensor* logits =
        bench.slice(bench.random(GGML_TYPE_F32, {20, 6, 1, 1}), {3, 1, 0, 0}, {10, 4, 1, 1});
    Tensor* labels = make_labels(bench, {10, 4, 1, 1});
    double expected = 0;
    for_rows(*logits, {0, 4}, [&](const Row& row) {
        const std::vector<double> shares = soft_max(*logits, row);
        for (std::int64_t i = 0; i < 10; ++i) {
            expected -=
                value_at(*labels, i, row.i1) * std::log(shares[static_cast<std::size_t>(i)]) / 4;
        }
    });
    expect_result(bench, *bench.node<ops::CrossEntropyLoss>({}, {logits, labels}), {expected},
                  1e-6);
}

TEST(CrossEntropyBack, IsTheWeightedDifference) {
    for (const Extents& extent : kShapes) {
        SCOPED_TRACE(describe(extent));
        Workbench bench;
        Tensor* dy = bench.numbers(GGML_TYPE_F32, {1, 1, 1, 1}, {0.75});
        Tensor* logits = bench.random(GGML_TYPE_F32, extent, -100, 100);
        Tensor* labels = make_labels(bench, extent);
        std::vector<double> expected;
        for_rows(*logits, {0, row_count(*logits)}, [&](const Row& row) {
            const std::vector<double> shares = soft_max(*logits, row);
            for (std::int64_t i = 0; i < extent[0]; ++i) {
                const double label = value_at(*labels, i, row.i1, row.i2, row.i3);
                expected.push_back((shares[static_cast<std::size_t>(i)] - label) * 0.75 /
                                   static_cast<double>(row_count(*logits)));
            }
        });
        Tensor* dx = bench.node<ops::CrossEntropyLossBack>({}, {dy, logits, labels});
        // A difference of numbers below 1 keeps an absolute error.
        expect_result(bench, *dx, expected, 2e-6, 1e-6);
    }
}

TEST(CrossEntropy, DeclinesOtherTypesAndLayouts) {
    Workbench bench;
    Tensor* halves = bench.tensor(GGML_TYPE_F16, {4, 2, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::CrossEntropyLoss>({}, {halves, halves})), "only f32");
    Tensor* x = bench.tensor(GGML_TYPE_F32, {4, 4, 1, 1});
    Tensor* turned = bench.permuted(x, {1, 0, 2, 3});
    EXPECT_EQ(objection_to(*bench.node<ops::CrossEntropyLoss>({}, {turned, x})),
              "rows are not dense");
    Tensor* dy = bench.tensor(GGML_TYPE_F32, {1, 1, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::CrossEntropyLossBack>({}, {dy, x, turned})),
              "rows are not dense");
}

}  // namespace
}  // namespace heddle::cpu
