#include "ops/convolution.hpp"

#include "backends/cpu/kernels/test_support.hpp"

namespace heddle::cpu {
namespace {

using ops::Conv2d;
using ops::Conv2dDw;
using ops::Conv3d;
using ops::ConvTranspose1d;
using ops::ConvTranspose2d;

/// Data count as rounded to f16 where the kernel is f16.
double seen(double value, Type kernel) {
    const auto single = static_cast<float>(value);
    return kernel == GGML_TYPE_F16 ? f16_to_f32(f32_to_f16(single)) : single;
}

double padded(const Tensor& x, std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
    if (i0 < 0 || i0 >= x.ne[0] || i1 < 0 || i1 >= x.ne[1] || i2 < 0 || i2 >= x.ne[2]) return 0;
    return value_at(x, i0, i1, i2, i3);
}

/// Sums of some hundred products of numbers up to 1, in single precision.
constexpr double kRelative = 1e-5, kAbsolute = 1e-5;

std::vector<double> expected_conv_2d(const Tensor& node) {
    const auto w = unpack<Conv2d::Params>(node);
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    std::vector<double> expected;
    for_elements(node, [&](auto ox, auto oy, auto oc, auto n) {
        double sum = 0;
        for (std::int64_t ic = 0; ic < kernel.ne[2]; ++ic) {
            for (std::int64_t ky = 0; ky < kernel.ne[1]; ++ky) {
                for (std::int64_t kx = 0; kx < kernel.ne[0]; ++kx) {
                    const double pixel =
                        padded(x, ox * w.stride[0] + kx * w.dilation[0] - w.padding[0],
                               oy * w.stride[1] + ky * w.dilation[1] - w.padding[1], ic, n);
                    sum += value_at(kernel, kx, ky, ic, oc) * seen(pixel, kernel.type);
                }
            }
        }
        expected.push_back(sum);
    });
    return expected;
}

TEST(Conv2d, SlidesKernelsOverImages) {
    struct Case {
        Extents kernel, x;
        Sliding<2> window;
    };
    for (const Case& c : {
             Case{{3, 3, 4, 5}, {19, 14, 4, 2}, {{1, 1}, {1, 1}, {1, 1}}},
             Case{{1, 1, 8, 33}, {5, 4, 8, 1}, {{1, 1}, {0, 0}, {1, 1}}},
             Case{{3, 2, 3, 2}, {13, 11, 3, 2}, {{2, 3}, {1, 2}, {2, 1}}},
             Case{{11, 11, 2, 3}, {7, 9, 2, 1}, {{1, 2}, {5, 6}, {1, 1}}},
             Case{{3, 1, 1, 1}, {1, 1, 1, 1}, {{5, 1}, {2, 0}, {4, 1}}},
             Case{{4, 4, 70, 3}, {8, 8, 70, 1}, {{4, 4}, {0, 0}, {1, 1}}},
         }) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            Workbench bench;
            Tensor* kernel = bench.random(type, c.kernel);
            Tensor* x = bench.random(GGML_TYPE_F32, c.x);
            Tensor* node = bench.node<Conv2d>(c.window, {kernel, x});
            expect_result(bench, *node, expected_conv_2d(*node), kRelative, kAbsolute);
        }
    }
}

TEST(Conv2d, ReadsImagesOfAnyStride) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Workbench bench;
        Tensor* kernel = bench.random(type, {3, 3, 4, 3});
        Tensor* channels_first = bench.random(GGML_TYPE_F32, {4, 9, 7, 2});
        Tensor* whole = bench.random(GGML_TYPE_F32, {20, 20, 5, 3});
        for (Tensor* x : {bench.permuted(channels_first, {2, 0, 1, 3}),
                          bench.slice(whole, {1, 2, 1, 1}, {9, 7, 4, 2}, {2, 2, 1, 1})}) {
            Tensor* node = bench.node<Conv2d>({{1, 1}, {1, 1}, {1, 1}}, {kernel, x});
            expect_result(bench, *node, expected_conv_2d(*node), kRelative, kAbsolute);
        }
    }
}

