#include "ops/im2col.hpp"

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

using ops::Im2col;
using ops::Im2col3d;
using ops::Im2colBack;

/// Element of x, or zero where there is none.
double padded(const Tensor& x, std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
    if (i0 < 0 || i0 >= x.ne[0] || i1 < 0 || i1 >= x.ne[1] || i2 < 0 || i2 >= x.ne[2]) return 0;
    return value_at(x, i0, i1, i2, i3);
}

double rounded(double value, Type type) {
    const auto single = static_cast<float>(value);
    return type == GGML_TYPE_F16 ? f16_to_f32(f32_to_f16(single)) : single;
}

std::vector<double> expected_patches(const Tensor& node) {
    const auto [window, is_2d] = unpack<Im2col::Params>(node);
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    const std::int64_t width = kernel.ne[0], height = is_2d != 0 ? kernel.ne[1] : 1;
    std::vector<double> expected;
    for_elements(node, [&, window = window, is_2d = is_2d](auto i0, auto i1, auto i2, auto i3) {
        const std::int64_t kw = i0 % width, kh = i0 / width % height, ic = i0 / (width * height);
        const std::int64_t iw = i1 * window.stride[0] + kw * window.dilation[0] - window.padding[0];
        const std::int64_t ih = i2 * window.stride[1] + kh * window.dilation[1] - window.padding[1];
        const double value = is_2d != 0 ? padded(x, iw, ih, ic, i3) : padded(x, iw, ic, i2, 0);
        expected.push_back(rounded(value, node.type));
    });
    return expected;
}

struct Shape {
    Extents kernel, x;
    Sliding<2> window;
};

/// Strides, paddings and dilations that differ by axis; patches wider than the image; rows longer
/// than what is taken at a time; a kernel that lies outside as a whole; more rows of the kernel
/// than are turned into columns at a time, for each number of taps that this is done for.
const Shape kImages[] = {
    {{3, 3, 4, 2}, {10, 8, 4, 2}, {{1, 1}, {1, 1}, {1, 1}}},
    {{3, 2, 5, 1}, {12, 9, 5, 3}, {{2, 3}, {1, 2}, {2, 1}}},
    {{1, 1, 3, 2}, {7, 5, 3, 1}, {{1, 1}, {0, 0}, {1, 1}}},
    {{5, 5, 1, 1}, {2, 3, 1, 2}, {{1, 2}, {3, 2}, {1, 1}}},
    {{7, 1, 2, 1}, {700, 2, 2, 1}, {{1, 1}, {3, 0}, {100, 1}}},
    {{2, 2, 1, 1}, {1300, 3, 1, 1}, {{600, 1}, {0, 0}, {1, 1}}},
    {{3, 1, 1, 1}, {1, 1, 1, 1}, {{5, 1}, {2, 0}, {4, 1}}},
    {{16, 16, 3, 8}, {48, 32, 3, 1}, {{16, 16}, {0, 0}, {1, 1}}},
    {{3, 3, 2, 1}, {40, 6, 2, 1}, {{1, 1}, {-1, -1}, {1, 1}}},
    {{1, 2, 99, 1}, {90, 3, 99, 1}, {{1, 1}, {0, 1}, {1, 1}}},
    {{2, 3, 70, 1}, {87, 4, 70, 2}, {{2, 2}, {1, 1}, {1, 2}}},
    {{3, 3, 67, 1}, {171, 3, 67, 1}, {{1, 1}, {1, 1}, {1, 1}}},
    {{3, 3, 40, 1}, {100, 3, 40, 2}, {{2, 1}, {3, 1}, {3, 1}}},
    {{4, 1, 203, 1}, {85, 2, 203, 1}, {{3, 1}, {2, 0}, {1, 1}}},
    {{2, 1, 5, 1}, {90, 2, 5, 1}, {{1, 1}, {20, 0}, {0, 1}}},
};

