#include "ops/pool.hpp"

#include <cfloat>
#include <cmath>

#include "backends/cpu/kernels/test_support.hpp"
#include "ggml/ops_nn.h"

namespace heddle::cpu {
namespace {

using ops::Pool1d;
using ops::Pool2d;
using ops::Pool2dBack;

TEST(Pool1d, MeansCountTheElementsInside) {
    struct Case {
        std::int64_t length;
        std::int32_t taps, stride, padding;
    };
    // Also more than a vector of windows, more than one line of them, and windows longer than that.
    for (const Case& c : {Case{10, 2, 2, 0}, Case{11, 3, 1, 1}, Case{9, 4, 3, 2}, Case{6, 1, 1, 3},
                          Case{5, 9, 2, 4}, Case{75, 2, 2, 0}, Case{90, 3, 2, 1}, Case{50, 3, 1, 1},
                          Case{4700, 4, 1, 2}, Case{9001, 5, 2, 0}, Case{5000, 4999, 1, 1}}) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            for (const std::int32_t op : {GGML_OP_POOL_MAX, GGML_OP_POOL_AVG}) {
                Workbench bench;
                Tensor* whole = bench.random(type, {c.length + 2, 5, 3, 3});
                Tensor* x = bench.slice(whole, {1, 1, 0, 1}, {c.length, 3, 2, 2}, {1, 1, 2, 1});
                Tensor* node = bench.node<Pool1d>({op, c.taps, c.stride, c.padding}, {x});
                std::vector<double> expected;
                for_elements(*node, [&](auto i0, auto i1, auto i2, auto i3) {
                    double sum = 0, greatest = -FLT_MAX;
                    int count = 0;
                    for (std::int64_t k = 0; k < c.taps; ++k) {
                        const std::int64_t i = i0 * c.stride - c.padding + k;
                        if (i < 0 || i >= c.length) continue;
                        const double value = value_at(*x, i, i1, i2, i3);
                        sum += value;
                        greatest = std::max(greatest, value);
                        ++count;
                    }
                    if (op == GGML_OP_POOL_MAX) return expected.push_back(greatest);
                    expected.push_back(count > 0 ? sum / count : 0);
                });
                expect_result(bench, *node, expected, 1e-6);
            }
        }
    }
}

struct Shape {
    std::array<std::int32_t, 2> taps, stride;
    std::array<float, 2> padding;
};
const Shape kWindows[] = {{{2, 2}, {2, 2}, {0, 0}},
                          {{3, 3}, {1, 2}, {1, 1}},
                          {{2, 3}, {3, 1}, {1, 0}},
                          {{1, 1}, {1, 1}, {2, 1}},
                          {{3, 2}, {2, 2}, {0.5F, 1.5F}}};

/// Extents of x: a few windows in a row, some more than a vector has lanes, none or one left over.
const Extents kImages[] = {{11, 8, 3, 2}, {70, 8, 2, 1}, {39, 5, 1, 2}};

/// Calls `visit(x, y)` for each element of a window that lies inside of an image of these extents.
template <class Visit>
void for_window(const Pool2d::Params& p, std::int64_t i0, std::int64_t i1, const Tensor& image,
                Visit visit) {
    for (std::int64_t ky = 0; ky < p.taps[1]; ++ky) {
        for (std::int64_t kx = 0; kx < p.taps[0]; ++kx) {
            const std::int64_t x = i0 * p.stride[0] - p.padding[0] + kx;
            const std::int64_t y = i1 * p.stride[1] - p.padding[1] + ky;
            if (x >= 0 && x < image.ne[0] && y >= 0 && y < image.ne[1]) visit(x, y);
        }
    }
}

std::vector<double> expected_pooled(const Tensor& node) {
    const auto p = unpack<Pool2d::Params>(node);
    const Tensor& x = *node.src[0];
    std::vector<double> expected;
    for_elements(node, [&](auto i0, auto i1, auto i2, auto i3) {
        double sum = 0, greatest = -FLT_MAX;
        for_window(p, i0, i1, x, [&](auto ix, auto iy) {
            const double value = value_at(x, ix, iy, i2, i3);
            sum += value;
            if (value > greatest) greatest = value;
        });
        const double area = p.taps[0] * p.taps[1];
        expected.push_back(p.op == GGML_OP_POOL_MAX ? greatest : sum / area);
    });
    return expected;
}

TEST(Pool2d, MeansCountZerosForThePadding) {
    for (const Shape& c : kWindows) {
        for (const Extents& image : kImages) {
            for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
                for (const auto op : {GGML_OP_POOL_MAX, GGML_OP_POOL_AVG}) {
                    Workbench bench;
                    Tensor* whole = bench.random(
                        type, {image[0] + 3, image[1] + 3, image[2], 2 * image[3] - 1});
                    Tensor* x = bench.slice(whole, {1, 2, 0, 0}, image, {1, 1, 1, 2});
                    Tensor* node =
                        bench.node<Pool2d>(Pool2d::args(op, c.taps, c.stride, c.padding), {x});
                    expect_result(bench, *node, expected_pooled(*node), 1e-6);
                }
            }
        }
    }
}

TEST(Pool2d, ReadsTransposedImages) {
    for (const Shape& c : kWindows) {
        for (const auto op : {GGML_OP_POOL_MAX, GGML_OP_POOL_AVG}) {
            Workbench bench;
            Tensor* x = bench.permuted(bench.random(GGML_TYPE_F32, {9, 40, 2, 1}), {1, 0, 2, 3});
            Tensor* node = bench.node<Pool2d>(Pool2d::args(op, c.taps, c.stride, c.padding), {x});
            expect_result(bench, *node, expected_pooled(*node), 1e-6);
        }
    }
}