TEST(Conv2d, GivesTheSameBitsForAnyNumberOfTasks) {
    Workbench bench;
    Tensor* kernel = bench.random(GGML_TYPE_F32, {3, 3, 20, 70});
    Tensor* x = bench.random(GGML_TYPE_F32, {17, 13, 20, 1});
    Tensor* node = bench.node<Conv2d>({{1, 1}, {1, 1}, {1, 1}}, {kernel, x});
    ASSERT_TRUE(run_node(*node, 1));
    const std::vector<double> once = values_of(*node);
    for (const int threads : {2, 3, 8}) {
        ASSERT_TRUE(run_node(*node, threads));
        EXPECT_EQ(values_of(*node), once) << threads << " tasks";
        ASSERT_TRUE(run_demanded(*node, threads));
        EXPECT_EQ(values_of(*node), once) << threads << " threads";
    }
}

TEST(Conv2d, DeclinesWhatItCannotRead) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {9, 9, 3, 1});
    Tensor* kernel = bench.random(GGML_TYPE_F32, {3, 3, 3, 2});
    Tensor* channel_last = bench.permuted(bench.random(GGML_TYPE_F32, {3, 3, 3, 2}), {2, 0, 1, 3});
    Tensor* bf16 = bench.random(GGML_TYPE_BF16, {3, 3, 3, 2});
    Tensor* half = bench.random(GGML_TYPE_F16, {9, 9, 3, 1});
    const auto objection = [&](Tensor* a, Tensor* b, std::int32_t dilation = 1) {
        return objection_to(*bench.node<Conv2d>({{1, 1}, {0, 0}, {dilation, 1}}, {a, b}));
    };
    EXPECT_EQ(objection(kernel, x), "");
    EXPECT_EQ(objection(channel_last, x), "the kernel is not contiguous");
    EXPECT_EQ(objection(bf16, x), "the kernel is not f32 or f16");
    EXPECT_EQ(objection(kernel, half), "x is not f32");
    EXPECT_EQ(objection(kernel, x, -1), "the dilation is negative");
}

TEST(Conv3d, SlidesKernelsOverVolumes) {
    const Conv3d::Params p{{{1, 2, 1}, {1, 0, 2}, {1, 1, 2}}, 3, 2, 5};
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Workbench bench;
        Tensor* kernel = bench.random(type, {3, 2, 2, 15});
        Tensor* dense = bench.random(GGML_TYPE_F32, {8, 7, 6, 6});
        Tensor* view =
            bench.slice(bench.random(GGML_TYPE_F32, {9, 9, 9, 8}), {1, 1, 2, 1}, {8, 7, 6, 6});
        for (Tensor* x : {dense, view}) {
            Tensor* node = bench.node<Conv3d>(p, {kernel, x});
            std::vector<double> expected;
            const Sliding<3>& w = p.window;
            for_elements(*node, [&](auto ox, auto oy, auto oz, auto i3) {
                const std::int64_t n = i3 / p.out_channels, oc = i3 % p.out_channels;
                double sum = 0;
                for_elements(*kernel, [&](auto kx, auto ky, auto kz, auto k3) {
                    if (k3 / p.channels != oc) return;
                    const double voxel =
                        padded(*x, ox * w.stride[0] + kx * w.dilation[0] - w.padding[0],
                               oy * w.stride[1] + ky * w.dilation[1] - w.padding[1],
                               oz * w.stride[2] + kz * w.dilation[2] - w.padding[2],
                               n * p.channels + k3 % p.channels);
                    sum += value_at(*kernel, kx, ky, kz, k3) * seen(voxel, type);
                });
                expected.push_back(sum);
            });
            expect_result(bench, *node, expected, kRelative, kAbsolute);
        }
    }
}

// ---- depthwise ---------------------------------------------------------------------------------