TEST(Im2col, GathersThePatchesOfImages) {
    for (const Shape& shape : kImages) {
        for (const auto& [from, to] :
             {std::pair{GGML_TYPE_F32, GGML_TYPE_F32}, std::pair{GGML_TYPE_F32, GGML_TYPE_F16},
              std::pair{GGML_TYPE_F16, GGML_TYPE_F16}}) {
            Workbench bench;
            Tensor* kernel = bench.tensor(GGML_TYPE_BF16, shape.kernel);
            Tensor* x = bench.random(from, shape.x);
            Tensor* node = bench.node<Im2col>({{shape.window, 1}, to}, {kernel, x});
            ASSERT_NE(node, nullptr);
            expect_result(bench, *node, expected_patches(*node), 0, 0);
        }
    }
}

TEST(Im2col, GathersThePatchesOfSignals) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Workbench bench;
        Tensor* kernel = bench.tensor(GGML_TYPE_F16, {3, 6, 4, 1});
        Tensor* x = bench.random(GGML_TYPE_F32, {101, 6, 2, 1});
        const Sliding<2> window{{2, 0}, {1, 0}, {3, 0}};  // the second axis means nothing
        Tensor* node = bench.node<Im2col>({{window, 0}, type}, {kernel, x});
        expect_result(bench, *node, expected_patches(*node), 0, 0);
    }
}

TEST(Im2col, ReadsViewsOfAnyStride) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Workbench bench;
        Tensor* kernel = bench.tensor(GGML_TYPE_F32, {3, 3, 3, 1});
        Tensor* whole = bench.random(GGML_TYPE_F32, {20, 15, 4, 3});
        const Sliding<2> window{{1, 2}, {1, 1}, {2, 1}};
        for (Tensor* x :
             {bench.slice(whole, {2, 3, 1, 0}, {11, 9, 3, 2}),
              bench.slice(whole, {1, 0, 0, 1}, {9, 7, 3, 2}, {2, 2, 1, 1}),
              bench.permuted(bench.slice(whole, {0, 0, 0, 0}, {3, 15, 4, 3}), {2, 0, 1, 3})}) {
            Tensor* node = bench.node<Im2col>({{window, 1}, type}, {kernel, x});
            expect_result(bench, *node, expected_patches(*node), 0, 0);
        }
    }
}

TEST(Im2col, DeclinesTypesThatPatchesCannotHave) {
    Workbench bench;
    Tensor* kernel = bench.tensor(GGML_TYPE_F32, {3, 3, 3, 1});
    Tensor* x = bench.random(GGML_TYPE_F32, {9, 9, 3, 1});
    Tensor* half = bench.random(GGML_TYPE_F16, {9, 9, 3, 1});
    const Sliding<2> window{{1, 1}, {0, 0}, {1, 1}};
    const auto objection = [&](Tensor* data, Type type, const Sliding<2>& sliding) {
        return objection_to(*bench.node<Im2col>({{sliding, 1}, type}, {kernel, data}));
    };
    EXPECT_EQ(objection(x, GGML_TYPE_BF16, window), "patches are f32 or f16");
    EXPECT_EQ(objection(half, GGML_TYPE_F32, window), "x is not f32 nor of the patches' type");
    EXPECT_EQ(objection(x, GGML_TYPE_F32, {{1, 1}, {0, 0}, {-1, 1}}), "the dilation is negative");
}

std::vector<double> expected_blocks(const Tensor& node) {
    const auto [window, channels] = unpack<Im2col3d::Params>(node);
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    const std::int64_t depth = node.ne[3] / (x.ne[3] / channels);
    std::vector<double> expected;
    for_elements(node, [&, w = window, channels = channels](auto i0, auto i1, auto i2, auto i3) {
        const std::int64_t kw = i0 % kernel.ne[0], kh = i0 / kernel.ne[0] % kernel.ne[1];
        const std::int64_t kd = i0 / (kernel.ne[0] * kernel.ne[1]) % kernel.ne[2];
        const std::int64_t ic = i0 / (kernel.ne[0] * kernel.ne[1] * kernel.ne[2]);
        const std::int64_t n = i3 / depth, od = i3 % depth;
        const double value =
            padded(x, i1 * w.stride[0] + kw * w.dilation[0] - w.padding[0],
                   i2 * w.stride[1] + kh * w.dilation[1] - w.padding[1],
                   od * w.stride[2] + kd * w.dilation[2] - w.padding[2], n * channels + ic);
        expected.push_back(rounded(value, node.type));
    });
    return expected;
}