TEST(Pool2d, TakesNoNanForTheLargest) {
    for (const Shape& c : kWindows) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {70, 6, 1, 1});
        for (std::int64_t i = 0; i < 70; i += 3) {
            *at<float>(*x, i, i % 6) = NAN;
            *at<float>(*x, i, (i + 1) % 6) = -INFINITY;
        }
        Tensor* node =
            bench.node<Pool2d>(Pool2d::args(GGML_OP_POOL_MAX, c.taps, c.stride, c.padding), {x});
        expect_result(bench, *node, expected_pooled(*node), 0, 0);
    }
}

std::vector<double> expected_gradient(const Tensor& node) {
    const auto p = unpack<Pool2dBack::Params>(node);
    const Tensor &dy = *node.src[0], &x = *node.src[1];
    std::vector<double> expected(static_cast<std::size_t>(element_count(node)));
    for_elements(dy, [&](auto i0, auto i1, auto i2, auto i3) {
        const double gradient = value_at(dy, i0, i1, i2, i3);
        double greatest = -FLT_MAX;
        double* winner = nullptr;
        for_window(p, i0, i1, x, [&](auto ix, auto iy) {
            const std::int64_t row = (i3 * x.ne[2] + i2) * x.ne[1] + iy;
            double& to = expected[static_cast<std::size_t>(row * x.ne[0] + ix)];
            const double value = value_at(x, ix, iy, i2, i3);
            if (p.op == GGML_OP_POOL_AVG) {
                to += gradient / (p.taps[0] * p.taps[1]);
            } else if (value > greatest) {
                greatest = value;
                winner = &to;
            }
        });
        if (winner != nullptr) *winner += gradient;
    });
    return expected;
}

TEST(Pool2dBack, GivesGradientsToTheElementsOfEachWindow) {
    for (const Shape& c : kWindows) {
        for (const Extents& image : kImages) {
            for (const auto op : {GGML_OP_POOL_MAX, GGML_OP_POOL_AVG}) {
                Workbench bench;
                Tensor* x = bench.random(GGML_TYPE_F32, image, -3, 3);
                for (const auto& [i0, i1] : {std::pair{4, 3}, std::pair{5, 3}, std::pair{4, 4}}) {
                    *at<float>(*x, i0, i1) = 5;  // the first of equal ones wins
                }
                const auto args = Pool2dBack::args(op, c.taps, c.stride, c.padding);
                const Extents windows = extents_of(*bench.node<Pool2d>(args, {x}));
                Tensor* dense = bench.random(GGML_TYPE_F32, windows);
                // Not dense: planes are spread, rows and columns swapped.
                Tensor* swapped = bench.random(
                    GGML_TYPE_F32, {windows[1], windows[0] + 1, windows[2], windows[3]});
                Tensor* spread =
                    bench.slice(bench.permuted(swapped, {1, 0, 2, 3}), {1, 0, 0, 0}, windows);
                for (Tensor* dy : {dense, spread}) {
                    Tensor* node = bench.node<Pool2dBack>(args, {dy, x});
                    expect_result(bench, *node, expected_gradient(*node), 1e-6, 1e-6);
                }
            }
        }
    }
}

TEST(Pool, DeclinesOtherTypesAndKinds) {
    Workbench bench;
    Tensor* bf16 = bench.random(GGML_TYPE_BF16, {8, 8, 2, 1});
    Tensor* x = bench.random(GGML_TYPE_F32, {8, 8, 2, 1});
    EXPECT_EQ(objection_to(*bench.node<Pool1d>({GGML_OP_POOL_MAX, 2, 2, 0}, {bf16})),
              "x is not f32 or f16");
    EXPECT_EQ(objection_to(*bench.node<Pool1d>({7, 2, 2, 0}, {x})),
              "the kind of pooling is not max or avg");
    Tensor* dy = bench.random(GGML_TYPE_F32, {4, 4, 3, 1});
    const auto args = Pool2dBack::args(GGML_OP_POOL_MAX, {2, 2}, {2, 2}, {0, 0});
    EXPECT_EQ(objection_to(*bench.node<Pool2dBack>(args, {dy, x})),
              "dy and x have not as many planes");
}

TEST(Pool, DeclinesWindowsThatStandStillAndResultsThatAreNotDense) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {8, 8, 2, 1});
    Tensor* node = bench.node<Pool1d>({GGML_OP_POOL_MAX, 2, 2, 0}, {x});
    node->op_params[2] = 0;  // the stride, as a C caller could
    EXPECT_EQ(objection_to(*node), "windows do not move on");
    Tensor* dy = bench.random(GGML_TYPE_F32, {4, 4, 2, 1});
    const auto args = Pool2dBack::args(GGML_OP_POOL_MAX, {2, 2}, {2, 2}, {0, 0});
    for (Tensor* each : {bench.node<Pool1d>({GGML_OP_POOL_MAX, 2, 2, 0}, {x}),
                         bench.node<Pool2dBack>(args, {dy, x})}) {
        each->nb[0] = 2 * sizeof(float);
        EXPECT_EQ(objection_to(*each), "rows of the result are not dense");
    }
}

}  // namespace
}  // namespace heddle::cpu
