#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/kernels/test_support.hpp"
#include "ops/flash_attn.hpp"

/// Attention by its definition, and how kernels are compared with it.
namespace heddle::cpu {

inline constexpr double kNoScore = -std::numeric_limits<double>::infinity();

struct Operands {
    Tensor *q, *k, *v, *mask = nullptr, *sinks = nullptr;
};

inline double slope_of(std::int64_t head, std::int64_t heads, double max_bias) {
    if (max_bias <= 0) return 1;
    const auto low = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
    const double base = std::exp2(-max_bias / static_cast<double>(low));
    return head < low ? std::pow(base, static_cast<double>(head + 1))
                      : std::pow(std::sqrt(base), static_cast<double>(2 * (head - low) + 1));
}

/// One row of the result by the definition; masked keys are not looked at.
inline std::vector<double> attend(const Operands& x, const ops::FlashAttnExt::Params& params,
                                  std::int64_t t, std::int64_t h, std::int64_t s) {
    const std::int64_t heads = x.q->ne[2], n = x.k->ne[1];
    const std::int64_t key_head = h / (heads / x.k->ne[2]), value_head = h / (heads / x.v->ne[2]);
    const double slope = slope_of(h, heads, params.max_bias);
    std::vector<double> z(static_cast<std::size_t>(n), kNoScore);
    double most = x.sinks != nullptr ? value_at(*x.sinks, h) : kNoScore;
    for (std::int64_t j = 0; j < n; ++j) {
        const double mask =
            x.mask != nullptr ? value_at(*x.mask, j, t, h % x.mask->ne[2], s % x.mask->ne[3]) : 0;
        if (mask == kNoScore) continue;
        double sum = 0;
        for (std::int64_t d = 0; d < x.q->ne[0]; ++d) {
            sum += value_at(*x.q, d, t, h, s) * value_at(*x.k, d, j, key_head, s);
        }
        sum *= params.scale;
        if (params.logit_softcap != 0) {
            sum = params.logit_softcap * std::tanh(sum / params.logit_softcap);
        }
        z[static_cast<std::size_t>(j)] = sum + slope * mask;
        most = std::max(most, z[static_cast<std::size_t>(j)]);
    }
    std::vector<double> row(static_cast<std::size_t>(x.v->ne[0]), 0.0);
    double total = x.sinks != nullptr ? std::exp(value_at(*x.sinks, h) - most) : 0;
    for (std::int64_t j = 0; j < n; ++j) {
        const double score = z[static_cast<std::size_t>(j)];
        if (score == kNoScore) continue;
        const double weight = std::exp(score - most);
        total += weight;
        for (std::size_t d = 0; d < row.size(); ++d) {
            row[d] += weight * value_at(*x.v, static_cast<std::int64_t>(d), j, value_head, s);
        }
    }
    for (double& value : row) value = total == 0 ? 0 : value / total;
    return row;
}

inline std::vector<double> attention(const Operands& x, const ops::FlashAttnExt::Params& params) {
    std::vector<double> values;
    for (std::int64_t s = 0; s < x.q->ne[3]; ++s) {
        for (std::int64_t t = 0; t < x.q->ne[1]; ++t) {
            for (std::int64_t h = 0; h < x.q->ne[2]; ++h) {
                const auto row = attend(x, params, t, h, s);
                values.insert(values.end(), row.begin(), row.end());
            }
        }
    }
    return values;
}

/// The square of what may be wrong, relative to the result. Weights of q8_0 values, 32 at a time,
/// are rounded to 16 bits: they are off by 9e-6 of the largest among them (root mean square), so
/// that one which outshines 31 others lets them be wrong by that much of it each.
inline double tolerance_of(const Operands& x) { return x.v->type == GGML_TYPE_Q8_0 ? 3e-9 : 1e-9; }

inline void expect_attention(Workbench& bench, const Operands& x,
                             const ops::FlashAttnExt::Params& params) {
    Tensor* y = bench.node<ops::FlashAttnExt>(params, {x.q, x.k, x.v, x.mask, x.sinks});
    ASSERT_NE(y, nullptr);
    const std::vector<double> expected = attention(x, params);
    for_each_way([&](int tasks) {
        const Result<> done = run_node(*y, tasks);
        ASSERT_TRUE(done) << done.error().message;
        const std::vector<double> actual = values_of(*y);
        double error = 0, energy = 1e-30;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_TRUE(std::isfinite(actual[i])) << "element " << i;
            error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
            energy += expected[i] * expected[i];
        }
        EXPECT_LE(error / energy, tolerance_of(x));
        bench.expect_intact();
    });
}

/// A mask with blocks of -inf.
inline Tensor* block_mask(Workbench& bench, const Extents& extent) {
    Tensor* mask = bench.random(GGML_TYPE_F16, extent);
    for_elements(*mask, [&](std::int64_t j, std::int64_t t, std::int64_t h, std::int64_t s) {
        if ((j / 16 + t / 4 + h) % 3 == 0) *at<std::uint16_t>(*mask, j, t, h, s) = 0xfc00;
    });
    return mask;
}

/// Keys or values of all heads side by side, token after token.
inline Tensor* interleaved(Workbench& bench, Type type, std::int64_t width, std::int64_t heads,
                           std::int64_t tokens, std::int64_t batches) {
    return bench.permuted(bench.random(type, {width, heads, tokens, batches}), {0, 2, 1, 3});
}

}  // namespace heddle::cpu