/// Unlike other convolutions this one leaves the data as they are with a kernel of f16.
std::vector<double> expected_depthwise(const Tensor& node) {
    const auto w = unpack<Conv2dDw::Params>(node);
    const Tensor &kernel = *node.src[0], &x = *node.src[1];
    std::vector<double> expected;
    for_elements(node, [&](auto ox, auto oy, auto c, auto n) {
        double sum = 0;
        for (std::int64_t ky = 0; ky < kernel.ne[1]; ++ky) {
            for (std::int64_t kx = 0; kx < kernel.ne[0]; ++kx) {
                sum += value_at(kernel, kx, ky, 0, c) *
                       padded(x, ox * w.stride[0] + kx * w.dilation[0] - w.padding[0],
                              oy * w.stride[1] + ky * w.dilation[1] - w.padding[1], c, n);
            }
        }
        expected.push_back(sum);
    });
    return expected;
}

TEST(Conv2dDw, SlidesOneKernelPerChannelInEitherMemoryOrder) {
    for (const Sliding<2>& window :
         {Sliding<2>{{1, 1}, {1, 1}, {1, 1}}, Sliding<2>{{2, 3}, {0, 2}, {2, 1}}}) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            Workbench bench;
            Tensor* rows_kernel = bench.random(type, {3, 4, 1, 21});
            Tensor* rows = bench.random(GGML_TYPE_F32, {23, 11, 21, 2});
            // Channels vary fastest: [C, 1, KW, KH] and [C, W, H, N].
            Tensor* channels_kernel =
                bench.permuted(bench.random(type, {21, 1, 3, 4}), {3, 2, 0, 1});
            Tensor* channels =
                bench.permuted(bench.random(GGML_TYPE_F32, {21, 23, 11, 2}), {2, 0, 1, 3});
            Tensor* first = bench.node<Conv2dDw>(window, {rows_kernel, rows});
            Tensor* second = bench.node<Conv2dDw>(window, {channels_kernel, channels});
            ASSERT_EQ(second->nb[2], sizeof(float));
            expect_result(bench, *first, expected_depthwise(*first), 1e-6, 2e-6);
            expect_result(bench, *second, expected_depthwise(*second), 1e-6, 2e-6);
        }
    }
}

TEST(Conv2dDw, ServesEveryWindow) {
    struct Case {
        std::int64_t across, down;  // of the kernel
        Sliding<2> window;
    };
    for (const Case& c : {
             Case{3, 3, {{1, 1}, {1, 1}, {1, 1}}},   // what has code of its own
             Case{3, 3, {{1, 1}, {0, 3}, {1, 1}}},   // and whole rows outside
             Case{3, 3, {{2, 2}, {1, 1}, {1, 1}}},   //
             Case{5, 5, {{1, 1}, {2, 2}, {1, 1}}},   //
             Case{7, 2, {{2, 1}, {3, 0}, {1, 1}}},   //
             Case{3, 3, {{1, 1}, {2, 2}, {2, 2}}},   // taps apart
             Case{2, 2, {{3, 4}, {0, 0}, {1, 1}}},   // gaps between windows
             Case{3, 3, {{1, 2}, {-1, 0}, {1, 1}}},  // less than all of x
             Case{3, 3, {{1, 1}, {40, 1}, {1, 1}}},  // mostly zeros
         }) {
        for (const std::int64_t width : {9, 48, 75}) {
            Workbench bench;
            Tensor* rows_kernel = bench.random(GGML_TYPE_F32, {c.across, c.down, 1, 3});
            Tensor* rows = bench.random(GGML_TYPE_F32, {width, 10, 3, 2});
            Tensor* channels_kernel = bench.permuted(
                bench.random(GGML_TYPE_F32, {85, 1, c.across, c.down}), {3, 2, 0, 1});
            Tensor* channels =
                bench.permuted(bench.random(GGML_TYPE_F32, {85, width, 6, 1}), {2, 0, 1, 3});
            for (const Tensor* node :
                 {bench.node<Conv2dDw>(c.window, {rows_kernel, rows}),
                  bench.node<Conv2dDw>(c.window, {channels_kernel, channels})}) {
                expect_result(bench, *node, expected_depthwise(*node), 1e-6, 3e-6);
            }
        }
    }
}

