#include "ops/dsv4.hpp"

#include <gtest/gtest.h>

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

using Weights = std::array<std::array<double, 4>, 4>;  // [from][to]

void normalise(Weights& c, double eps, bool to) {
    for (std::size_t i = 0; i < 4; ++i) {
        double sum = eps;
        for (std::size_t j = 0; j < 4; ++j) sum += to ? c[j][i] : c[i][j];
        for (std::size_t j = 0; j < 4; ++j) (to ? c[j][i] : c[i][j]) /= sum;
    }
}

Weights comb(const Tensor& mixes, const Tensor& scale, const Tensor& base, std::int64_t t,
             double eps, int iterations) {
    Weights c;
    for (std::size_t s = 0; s < 4; ++s) {
        double sum = 0;
        for (std::size_t d = 0; d < 4; ++d) {
            const auto i = static_cast<std::int64_t>(8 + d + 4 * s);
            c[s][d] = std::exp(value_at(mixes, i, t) * value_at(scale, 2) + value_at(base, i));
            sum += c[s][d];
        }
        for (double& weight : c[s]) weight = weight / sum + eps;
    }
    normalise(c, eps, true);
    for (int i = 1; i < iterations; ++i) {
        normalise(c, eps, false);
        normalise(c, eps, true);
    }
    return c;
}

TEST(CpuDsv4, CombinesStreams) {
    for (const int iterations : {1, 2, 20}) {
        Workbench bench;
        Tensor* mixes = bench.slice(bench.random(GGML_TYPE_F32, {30, 7, 1, 1}, -3, 3), {2, 0, 0, 0},
                                    {24, 7, 1, 1});
        Tensor* scale = bench.random(GGML_TYPE_F32, {3, 1, 1, 1});
        Tensor* base = bench.random(GGML_TYPE_F32, {24, 1, 1, 1});
        Tensor* y = bench.node<ops::Dsv4HcComb>({.eps = 1e-6f, .iterations = iterations},
                                                {mixes, scale, base});
        std::vector<double> expected;
        for (std::int64_t t = 0; t < 7; ++t) {
            for (const auto& row : comb(*mixes, *scale, *base, t, 1e-6f, iterations)) {
                expected.insert(expected.end(), row.begin(), row.end());
            }
        }
        expect_result(bench, *y, expected, 1e-5);
    }
}

TEST(CpuDsv4, WeighsStreamsBefore) {
    for (const std::int64_t streams : {1, 4, 5}) {
        Workbench bench;
        Tensor* x = bench.permuted(bench.random(GGML_TYPE_F32, {33, 6, streams, 1}), {0, 2, 1, 3});
        Tensor* weights = bench.random(GGML_TYPE_F32, {streams, 6, 1, 1});
        std::vector<double> expected;
        for (std::int64_t t = 0; t < 6; ++t) {
            for (std::int64_t i = 0; i < 33; ++i) {
                double sum = 0;
                for (std::int64_t h = 0; h < streams; ++h) {
                    sum += value_at(*x, i, h, t) * value_at(*weights, h, t);
                }
                expected.push_back(sum);
            }
        }
        expect_result(bench, *bench.node<ops::Dsv4HcPre>({}, {x, weights}), expected, 1e-5, 1e-6);
    }
}

TEST(CpuDsv4, MixesStreamsAfter) {
    Workbench bench;
    Tensor* x = bench.permuted(bench.random(GGML_TYPE_F32, {5, 19, 1, 1}), {1, 0, 2, 3});
    Tensor* residual = bench.random(GGML_TYPE_F32, {19, 4, 5, 1});
    Tensor* post = bench.random(GGML_TYPE_F32, {4, 5, 1, 1});
    Tensor* comb = bench.random(GGML_TYPE_F32, {4, 4, 5, 1});
    std::vector<double> expected;
    for (std::int64_t t = 0; t < 5; ++t) {
        for (std::int64_t d = 0; d < 4; ++d) {
            for (std::int64_t i = 0; i < 19; ++i) {
                double sum = value_at(*x, i, t) * value_at(*post, d, t);
                for (std::int64_t s = 0; s < 4; ++s) {
                    sum += value_at(*residual, i, s, t) * value_at(*comb, d, s, t);
                }
                expected.push_back(sum);
            }
        }
    }
    expect_result(bench, *bench.node<ops::Dsv4HcPost>({}, {x, residual, post, comb}), expected,
                  1e-5, 1e-6);
}

}  // namespace
}  // namespace heddle::cpu
