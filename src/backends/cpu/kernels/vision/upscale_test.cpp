#include "ops/upscale.hpp"

#include <algorithm>

#include "backends/cpu/kernels/test_support.hpp"
#include "ggml/ops_layout.h"

namespace heddle::cpu {
namespace {

using ops::Upscale;

/// One dimension: extents, and the factor between them.
struct Axis {
    std::int64_t from, to;
    float factor;
    float offset;

    Axis(const Tensor& node, int d, bool align) : from(node.src[0]->ne[d]), to(node.ne[d]) {
        const bool corners = align && from > 1 && to > 1;
        factor = corners ? static_cast<float>(to - 1) / static_cast<float>(from - 1)
                         : static_cast<float>(to) / static_cast<float>(from);
        offset = align ? 0.0f : 0.5f;
    }

    std::int64_t inside(double i) const {
        return static_cast<std::int64_t>(std::clamp(i, 0.0, static_cast<double>(from - 1)));
    }

    std::int64_t nearest(std::int64_t i) const {
        return static_cast<std::int64_t>(static_cast<float>(i) / factor);
    }

    /// Weights of all elements for element `i` of the result.
    std::vector<double> weights(std::int64_t i, std::int32_t mode) const {
        std::vector<double> weight(static_cast<std::size_t>(from));
        const auto add = [&](double at, double w) {
            weight[static_cast<std::size_t>(inside(at))] += w;
        };
        const float position = (static_cast<float>(i) + offset) / factor - offset;
        const double below = std::floor(position);
        if (Upscale::interpolation_of(mode) == GGML_SCALE_MODE_NEAREST) {
            add(static_cast<double>(nearest(i)), 1);
        } else if (Upscale::interpolation_of(mode) == GGML_SCALE_MODE_BICUBIC) {
            const double t = position - below, a = -0.75;
            const auto near = [&](double x) { return (a + 2) * x * x * x - (a + 3) * x * x + 1; };
            const auto far = [&](double x) {
                return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
            };
            add(below - 1, far(t + 1));
            add(below, near(t));
            add(below + 1, near(1 - t));
            add(below + 2, far(2 - t));
        } else if ((mode & GGML_SCALE_FLAG_ANTIALIAS) == 0) {
            const double part = std::clamp(position - static_cast<double>(inside(below)), 0.0, 1.0);
            add(below, 1 - part);
            add(below + 1, part);
        } else {
            const float middle = (static_cast<float>(i) + offset) / factor;
            const float support = std::max(1.0f, 1 / factor);
            const auto first =
                std::max<std::int64_t>(static_cast<std::int64_t>(middle - support + offset), 0);
            const auto last = std::min(static_cast<std::int64_t>(middle + support + offset), from);
            double total = 0;
            for (std::int64_t j = first; j < last; ++j) {
                const float way = (static_cast<float>(j) - middle + offset) / support;
                weight[static_cast<std::size_t>(j)] = std::max(0.0f, 1 - std::abs(way));
                total += weight[static_cast<std::size_t>(j)];
            }
            for (double& w : weight) w = total > 0 ? w / total : 0;
        }
        return weight;
    }
};

std::vector<double> expected_result(const Tensor& node) {
    const std::int32_t mode = unpack<Upscale::Params>(node).mode;
    const bool align = (mode & GGML_SCALE_FLAG_ALIGN_CORNERS) != 0;
    const Tensor& x = *node.src[0];
    const Axis across(node, 0, align), down(node, 1, align), plane(node, 2, false),
        batch(node, 3, false);
    std::vector<double> expected;
    for_elements(node, [&](auto i0, auto i1, auto i2, auto i3) {
        const auto wx = across.weights(i0, mode), wy = down.weights(i1, mode);
        double sum = 0;
        for (std::int64_t y = 0; y < x.ne[1]; ++y) {
            for (std::int64_t c = 0; c < x.ne[0]; ++c) {
                sum += wx[static_cast<std::size_t>(c)] * wy[static_cast<std::size_t>(y)] *
                       value_at(x, c, y, plane.nearest(i2), batch.nearest(i3));
            }
        }
        expected.push_back(sum);
    });
    return expected;
}

constexpr std::int32_t kAlign = GGML_SCALE_FLAG_ALIGN_CORNERS;
constexpr std::int32_t kAntialias = GGML_SCALE_FLAG_ANTIALIAS;
constexpr std::int32_t kModes[] = {
    GGML_SCALE_MODE_NEAREST,
    GGML_SCALE_MODE_BILINEAR,
    GGML_SCALE_MODE_BICUBIC,
    GGML_SCALE_MODE_NEAREST | kAlign,
    GGML_SCALE_MODE_BILINEAR | kAlign,
    GGML_SCALE_MODE_BICUBIC | kAlign,
    GGML_SCALE_MODE_BILINEAR | kAntialias,
};

TEST(Upscale, InterpolatesUpAndDownInEveryMode) {
    const std::pair<Extents, Extents> sizes[] = {
        {{6, 5, 3, 2}, {12, 10, 3, 2}},
        {{2, 5, 7, 3}, {5, 7, 11, 4}},
        {{5, 7, 11, 4}, {2, 5, 7, 3}},
        {{1, 4, 3, 2}, {2, 8, 3, 2}},
        {{4, 1, 3, 2}, {1, 1, 3, 2}},
        {{13, 9, 1, 1}, {3, 20, 1, 1}},
        // More than a vector, of elements near each other or not.
        {{40, 3, 2, 1}, {80, 6, 2, 1}},
        {{37, 4, 2, 1}, {91, 5, 2, 1}},
        {{3, 2, 1, 1}, {100, 3, 1, 1}},
        {{150, 5, 1, 2}, {41, 3, 1, 2}},
    };
    for (const std::int32_t mode : kModes) {
        for (const auto& [from, to] : sizes) {
            Workbench bench;
            Tensor* node = bench.node<Upscale>({{mode}, to}, {bench.random(GGML_TYPE_F32, from)});
            expect_result(bench, *node, expected_result(*node), 1e-5, 1e-5);
        }
    }
}

TEST(Upscale, ReadsTransposedImages) {
    for (const std::int32_t mode : kModes) {
        Workbench bench;
        Tensor* x = bench.permuted(bench.random(GGML_TYPE_F32, {7, 9, 2, 2}), {1, 0, 3, 2});
        Tensor* node = bench.node<Upscale>({{mode}, {15, 11, 2, 2}}, {x});
        expect_result(bench, *node, expected_result(*node), 1e-5, 1e-5);
    }
}

TEST(Upscale, GivesKnownValues) {
    Workbench bench;
    Tensor* x = bench.numbers(GGML_TYPE_F32, {2, 2, 1, 1}, {0, 1, 2, 4});
    Tensor* bilinear = bench.node<Upscale>({{GGML_SCALE_MODE_BILINEAR}, {4, 4, 1, 1}}, {x});
    Tensor* aligned = bench.node<Upscale>({{GGML_SCALE_MODE_BILINEAR | kAlign}, {4, 4, 1, 1}}, {x});
    ASSERT_TRUE(run_node(*bilinear, 1));
    ASSERT_TRUE(run_node(*aligned, 1));
    const double first[] = {0, 0.25, 0.75, 1}, second[] = {0.5, 0.8125, 1.4375, 1.75};
    for (std::int64_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(value_at(*bilinear, i, 0), first[i], 1e-6);
        EXPECT_NEAR(value_at(*bilinear, i, 1), second[i], 1e-6);
        EXPECT_NEAR(value_at(*aligned, i, 0), static_cast<double>(i) / 3, 1e-6);
    }
}

TEST(Upscale, DeclinesRowsThatAreNotDenseOrTooLong) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {4, 4, 1, 1});
    Tensor* node = bench.node<Upscale>({{GGML_SCALE_MODE_NEAREST}, {8, 8, 1, 1}}, {x});
    node->nb[0] = 2 * sizeof(float);
    EXPECT_EQ(objection_to(*node), "rows of the result are not dense");
    node->nb[0] = sizeof(float);
    x->ne[0] = std::int64_t{1} << 31;
    EXPECT_EQ(objection_to(*node), "rows of x are too long");
}

}  // namespace
}  // namespace heddle::cpu
