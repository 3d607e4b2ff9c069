#include "ops/optimizer.hpp"

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

/// Weights and what goes with them: the same extents, rows of the same pitch.
Tensor* make_operand(Workbench& bench, const Extents& extent, std::int64_t gap, double low = -1) {
    Tensor* whole =
        bench.random(GGML_TYPE_F32, {extent[0] + gap, extent[1], extent[2], extent[3]}, low, 1);
    return gap == 0 ? whole : bench.slice(whole, {}, extent);
}

const Extents kShapes[] = {{10, 5, 4, 3}, {1, 1, 1, 1}, {259, 3, 1, 1}};

TEST(Adamw, UpdatesWeightsAndBothMoments) {
    for (const Extents& extent : kShapes) {
        for (const std::int64_t gap : {0, 3}) {
            SCOPED_TRACE(describe(extent));
            Workbench bench;
            Tensor* weights = make_operand(bench, extent, gap);
            Tensor* gradient = make_operand(bench, extent, gap);
            Tensor* m = make_operand(bench, extent, gap);
            Tensor* v = make_operand(bench, extent, gap, 0);
            const std::vector<double> w0 = values_of(*weights), g = values_of(*gradient);
            const std::vector<double> m0 = values_of(*m), v0 = values_of(*v);
            const double alpha = 0.25, beta1 = 0.875, beta2 = 0.75, eps = 0.125, decay = 0.5;
            const double correct_m = 8, correct_v = 4;
            Tensor* values = bench.numbers(GGML_TYPE_F32, {7, 1, 1, 1},
                                           {alpha, beta1, beta2, eps, decay, correct_m, correct_v});
            std::vector<double> w1 = w0, m1 = m0, v1 = v0;
            for (std::size_t i = 0; i < w0.size(); ++i) {
                m1[i] = m0[i] * beta1 + g[i] * (1 - beta1);
                v1[i] = v0[i] * beta2 + g[i] * g[i] * (1 - beta2);
                w1[i] = w0[i] * (1 - alpha * decay) -
                        alpha * (m1[i] * correct_m) / (std::sqrt(v1[i] * correct_v) + eps);
            }
            weights->flags |= GGML_TENSOR_FLAG_PARAM;
            Tensor* node = bench.node<ops::OptStepAdamw>({}, {weights, gradient, m, v, values});
            for_each_way([&](int tasks) {
                set_values(*weights, w0);
                set_values(*m, m0);
                set_values(*v, v0);
                ASSERT_TRUE(run_node(*node, tasks));
                expect_close(*weights, w1, 1e-6, 1e-6);
                expect_close(*m, m1, 1e-6, 1e-6);
                expect_close(*v, v1, 1e-6, 1e-6);
                bench.expect_intact();
            });
        }
    }
}

TEST(Adamw, ZeroOverZeroIsNan) {
    Workbench bench;
    const Extents extent{5, 1, 1, 1};
    Tensor* weights = make_operand(bench, extent, 0);
    weights->flags |= GGML_TENSOR_FLAG_PARAM;
    const auto zeros = [&] { return bench.numbers(GGML_TYPE_F32, extent, std::vector<double>(5)); };
    Tensor* values = bench.numbers(GGML_TYPE_F32, {7, 1, 1, 1}, {0.1, 0.9, 0.99, 0, 0, 1, 1});
    Tensor* node = bench.node<ops::OptStepAdamw>({}, {weights, zeros(), zeros(), zeros(), values});
    expect_result(bench, *node, std::vector<double>(5, NAN), 0);
}

TEST(Sgd, UpdatesWeights) {
    for (const Extents& extent : kShapes) {
        for (const std::int64_t gap : {0, 3}) {
            SCOPED_TRACE(describe(extent));
            Workbench bench;
            Tensor* weights = make_operand(bench, extent, gap);
            Tensor* gradient = make_operand(bench, extent, 5 - gap);
            const std::vector<double> before = values_of(*weights), g = values_of(*gradient);
            Tensor* values = bench.numbers(GGML_TYPE_F32, {2, 1, 1, 1}, {0.125, 0.5});
            std::vector<double> after = before;
            for (std::size_t i = 0; i < after.size(); ++i) {
                after[i] = before[i] * (1 - 0.125 * 0.5) - 0.125 * g[i];
            }
            weights->flags |= GGML_TENSOR_FLAG_PARAM;
            Tensor* node = bench.node<ops::OptStepSgd>({}, {weights, gradient, values});
            for_each_way([&](int tasks) {
                set_values(*weights, before);
                ASSERT_TRUE(run_node(*node, tasks));
                expect_close(*weights, after, 1e-6, 1e-6);
                bench.expect_intact();
            });
        }
    }
}

TEST(Optimizer, DeclinesOtherTypesAndLayouts) {
    Workbench bench;
    Tensor* values = bench.tensor(GGML_TYPE_F32, {2, 1, 1, 1});
    Tensor* halves = bench.tensor(GGML_TYPE_F16, {4, 4, 1, 1});
    halves->flags |= GGML_TENSOR_FLAG_PARAM;
    EXPECT_EQ(objection_to(*bench.node<ops::OptStepSgd>({}, {halves, halves, values})), "only f32");
    Tensor* weights = bench.tensor(GGML_TYPE_F32, {4, 4, 1, 1});
    weights->flags |= GGML_TENSOR_FLAG_PARAM;
    Tensor* turned = bench.permuted(weights, {1, 0, 2, 3});
    EXPECT_EQ(objection_to(*bench.node<ops::OptStepSgd>({}, {weights, turned, values})),
              "rows are not dense");
}

}  // namespace
}  // namespace heddle::cpu
