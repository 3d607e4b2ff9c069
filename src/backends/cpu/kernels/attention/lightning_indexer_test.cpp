#include "ops/lightning_indexer.hpp"

#include <gtest/gtest.h>

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

std::vector<double> index_scores(const Tensor& q, const Tensor& k, const Tensor& weights,
                                 const Tensor& mask) {
    std::vector<double> values;
    for (std::int64_t s = 0; s < q.ne[3]; ++s) {
        for (std::int64_t t = 0; t < q.ne[2]; ++t) {
            for (std::int64_t j = 0; j < k.ne[2]; ++j) {
                double sum = value_at(mask, j, t, 0, s % mask.ne[3]);
                for (std::int64_t h = 0; h < q.ne[1]; ++h) {
                    double dot = 0;
                    for (std::int64_t d = 0; d < q.ne[0]; ++d) {
                        dot += value_at(q, d, h, t, s) * value_at(k, d, 0, j, s);
                    }
                    sum += value_at(weights, h, t, 0, s) * std::max(0.0, dot);
                }
                values.push_back(sum);
            }
        }
    }
    return values;
}

TEST(CpuLightningIndexer, ScoresKeysOfEveryType) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                            GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL}) {
        for (const std::int64_t keys : {1, 67}) {
            SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(keys));
            Workbench bench;
            Tensor* q = bench.random(GGML_TYPE_F32, {64, 20, 17, 2});
            Tensor* k = bench.random(type, {64, 1, keys, 2});
            Tensor* weights = bench.random(GGML_TYPE_F32, {20, 17, 1, 2});
            Tensor* mask = bench.random(GGML_TYPE_F16, {keys, 17, 1, 1});
            *at<std::uint16_t>(*mask, keys - 1, 4) = 0xfc00;
            Tensor* y = bench.node<ops::LightningIndexer>({}, {q, k, weights, mask});
            expect_result(bench, *y, index_scores(*q, *k, *weights, *mask), 1e-5, 1e-4);
        }
    }
}

TEST(CpuLightningIndexer, HonoursStrides) {
    Workbench bench;
    Tensor* q = bench.slice(bench.random(GGML_TYPE_F32, {40, 5, 6, 1}), {4, 1, 0, 0}, {32, 3, 3, 1},
                            {1, 1, 2, 1});
    Tensor* k = bench.slice(bench.random(GGML_TYPE_F16, {64, 1, 30, 1}), {8, 0, 0, 0},
                            {32, 1, 15, 1}, {1, 1, 2, 1});
    Tensor* weights =
        bench.slice(bench.random(GGML_TYPE_F32, {8, 3, 1, 1}), {2, 0, 0, 0}, {3, 3, 1, 1});
    Tensor* mask =
        bench.slice(bench.random(GGML_TYPE_F16, {20, 3, 1, 1}), {1, 0, 0, 0}, {15, 3, 1, 1});
    Tensor* y = bench.node<ops::LightningIndexer>({}, {q, k, weights, mask});
    expect_result(bench, *y, index_scores(*q, *k, *weights, *mask), 1e-5, 1e-4);
}

TEST(CpuLightningIndexer, DeclinesIntegers) {
    Workbench bench;
    Tensor* y = bench.node<ops::LightningIndexer>(
        {}, {bench.tensor(GGML_TYPE_F32, {32, 2, 3, 1}), bench.tensor(GGML_TYPE_I32, {32, 1, 4, 1}),
             bench.tensor(GGML_TYPE_F32, {2, 3, 1, 1}), bench.tensor(GGML_TYPE_F16, {4, 3, 1, 1})});
    EXPECT_EQ(objection_to(*y), "keys have a type that cannot be decoded");
}

}  // namespace
}  // namespace heddle::cpu