TEST(Im2col3d, GathersTheBlocksOfVolumes) {
    const Sliding<3> window{{1, 2, 1}, {1, 0, 2}, {1, 2, 1}};
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Workbench bench;
        Tensor* kernel = bench.tensor(GGML_TYPE_F16, {3, 2, 2, 6});
        Tensor* dense = bench.random(GGML_TYPE_F32, {9, 8, 5, 7});  // a volume is left over
        Tensor* view =
            bench.slice(bench.random(GGML_TYPE_F32, {14, 11, 8, 9}), {1, 2, 0, 1}, {9, 8, 5, 6});
        for (Tensor* x : {dense, view}) {
            Tensor* node = bench.node<Im2col3d>({{window, 3}, 3, type}, {kernel, x});
            expect_result(bench, *node, expected_blocks(*node), 0, 0);
        }
    }
}

TEST(Im2col3d, MakesNothingOfTooFewChannels) {
    Workbench bench;
    Tensor* kernel = bench.tensor(GGML_TYPE_F32, {2, 2, 2, 3});
    Tensor* x = bench.random(GGML_TYPE_F32, {4, 4, 4, 1});
    const Sliding<3> window{{1, 1, 1}, {0, 0, 0}, {1, 1, 1}};
    Tensor* node = bench.node<Im2col3d>({{window, 3}, 3, GGML_TYPE_F32}, {kernel, x});
    EXPECT_EQ(element_count(*node), 0);
    expect_result(bench, *node, {}, 0);
}

/// Each element of the gradient goes where the element of its patch came from.
std::vector<double> expected_back(const Tensor& node) {
    const auto [window, is_2d] = unpack<Im2colBack::Params>(node);
    const Tensor &dy = *node.src[0], &kernel = *node.src[1];
    const std::int64_t width = kernel.ne[0], height = is_2d != 0 ? kernel.ne[1] : 1;
    std::vector<double> expected(static_cast<std::size_t>(element_count(node)));
    for_elements(dy, [&, window = window, is_2d = is_2d](auto i0, auto i1, auto i2, auto i3) {
        const std::int64_t kw = i0 % width, kh = i0 / width % height, ic = i0 / (width * height);
        const std::int64_t oh = is_2d != 0 ? i2 : 0, n = is_2d != 0 ? i3 : i2;
        const std::int64_t iw = i1 * window.stride[0] + kw * window.dilation[0] - window.padding[0];
        const std::int64_t ih =
            is_2d != 0 ? oh * window.stride[1] + kh * window.dilation[1] - window.padding[1] : 0;
        const std::int64_t rows = is_2d != 0 ? node.ne[1] : 1;
        const std::int64_t channels = is_2d != 0 ? node.ne[2] : node.ne[1];
        if (iw < 0 || iw >= node.ne[0] || ih < 0 || ih >= rows) return;
        const std::int64_t index = ((n * channels + ic) * rows + ih) * node.ne[0] + iw;
        expected[static_cast<std::size_t>(index)] += value_at(dy, i0, i1, i2, i3);
    });
    return expected;
}

TEST(Im2colBack, AddsGradientsUpWherePatchesWereTaken) {
    for (const Shape& shape : kImages) {
        Workbench bench;
        Tensor* kernel = bench.tensor(GGML_TYPE_F16, shape.kernel);
        Tensor* x = bench.tensor(GGML_TYPE_F32, shape.x);
        Tensor* patches = bench.node<Im2col>({{shape.window, 1}, GGML_TYPE_F32}, {kernel, x});
        bench.fill(*patches);
        Tensor* node = bench.node<Im2colBack>({{shape.window, 1}, shape.x}, {patches, kernel});
        expect_result(bench, *node, expected_back(*node), 1e-6, 1e-6);
    }
}

