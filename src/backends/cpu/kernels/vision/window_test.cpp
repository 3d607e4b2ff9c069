#include "ops/window.hpp"

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

using ops::AddRelPos;
using ops::GetRelPos;
using ops::WinPart;
using ops::WinUnpart;

TEST(WinPart, CutsImagesIntoWindowsFilledUpWithZeros) {
    for (const std::int32_t width : {1, 3, 4, 20}) {
        Workbench bench;
        Tensor* whole = bench.random(GGML_TYPE_F32, {8, 12, 9, 1});
        for (Tensor* x : {whole, bench.slice(whole, {1, 2, 1, 0}, {5, 9, 7, 1})}) {
            const WinPart::Params params = WinPart::params(x, width);
            Tensor* node = bench.node<WinPart>(params, {x});
            std::vector<double> expected;
            for_elements(*node, [&](auto c, auto i1, auto i2, auto window) {
                const std::int64_t column = window % params.across * width + i1;
                const std::int64_t row = window / params.across * width + i2;
                const bool inside = column < x->ne[1] && row < x->ne[2];
                expected.push_back(inside ? value_at(*x, c, column, row) : 0);
            });
            expect_result(bench, *node, expected, 0, 0);
        }
    }
}

TEST(WinUnpart, PutsWindowsTogetherAgain) {
    for (const std::int32_t width : {1, 3, 4, 20}) {
        Workbench bench;
        Tensor* image = bench.random(GGML_TYPE_F32, {5, 9, 7, 1});
        Tensor* windows = bench.node<WinPart>(WinPart::params(image, width), {image});
        ASSERT_TRUE(run_node(*windows, 1));
        Tensor* node = bench.node<WinUnpart>({{width}, 9, 7}, {windows});
        expect_result(bench, *node, values_of(*image), 0, 0);
    }
}

TEST(WinUnpart, DeclinesTooFewWindows) {
    Workbench bench;
    Tensor* windows = bench.random(GGML_TYPE_F32, {5, 4, 4, 5});
    EXPECT_EQ(objection_to(*bench.node<WinUnpart>({{4}, 9, 7}, {windows})),
              "x has too few windows for the image");
    EXPECT_EQ(objection_to(*bench.node<WinUnpart>({{5}, 9, 5}, {windows})),
              "x has too few windows for the image");
}

TEST(GetRelPos, TakesTheEmbeddingOfEachDistance) {
    for (const std::int64_t n : {1, 2, 7}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F16, {6, 2 * n - 1, 1, 1});
        Tensor* node = bench.node<GetRelPos>({{}, n, n}, {x});
        std::vector<double> expected;
        for_elements(*node, [&](auto c, auto key, auto query, auto) {
            expected.push_back(value_at(*x, c, n - 1 - key + query));
        });
        expect_result(bench, *node, expected, 0, 0);
    }
}

TEST(GetRelPos, DeclinesOtherTypes) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_BF16, {6, 5, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<GetRelPos>({{}, 3, 3}, {x})), "only f16");
}

TEST(AddRelPos, AddsPositionsOfColumnsAndRows) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {49, 12, 3, 1});
    Tensor* pw = bench.random(GGML_TYPE_F32, {7, 4, 3, 3});
    Tensor* ph = bench.random(GGML_TYPE_F32, {7, 4, 3, 3});
    std::vector<double> expected;
    for_elements(*x, [&](auto key, auto query, auto batch, auto) {
        const auto w = static_cast<float>(value_at(*pw, key % 7, query % 4, query / 4, batch));
        const auto h = static_cast<float>(value_at(*ph, key / 7, query % 4, query / 4, batch));
        expected.push_back(static_cast<float>(value_at(*x, key, query, batch)) + w + h);
    });
    Tensor* node = bench.node<AddRelPos>({0}, {x, pw, ph});
    expect_result(bench, *node, expected, 0, 0);

    Tensor* in_place = bench.node_in_place<AddRelPos>({1}, {x, pw, ph});
    ASSERT_EQ(in_place->data, x->data);
    ASSERT_TRUE(run_node(*in_place, 2));
    expect_close(*in_place, expected, 0, 0);
}

}  // namespace
}  // namespace heddle::cpu