TEST(Conv2dDw, DeclinesOtherLayouts) {
    Workbench bench;
    Tensor* kernel = bench.random(GGML_TYPE_F32, {3, 3, 1, 4});
    Tensor* whole = bench.random(GGML_TYPE_F32, {18, 9, 4, 1});
    Tensor* sparse = bench.slice(whole, {0, 0, 0, 0}, {9, 9, 4, 1}, {2, 1, 1, 1});
    Tensor* bf16 = bench.random(GGML_TYPE_BF16, {3, 3, 1, 4});
    const Sliding<2> window{{1, 1}, {1, 1}, {1, 1}};
    EXPECT_EQ(objection_to(*bench.node<Conv2dDw>(window, {kernel, sparse})),
              "neither rows nor channels are dense in all of x, kernel and result");
    EXPECT_EQ(objection_to(*bench.node<Conv2dDw>(window, {bf16, whole})),
              "the kernel is not f32 or f16");
}

// ---- transposed --------------------------------------------------------------------------------

TEST(ConvTranspose1d, AddsScaledKernelsStrideByStride) {
    struct Case {
        std::int64_t taps, out, in, length;
        std::int32_t stride;
    };
    for (const Case& c :
         {Case{3, 2, 4, 20, 1}, Case{4, 3, 5, 33, 2}, Case{2, 1, 3, 7, 5}, Case{16, 2, 3, 1300, 8},
          Case{1337, 2, 2, 3, 1}, Case{5, 3, 2, 1, 1000}, Case{1, 1, 1, 1, 1},
          // As matrix products: several pieces, taps that do not fill their strides, gaps, and
          // more to sum over than is packed at once.
          Case{8, 20, 24, 100, 4}, Case{7, 13, 6, 150, 3}, Case{2, 5, 4, 90, 5},
          Case{3, 4, 700, 70, 1}}) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            Workbench bench;
            Tensor* kernel = bench.random(type, {c.taps, c.out, c.in, 1});
            Tensor* x = bench.random(GGML_TYPE_F32, {c.length, c.in, 1, 1});
            Tensor* node = bench.node<ConvTranspose1d>({{c.stride}, {0}, {1}}, {kernel, x});
            std::vector<double> expected(static_cast<std::size_t>(element_count(*node)));
            for_elements(*kernel, [&](auto k, auto oc, auto ic, auto) {
                for (std::int64_t l = 0; l < c.length; ++l) {
                    const std::int64_t t = l * c.stride + k;
                    expected[static_cast<std::size_t>(oc * node->ne[0] + t)] +=
                        value_at(*kernel, k, oc, ic) * seen(value_at(*x, l, ic), type);
                }
            });
            const bool is_long = c.in > 100;  // thousands of products
            expect_result(bench, *node, expected, kRelative, is_long ? 1e-4 : kAbsolute);
        }
    }
}

TEST(ConvTranspose1d, ReadsViews) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Workbench bench;
        Tensor* kernel = bench.slice(bench.random(type, {9, 5, 6, 1}), {1, 1, 2, 0}, {4, 3, 4, 1});
        Tensor* x =
            bench.slice(bench.random(GGML_TYPE_F32, {30, 7, 1, 1}), {3, 1, 0, 0}, {21, 4, 1, 1});
        Tensor* node = bench.node<ConvTranspose1d>({{3}, {0}, {1}}, {kernel, x});
        std::vector<double> expected(static_cast<std::size_t>(element_count(*node)));
        for_elements(*kernel, [&](auto k, auto oc, auto ic, auto) {
            for (std::int64_t l = 0; l < x->ne[0]; ++l) {
                expected[static_cast<std::size_t>(oc * node->ne[0] + l * 3 + k)] +=
                    value_at(*kernel, k, oc, ic) * seen(value_at(*x, l, ic), type);
            }
        });
        expect_result(bench, *node, expected, kRelative, kAbsolute);
    }
}

