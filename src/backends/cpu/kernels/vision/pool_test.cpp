#include "ops/pool.hpp"

#include <cfloat>

#include "backends/cpu/kernels/test_support.hpp"

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
    for (const Case& c : {Case{10, 2, 2, 0}, Case{11, 3, 1, 1}, Case{9, 4, 3, 2}, Case{6, 1, 1, 3},
                          Case{5, 9, 2, 4}}) {
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

TEST(Pool2d, MeansCountZerosForThePadding) {
    for (const Shape& c : kWindows) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            for (const auto op : {GGML_OP_POOL_MAX, GGML_OP_POOL_AVG}) {
                Workbench bench;
                Tensor* whole = bench.random(type, {14, 11, 3, 3});
                Tensor* x = bench.slice(whole, {1, 2, 0, 0}, {11, 8, 3, 2}, {1, 1, 1, 2});
                Tensor* node =
                    bench.node<Pool2d>(Pool2d::args(op, c.taps, c.stride, c.padding), {x});
                const auto p = unpack<Pool2d::Params>(*node);
                std::vector<double> expected;
                for_elements(*node, [&](auto i0, auto i1, auto i2, auto i3) {
                    double sum = 0, greatest = -FLT_MAX;
                    for (std::int64_t ky = 0; ky < p.taps[1]; ++ky) {
                        for (std::int64_t kx = 0; kx < p.taps[0]; ++kx) {
                            const std::int64_t ix = i0 * p.stride[0] - p.padding[0] + kx;
                            const std::int64_t iy = i1 * p.stride[1] - p.padding[1] + ky;
                            if (ix < 0 || ix >= 11 || iy < 0 || iy >= 8) continue;
                            const double value = value_at(*x, ix, iy, i2, i3);
                            sum += value;
                            greatest = std::max(greatest, value);
                        }
                    }
                    const double area = p.taps[0] * p.taps[1];
                    expected.push_back(op == GGML_OP_POOL_MAX ? greatest : sum / area);
                });
                expect_result(bench, *node, expected, 1e-6);
            }
        }
    }
}

TEST(Pool2dBack, GivesGradientsToTheElementsOfEachWindow) {
    for (const Shape& c : kWindows) {
        for (const auto op : {GGML_OP_POOL_MAX, GGML_OP_POOL_AVG}) {
            Workbench bench;
            Tensor* x = bench.random(GGML_TYPE_F32, {11, 8, 3, 2}, -3, 3);
            for (const auto& [i0, i1] : {std::pair{4, 4}, std::pair{5, 4}, std::pair{4, 5}}) {
                *at<float>(*x, i0, i1) = 5;  // the first of equal ones wins
            }
            const auto args = Pool2dBack::args(op, c.taps, c.stride, c.padding);
            Tensor* forward = bench.node<Pool2d>(args, {x});
            // The gradient is not dense: its planes are spread, its rows and columns swapped.
            Tensor* swapped = bench.random(GGML_TYPE_F32,
                                           {forward->ne[1], forward->ne[0] + 1, forward->ne[2], 2});
            Tensor* dy = bench.slice(bench.permuted(swapped, {1, 0, 2, 3}), {1, 0, 0, 0},
                                     extents_of(*forward));
            Tensor* node = bench.node<Pool2dBack>(args, {dy, x});
            const auto& p = args.params;
            std::vector<double> expected(static_cast<std::size_t>(element_count(*node)));
            for_elements(*dy, [&](auto i0, auto i1, auto i2, auto i3) {
                double greatest = -FLT_MAX;
                double* winner = nullptr;
                for (std::int64_t ky = 0; ky < p.taps[1]; ++ky) {
                    for (std::int64_t kx = 0; kx < p.taps[0]; ++kx) {
                        const std::int64_t ix = i0 * p.stride[0] - p.padding[0] + kx;
                        const std::int64_t iy = i1 * p.stride[1] - p.padding[1] + ky;
                        if (ix < 0 || ix >= 11 || iy < 0 || iy >= 8) continue;
                        double& to =
                            expected[static_cast<std::size_t>(((i3 * 3 + i2) * 8 + iy) * 11 + ix)];
                        if (op == GGML_OP_POOL_AVG) {
                            to += value_at(*dy, i0, i1, i2, i3) / (p.taps[0] * p.taps[1]);
                        } else if (value_at(*x, ix, iy, i2, i3) > greatest) {
                            greatest = value_at(*x, ix, iy, i2, i3);
                            winner = &to;
                        }
                    }
                }
                if (winner != nullptr) *winner += value_at(*dy, i0, i1, i2, i3);
            });
            expect_result(bench, *node, expected, 1e-6, 1e-6);
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

}  // namespace
}  // namespace heddle::cpu