TEST(Im2colBack, ServesSignalsAndStridedGradients) {
    Workbench bench;
    const Sliding<2> window{{2, 0}, {1, 0}, {3, 0}};
    Tensor* kernel = bench.tensor(GGML_TYPE_F32, {3, 4, 2, 1});
    Tensor* whole = bench.random(GGML_TYPE_F32, {20, 8, 3, 1});
    Tensor* dy = bench.slice(whole, {3, 1, 1, 0}, {12, 6, 2, 1});
    Tensor* node = bench.node<Im2colBack>({{window, 0}, {15, 4, 2, 1}}, {dy, kernel});
    expect_result(bench, *node, expected_back(*node), 1e-6, 1e-6);
}

TEST(Im2colBack, DeclinesGradientsOfOtherPatches) {
    Workbench bench;
    const Sliding<2> window{{1, 1}, {0, 0}, {1, 1}};
    Tensor* kernel = bench.tensor(GGML_TYPE_F32, {3, 3, 4, 2});
    Tensor* dy = bench.random(GGML_TYPE_F32, {36, 6, 6, 1});
    const auto objection = [&](const Extents& extent, Tensor* other_kernel) {
        return objection_to(*bench.node<Im2colBack>({{window, 1}, extent}, {dy, other_kernel}));
    };
    EXPECT_EQ(objection({8, 8, 4, 1}, kernel), "");
    EXPECT_EQ(objection({8, 8, 5, 1}, kernel), "dy does not have the patches of the result");
    EXPECT_EQ(objection({8, 8, 4, 2}, kernel), "dy does not have the patches of the result");
    Tensor* bf16 = bench.tensor(GGML_TYPE_BF16, {3, 3, 4, 2});
    EXPECT_EQ(objection({8, 8, 4, 1}, bf16), "the kernel is not f32 or f16");
}

TEST(Col2im1d, AddsColumnsUpIntoSignals) {
    struct Case {
        std::int64_t taps, channels, columns;
        std::int32_t stride, padding;
    };
    for (const Case& c : {Case{4, 3, 10, 2, 0}, Case{5, 1, 700, 3, 2}, Case{2, 7, 9, 5, 1},
                          Case{1, 2, 3, 1, 0}, Case{600, 2, 5, 8, 3}, Case{8, 20, 150, 4, 5},
                          Case{16, 9, 90, 8, 4}, Case{10, 13, 70, 5, 0}, Case{37, 3, 40, 18, 20},
                          Case{64, 1, 130, 1, 9}, Case{3, 30, 80, 64, 1}, Case{70, 2, 9, 65, 66},
                          Case{2, 3, 9, 300, 1}, Case{64, 2, 9, 64, 70}}) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
            Workbench bench;
            Tensor* x = bench.random(type, {c.taps * c.channels, c.columns, 1, 1});
            const auto channels = static_cast<std::int32_t>(c.channels);
            Tensor* node = bench.node<ops::Col2im1d>({c.stride, channels, c.padding}, {x});
            std::vector<double> expected;
            for_elements(*node, [&](auto t, auto channel, auto, auto) {
                double sum = 0;
                for (std::int64_t column = 0; column < c.columns; ++column) {
                    const std::int64_t k = t + c.padding - column * c.stride;
                    if (0 <= k && k < c.taps) sum += value_at(*x, channel * c.taps + k, column);
                }
                expected.push_back(sum);
            });
            expect_result(bench, *node, expected, rounding_of(type), 1e-6);
        }
    }
}

TEST(Col2im1d, DeclinesWhatHasNoSignals) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {12, 5, 1, 1});
    const auto objection_with = [&](std::size_t param) {
        Tensor* node = bench.node<ops::Col2im1d>({2, 3, 0}, {x});
        node->op_params[param] = 0;  // as a C caller could
        return objection_to(*node);
    };
    EXPECT_EQ(objection_with(0), "columns do not move on");
    EXPECT_EQ(objection_with(1), "there are no signals");
}

}  // namespace
}  // namespace heddle::cpu