TEST(ConvTranspose2d, ServesAllBatches) {
    struct Case {
        Extents kernel, x;
        std::int32_t stride;
    };
    for (const Case& c :
         {Case{{3, 2, 4, 5}, {9, 7, 5, 2}, 1}, Case{{2, 2, 3, 4}, {40, 3, 4, 1}, 2},
          Case{{3, 4, 2, 3}, {5, 6, 3, 3}, 3}, Case{{1, 1, 1, 1}, {4, 4, 1, 1}, 4},
          Case{{3, 3, 14, 10}, {33, 5, 10, 2}, 2}, Case{{2, 1, 7, 5}, {19, 8, 5, 2}, 3},
          Case{{2, 4, 30, 9}, {12, 11, 9, 1}, 2}}) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            Workbench bench;
            Tensor* kernel = bench.random(type, c.kernel);
            Tensor* dense = bench.random(GGML_TYPE_F32, c.x);
            Tensor* whole =
                bench.random(GGML_TYPE_F32, {c.x[0] + 2, c.x[1] + 1, c.x[2] + 1, c.x[3] + 1});
            for (Tensor* x : {dense, bench.slice(whole, {1, 1, 1, 1}, c.x)}) {
                Tensor* node = bench.node<ConvTranspose2d>({c.stride}, {kernel, x});
                std::vector<double> expected(static_cast<std::size_t>(element_count(*node)));
                for_elements(*x, [&](auto w, auto h, auto ic, auto n) {
                    const double pixel = seen(value_at(*x, w, h, ic, n), type);
                    for (std::int64_t oc = 0; oc < kernel->ne[2]; ++oc) {
                        for (std::int64_t ky = 0; ky < kernel->ne[1]; ++ky) {
                            for (std::int64_t kx = 0; kx < kernel->ne[0]; ++kx) {
                                const std::int64_t row =
                                    (n * node->ne[2] + oc) * node->ne[1] + h * c.stride + ky;
                                expected[static_cast<std::size_t>(row * node->ne[0] + w * c.stride +
                                                                  kx)] +=
                                    pixel * value_at(*kernel, kx, ky, oc, ic);
                            }
                        }
                    }
                });
                expect_result(bench, *node, expected, kRelative, kAbsolute);
            }
        }
    }
}

TEST(ConvTranspose2d, GivesTheSameBitsForAnyNumberOfTasks) {
    Workbench bench;
    Tensor* kernel = bench.random(GGML_TYPE_F32, {3, 3, 40, 20});
    Tensor* x = bench.random(GGML_TYPE_F32, {21, 17, 20, 1});
    Tensor* node = bench.node<ConvTranspose2d>({2}, {kernel, x});
    ASSERT_TRUE(run_node(*node, 1));
    const std::vector<double> once = values_of(*node);
    for (const int threads : {2, 3, 8}) {
        ASSERT_TRUE(run_node(*node, threads));
        EXPECT_EQ(values_of(*node), once) << threads << " tasks";
        ASSERT_TRUE(run_demanded(*node, threads));
        EXPECT_EQ(values_of(*node), once) << threads << " threads";
    }
}

TEST(ConvTranspose2d, DeclinesOtherTypes) {
    Workbench bench;
    Tensor* bf16 = bench.random(GGML_TYPE_BF16, {2, 2, 3, 4});
    Tensor* kernel = bench.random(GGML_TYPE_F32, {2, 2, 3, 4});
    Tensor* x = bench.random(GGML_TYPE_F32, {5, 5, 4, 1});
    Tensor* half = bench.random(GGML_TYPE_F16, {5, 5, 4, 1});
    EXPECT_EQ(objection_to(*bench.node<ConvTranspose2d>({2}, {bf16, x})),
              "the kernel is not f32 or f16");
    EXPECT_EQ(objection_to(*bench.node<ConvTranspose2d>({2}, {kernel, half})), "x is not f32");
}

}  // namespace
}  // namespace heddle::cpu
