#include "ops/solve_tri.hpp"

#include <limits>

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

using ops::SolveTri;

/// Lower triangular matrices; what lies above the diagonal is never to be read.
Tensor* make_matrices(Workbench& bench, std::int64_t n, std::int64_t b2, std::int64_t b3) {
    Tensor* a = bench.random(GGML_TYPE_F32, {n, n, b2, b3});
    for_elements(*a, [&](auto column, auto row, auto i2, auto i3) {
        float& value = *at<float>(*a, column, row, i2, i3);
        if (column > row) value = std::numeric_limits<float>::quiet_NaN();
        if (column == row) value = 0.55f + 0.45f * value;
        if (column < row) value /= static_cast<float>(n);  // keeps the solution small
    });
    return a;
}

std::vector<double> expected_solution(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    std::vector<double> x(static_cast<std::size_t>(element_count(node)));
    const auto cell = [&](auto c, auto r, auto i2, auto i3) -> double& {
        return x[static_cast<std::size_t>(((i3 * b.ne[2] + i2) * b.ne[1] + r) * b.ne[0] + c)];
    };
    for_elements(b, [&](auto c, auto r, auto i2, auto i3) {
        double rest = value_at(b, c, r, i2, i3);
        for (std::int64_t t = 0; t < r; ++t) {
            rest -= value_at(a, t, r, i2, i3) * cell(c, t, i2, i3);
        }
        cell(c, r, i2, i3) = rest / value_at(a, r, r, i2, i3);
    });
    return x;
}

TEST(SolveTri, SolvesForAllRightHandSides) {
    for (const auto& [k, n, b2, b3] :
         {Extents{10, 10, 4, 2}, Extents{1, 1, 1, 1}, Extents{417, 31, 1, 1}, Extents{64, 64, 2, 1},
          Extents{65, 128, 1, 1}, Extents{7, 3, 2, 3}}) {
        Workbench bench;
        Tensor* a = make_matrices(bench, n, b2, b3);
        Tensor* b = bench.random(GGML_TYPE_F32, {k, n, b2, b3});
        Tensor* node = bench.node<SolveTri>({}, {a, b});
        expect_result(bench, *node, expected_solution(*node), 1e-4, 1e-5);
    }
}

TEST(SolveTri, DividesByZeroAsFloatsDo) {
    Workbench bench;
    Tensor* a = bench.numbers(GGML_TYPE_F32, {1, 1, 1, 1}, {0});
    Tensor* b = bench.numbers(GGML_TYPE_F32, {3, 1, 1, 1}, {1, -1, 0});
    Tensor* node = bench.node<SolveTri>({}, {a, b});
    const double infinity = std::numeric_limits<double>::infinity();
    expect_result(bench, *node, {infinity, -infinity, std::nan("")}, 0);
}

}  // namespace
}  // namespace heddle::cpu
