#include "ops/convolution.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "ops/build.hpp"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "ops/conv_builders.hpp"
#include "ops/im2col.hpp"
#include "ops/pool.hpp"
#include "ops/test_support.hpp"
#include "ops/view.hpp"
#include "ops/window.hpp"

namespace heddle {
namespace {

using ops::Pool2d;

using Convolutions = NodeTest;
using Patches = NodeTest;
using Composites = NodeTest;
using Pooling = NodeTest;
using Windows = NodeTest;

std::vector<std::int32_t> words(const Tensor& y, std::size_t count) {
    return {y.op_params, y.op_params + count};
}

using Words = std::vector<std::int32_t>;

/// Op names from the result back along the first operand, as far as it is computed.
std::string chain(const Tensor& y) {
    std::string names;
    for (const Tensor* node = &y; node->op != GGML_OP_NONE; node = node->src[0]) {
        names += text(names.empty() ? "" : " ", describe_op_of(*node));
        if (node->op == GGML_OP_IM2COL || node->op == GGML_OP_IM2COL_3D) break;
    }
    return names;
}

// ---- convolutions of one node ------------------------------------------------------------------

TEST_F(Convolutions, Conv2dHasOnePositionPerStride) {
    Tensor* kernel = tensor("w", {3, 2, 4, 5}, GGML_TYPE_F16);
    Tensor* x = tensor("x", {10, 9, 4, 2});
    Tensor* y = *build<ops::Conv2d>(context, {{2, 1}, {1, 0}, {1, 2}}, {kernel, x});
    EXPECT_EQ(summary(*y), "f32[5,7,5,2]");
    EXPECT_EQ(words(*y, 7), (Words{2, 1, 1, 0, 1, 2, 0}));
    EXPECT_EQ(cost_of(*y).flops, 5.0 * 7 * 5 * 2 * (2 * 3 * 2 * 4 - 1));
    EXPECT_TRUE(check_node(*y));
}

TEST_F(Convolutions, AKernelPastTheImageByLessThanAStrideHasOnePosition) {
    Tensor* kernel = tensor("w", {3, 3, 1, 1});
    Tensor* x = tensor("x", {1, 1, 1, 1});
    Tensor* y = *build<ops::Conv2d>(context, {{5, 5}, {2, 2}, {4, 4}}, {kernel, x});
    EXPECT_EQ(summary(*y), "f32[1,1,1,1]");
}

TEST_F(Convolutions, RefusalsNameTheOperandsAndValues) {
    Tensor* kernel = tensor("w", {3, 3, 4, 5});
    Tensor* x = tensor("x", {10, 10, 2, 1});
    EXPECT_EQ(
        build<ops::Conv2d>(context, {{1, 1}, {0, 0}, {1, 1}}, {kernel, x}).error().message,
        "conv_2d: kernel 'w' f32[3,3,4,5] in dimension 2 and x 'x' f32[10,10,2,1] in dimension 2 "
        "differ");
    EXPECT_EQ(
        build<ops::Conv2d>(context, {{1, 0}, {0, 0}, {1, 1}}, {kernel, kernel}).error().message,
        "conv_2d: stride 0 along axis 1");
    EXPECT_EQ(
        build<ops::Conv2d>(context, {{1, 1}, {0, 0}, {9, 1}}, {kernel, kernel}).error().message,
        "conv_2d: extent -15 in dimension 0");
    Tensor* wide = tensor("wide", {std::int64_t{1} << 50, 1, 1, 1});
    const auto huge = std::numeric_limits<std::int32_t>::max();
    EXPECT_EQ(
        build<ops::Conv2d>(context, {{1, 1}, {0, 0}, {huge, 1}}, {wide, wide}).error().message,
        "conv_2d: dimension 0 of the result is too large to count");
}

TEST_F(Convolutions, Conv3dFoldsChannelsIntoTheLastDimension) {
    Tensor* kernel = tensor("w", {3, 3, 2, 2 * 4});
    Tensor* x = tensor("x", {8, 7, 6, 2 * 3});
    const ops::Conv3d::Params params{{{1, 2, 1}, {1, 1, 0}, {1, 1, 1}}, 2, 3, 4};
    Tensor* y = *build<ops::Conv3d>(context, params, {kernel, x});
    EXPECT_EQ(summary(*y), "f32[8,4,5,12]");
    EXPECT_EQ(words(*y, 12), (Words{1, 2, 1, 1, 1, 0, 1, 1, 1, 2, 3, 4}));
    EXPECT_EQ(cost_of(*y).flops, 12.0 * 8 * 4 * 5 * (2 * 2 * 3 * 3 * 2 - 1));
    auto negative = params;
    negative.channels = negative.batches = negative.out_channels = -1;
    EXPECT_EQ(build<ops::Conv3d>(context, negative, {kernel, x}).error().message,
              "conv_3d: channel count -1 is below 0");
    auto wrong = params;
    wrong.batches = 2;
    EXPECT_EQ(build<ops::Conv3d>(context, wrong, {kernel, x}).error().message,
              "conv_3d: x 'x' f32[8,7,6,6] does not have extent 4 in dimension 3");
}

TEST_F(Convolutions, DepthwiseKeepsTheMemoryOrderOfItsImage) {
    Tensor* kernel = tensor("w", {3, 3, 1, 4});
    Tensor* rows_first = tensor("x", {8, 6, 4, 2});
    const Sliding<2> window{{1, 1}, {1, 1}, {1, 1}};
    Tensor* y = *build<ops::Conv2dDw>(context, window, {kernel, rows_first});
    EXPECT_TRUE(is_contiguous(*y));
    EXPECT_EQ(cost_of(*y).flops, 2.0 * 3 * 3 * 8 * 6 * 4 * 2);

    Tensor* stored = tensor("stored", {4, 8, 6, 2});
    Tensor* channels_first = *build<ops::Permute>(context, {{2, 0, 1, 3}}, {stored});
    Tensor* z = *build<ops::Conv2dDw>(context, window, {kernel, channels_first});
    EXPECT_EQ(extents_of(*z), extents_of(*y));
    EXPECT_EQ(strides_of(*z), (Strides{16, 128, 4, 768}));
    EXPECT_EQ(byte_size(*z), byte_size(*y));
}

TEST_F(Convolutions, TransposedOnesGrowByTheirStride) {
    Tensor* y = *build<ops::ConvTranspose1d>(
        context, {{3}, {0}, {1}}, {tensor("w", {4, 2, 5, 1}), tensor("x", {7, 5, 1, 1})});
    EXPECT_EQ(summary(*y), "f32[22,2,1,1]");
    EXPECT_EQ(words(*y, 4), (Words{3, 0, 1, 0}));
    EXPECT_EQ(cost_of(*y).flops, 2.0 * 4 * 2 * 5 * 7);

    Tensor* z = *build<ops::ConvTranspose2d>(
        context, {2}, {tensor("w", {3, 2, 6, 5}), tensor("x", {4, 5, 5, 2})});
    EXPECT_EQ(summary(*z), "f32[9,10,6,2]");
    EXPECT_EQ(words(*z, 2), (Words{2, 0}));
    EXPECT_EQ(cost_of(*z).flops, 2.0 * 3 * 2 * 6 * 5 * 4 * 5 * 2);

    EXPECT_EQ(build<ops::ConvTranspose1d>(context, {{3}, {1}, {1}}, {y, y}).error().message,
              "conv_transpose_1d: padding 1 is not 0");
}

// ---- patches -----------------------------------------------------------------------------------

TEST_F(Patches, Im2colOfImagesAndOfSignals) {
    Tensor* image_kernel = tensor("w", {3, 2, 4, 8}, GGML_TYPE_F16);
    Tensor* y = *build<ops::Im2col>(context, {{{{1, 1}, {1, 0}, {1, 1}}, 1}, GGML_TYPE_F16},
                                    {image_kernel, tensor("x", {10, 9, 4, 2})});
    EXPECT_EQ(summary(*y), "f16[24,10,8,2]");
    EXPECT_EQ(words(*y, 8), (Words{1, 1, 1, 0, 1, 1, 1, 0}));
    EXPECT_EQ(cost_of(*y).bytes, 24.0 * 10 * 8 * 2 * 2 + 10 * 9 * 4 * 2 * 4);
    EXPECT_TRUE(check_node(*y));

    Tensor* signal_kernel = tensor("w", {3, 4, 8, 1});
    Tensor* z = *build<ops::Im2col>(context, {{{{2, 0}, {1, 0}, {1, 0}}, 0}, GGML_TYPE_F32},
                                    {signal_kernel, tensor("x", {10, 4, 2, 1})});
    EXPECT_EQ(summary(*z), "f32[12,5,2,1]");
    EXPECT_EQ(words(*z, 7), (Words{2, 0, 1, 0, 1, 0, 0}));
}

TEST_F(Patches, Im2colRefusesKernelsThatFitNowhere) {
    EXPECT_EQ(build<ops::Im2col>(context, {{{{1, 1}, {0, 0}, {1, 1}}, 1}, GGML_TYPE_F16},
                                 {tensor("w", {3, 5, 1, 1}), tensor("x", {3, 3, 1, 1})})
                  .error()
                  .message,
              "im2col: kernel 'w' f32[3,5,1,1] has no vertical position in 'x' f32[3,3,1,1]");
}

TEST_F(Patches, Im2colBackTakesTheShapeOfTheData) {
    Tensor* dy = tensor("dy", {24, 10, 8, 2});
    Tensor* kernel = tensor("w", {3, 2, 4, 8});
    Tensor* y = *build<ops::Im2colBack>(context, {{{{1, 1}, {1, 0}, {1, 1}}, 1}, {10, 9, 4, 2}},
                                        {dy, kernel});
    EXPECT_EQ(summary(*y), "f32[10,9,4,2]");
    EXPECT_EQ(words(*y, 7), (Words{1, 1, 1, 0, 1, 1, 1}));
    EXPECT_TRUE(check_node(*y));
}

TEST_F(Patches, Im2col3dMayBeEmptyButHasChannels) {
    Tensor* kernel = tensor("w", {3, 3, 2, 3 * 5});
    const Sliding<3> window{{1, 1, 1}, {1, 1, 0}, {1, 1, 1}};
    Tensor* y = *build<ops::Im2col3d>(context, {{window, 3}, 3, GGML_TYPE_F32},
                                      {kernel, tensor("x", {6, 5, 4, 6})});
    EXPECT_EQ(summary(*y), "f32[54,6,5,6]");
    EXPECT_EQ(words(*y, 10), (Words{1, 1, 1, 1, 1, 0, 1, 1, 1, 3}));
    EXPECT_TRUE(check_node(*y));

    Tensor* few = tensor("few", {6, 5, 4, 1});
    EXPECT_EQ(
        summary(**build<ops::Im2col3d>(context, {{window, 3}, 3, GGML_TYPE_F32}, {kernel, few})),
        "f32[54,6,5,0]");
    EXPECT_EQ(build<ops::Im2col3d>(context, {{window, 0}, std::int64_t{1} << 32, GGML_TYPE_F32},
                                   {kernel, few})
                  .error()
                  .message,
              "im2col_3d: channel count 4294967296 is not in 1 .. 2^31 - 1");
}

TEST_F(Patches, Col2imAddsColumnsUpIntoASignal) {
    Tensor* x = tensor("x", {12, 5, 1, 1}, GGML_TYPE_BF16);
    Tensor* y = *build<ops::Col2im1d>(context, {2, 3, 1}, {x});
    EXPECT_EQ(summary(*y), "bf16[10,3,1,1]");
    EXPECT_EQ(words(*y, 4), (Words{2, 3, 1, 0}));
    EXPECT_EQ(cost_of(*y).flops, 60);
    EXPECT_EQ(build<ops::Col2im1d>(context, {2, 5, 1}, {x}).error().message,
              "col2im_1d: columns of x 'x' bf16[12,5,1,1] do not divide into 5 channels");
    EXPECT_EQ(build<ops::Col2im1d>(context, {0, 3, 1}, {x}).error().message,
              "col2im_1d: stride 0 is below 1");
    EXPECT_EQ(build<ops::Col2im1d>(context, {2, 3, 6}, {x}).error().message,
              "col2im_1d: padding 6 leaves nothing of x 'x' bf16[12,5,1,1]");
    EXPECT_EQ(build<ops::Col2im1d>(context, {2, 3, 1}, {tensor("i", {12, 5, 1, 1}, GGML_TYPE_I32)})
                  .error()
                  .message,
              "col2im_1d: x 'i' i32[12,5,1,1] is not f32, f16 or bf16");
}

// ---- convolutions of several nodes -------------------------------------------------------------

TEST_F(Composites, Conv1dMultipliesPatchesWithTheKernel) {
    Tensor* kernel = tensor("w", {3, 4, 8, 1});
    Tensor* y = *conv_1d_half_padded(context, kernel, tensor("x", {10, 4, 1, 1}), 1, 1);
    EXPECT_EQ(summary(*y), "f32[10,8,1,1]");
    EXPECT_EQ(chain(*y), "RESHAPE MUL_MAT RESHAPE IM2COL");
    const Tensor& patches = *y->src[0]->src[0]->src[0];
    EXPECT_EQ(summary(patches), "f16[12,10,1,1]");
    EXPECT_EQ(words(patches, 7), (Words{1, 0, 1, 0, 1, 0, 0}));
    EXPECT_EQ(y->src[0]->src[1]->src[0], kernel);
}

TEST_F(Composites, Conv1dOfSeveralSignalsPutsChannelsBeforeSignals) {
    Tensor* y =
        *conv_1d(context, tensor("w", {3, 4, 8, 1}), tensor("x", {10, 4, 2, 1}), {{1}, {1}, {1}});
    EXPECT_EQ(summary(*y), "f32[10,8,2,1]");
    EXPECT_EQ(chain(*y), "CONT PERMUTE RESHAPE MUL_MAT RESHAPE IM2COL");
}

TEST_F(Composites, DepthwiseConv1dTakesOneSignal) {
    Tensor* kernel = tensor("w", {3, 1, 4, 1}, GGML_TYPE_F16);
    Tensor* y = *conv_1d_depthwise_half_padded(context, kernel, tensor("x", {10, 4, 1, 1}), 1, 1);
    EXPECT_EQ(summary(*y), "f32[10,4,1,1]");
    EXPECT_EQ(chain(*y), "RESHAPE MUL_MAT IM2COL");
    EXPECT_EQ(
        conv_1d_depthwise(context, kernel, tensor("x", {10, 4, 2, 1}), {{1}, {1}, {1}})
            .error()
            .message,
        "conv_1d_dw: im2col: x 'x (reshaped)' f32[10,1,4,2] does not have extent 1 in dimension 3");
}

TEST_F(Composites, Conv2dPutsChannelsBeforeImages) {
    Tensor* kernel = tensor("w", {3, 3, 4, 8}, GGML_TYPE_BF16);
    Tensor* x = tensor("x", {10, 9, 4, 2});
    Tensor* y = *conv_2d_half_padded(context, kernel, x);
    EXPECT_EQ(summary(*y), "f32[10,9,8,2]");
    EXPECT_EQ(chain(*y), "CONT PERMUTE RESHAPE MUL_MAT RESHAPE IM2COL");
    EXPECT_EQ(y->src[0]->src[0]->src[0]->src[0]->src[0]->type, GGML_TYPE_F32);  // of a bf16 kernel
    EXPECT_EQ(summary(**conv_2d_tiled(context, kernel, x)), "f32[3,3,8,2]");
    EXPECT_EQ(conv_2d(context, nullptr, x, {}).error().message,
              "conv_2d: operand kernel is missing");
}

TEST_F(Composites, DepthwiseConv2dMultipliesTheKernelWithPatches) {
    Tensor* kernel = tensor("w", {3, 3, 1, 4}, GGML_TYPE_F16);
    Tensor* x = tensor("x", {10, 9, 4, 2});
    Tensor* one = tensor("x", {10, 9, 4, 1});
    const Sliding<2> window{{1, 1}, {1, 1}, {1, 1}};
    Tensor* y = *conv_2d_depthwise(context, kernel, x, window);
    EXPECT_EQ(summary(*y), "f32[10,9,4,2]");
    EXPECT_EQ(chain(*y), "RESHAPE MUL_MAT RESHAPE RESHAPE");
    EXPECT_EQ(summary(*y->src[0]->src[0]), "f16[9,1,4,1]");
    EXPECT_EQ(summary(*y->src[0]->src[1]), "f16[9,90,4,2]");
    EXPECT_EQ(y->src[0]->src[1]->src[0]->op, GGML_OP_IM2COL);
    EXPECT_EQ(summary(**conv_2d_depthwise(context, kernel, one, window)), "f32[10,9,4,1]");
}

TEST_F(Composites, Conv3dPutsChannelsBeforeVolumes) {
    Tensor* kernel = tensor("w", {3, 3, 3, 2 * 5});
    const Sliding<3> window{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    Tensor* y = *conv_3d(context, kernel, tensor("x", {6, 5, 4, 2 * 3}), 2, window);
    EXPECT_EQ(summary(*y), "f32[6,5,4,15]");
    EXPECT_EQ(chain(*y), "RESHAPE CONT PERMUTE RESHAPE MUL_MAT RESHAPE IM2COL_3D");
    EXPECT_EQ(
        conv_3d(context, kernel, tensor("x", {6, 5, 4, 1}), 2, window).error().message,
        "conv_3d: kernel 'w' f32[3,3,3,10] or x 'x' f32[6,5,4,1] has fewer than 2 channels in "
        "dimension 3");
}

// ---- pooling -----------------------------------------------------------------------------------

TEST_F(Pooling, Pool1dCountsWindows) {
    Tensor* x = tensor("x", {10, 3, 2, 1}, GGML_TYPE_F16);
    Tensor* y = *build<ops::Pool1d>(context, {GGML_OP_POOL_AVG, 3, 2, 1}, {x});
    EXPECT_EQ(summary(*y), "f32[5,3,2,1]");
    EXPECT_EQ(words(*y, 5), (Words{1, 3, 2, 1, 0}));
    EXPECT_EQ(cost_of(*y).flops, 3.0 * 5 * 3 * 2);
    EXPECT_EQ(build<ops::Pool1d>(context, {GGML_OP_POOL_AVG, 13, 2, 1}, {x}).error().message,
              "pool_1d: no window of 13 fits into 10 elements with padding 1");
    EXPECT_EQ(build<ops::Pool1d>(context, {GGML_OP_POOL_AVG, 3, 0, 1}, {x}).error().message,
              "pool_1d: stride 0 is below 1");
}

TEST_F(Pooling, AFractionOfPaddingCountsForTheSizeButIsNotStored) {
    Tensor* x = tensor("x", {10, 10, 2, 1});
    Tensor* whole =
        *build<Pool2d>(context, Pool2d::args(GGML_OP_POOL_MAX, {3, 3}, {2, 2}, {0, 1}), {x});
    EXPECT_EQ(summary(*whole), "f32[4,5,2,1]");
    Tensor* half =
        *build<Pool2d>(context, Pool2d::args(GGML_OP_POOL_MAX, {3, 3}, {2, 2}, {0.5f, 1.5f}), {x});
    EXPECT_EQ(summary(*half), "f32[5,6,2,1]");
    EXPECT_EQ(words(*half, 7), (Words{0, 3, 3, 2, 2, 0, 1}));
    EXPECT_TRUE(check_node(*whole));
    EXPECT_TRUE(check_node(*half));
    half->ne[0] = 9;
    EXPECT_FALSE(check_node(*half));
}

TEST_F(Pooling, PaddingIsANumberOfElements) {
    Tensor* x = tensor("x", {10, 10, 2, 1});
    for (const float padding : {std::numeric_limits<float>::quiet_NaN(), 1e20f, -1e20f}) {
        EXPECT_FALSE(build<Pool2d>(
            context, Pool2d::args(GGML_OP_POOL_MAX, {3, 3}, {2, 2}, {padding, 0}), {x}));
    }
    EXPECT_EQ(build<Pool2d>(context, Pool2d::args(GGML_OP_POOL_MAX, {3, 3}, {2, 2}, {0, 3e9f}), {x})
                  .error()
                  .message,
              "pool_2d: padding 3e+09 is not a count of elements");
}

TEST_F(Pooling, ItsGradientLooksLikeTheImage) {
    Tensor* y = *build<ops::Pool2dBack>(
        context, Pool2d::args(GGML_OP_POOL_AVG, {2, 2}, {2, 2}, {0, 0}),
        {tensor("dy", {5, 5, 2, 1}), tensor("x", {10, 10, 2, 1}, GGML_TYPE_F16)});
    EXPECT_EQ(summary(*y), "f32[10,10,2,1]");
    EXPECT_EQ(words(*y, 7), (Words{1, 2, 2, 2, 2, 0, 0}));
    EXPECT_TRUE(check_node(*y));
}

// ---- windows -----------------------------------------------------------------------------------

TEST_F(Windows, PartitionCoversTheImageAndIsUndone) {
    Tensor* x = tensor("x", {8, 10, 7, 1});
    Tensor* y = *build<ops::WinPart>(context, ops::WinPart::params(x, 4), {x});
    EXPECT_EQ(summary(*y), "f32[8,4,4,6]");
    EXPECT_EQ(words(*y, 3), (Words{3, 2, 4}));
    Tensor* z = *build<ops::WinUnpart>(context, {{4}, 10, 7}, {y});
    EXPECT_EQ(summary(*z), "f32[8,10,7,1]");
    EXPECT_EQ(words(*z, 1), (Words{4}));
    EXPECT_TRUE(check_node(*y));
    EXPECT_TRUE(check_node(*z));
    EXPECT_EQ(build<ops::WinPart>(context, ops::WinPart::params(x, 0), {x}).error().message,
              "win_part: window width 0 is below 1");
    EXPECT_EQ(
        build<ops::WinPart>(context, ops::WinPart::params(nullptr, 4), {nullptr}).error().message,
        "win_part: operand x is missing");
    EXPECT_EQ(build<ops::WinUnpart>(context, {{4}, -1, 7}, {y}).error().message,
              "win_unpart: extent -1 in dimension 1");
}

TEST_F(Windows, RelativePositionsComeFromAllDistances) {
    Tensor* x = tensor("x", {16, 7, 1, 1}, GGML_TYPE_F16);
    Tensor* y = *build<ops::GetRelPos>(context, {{}, 4, 4}, {x});
    EXPECT_EQ(summary(*y), "f16[16,4,4,1]");
    EXPECT_TRUE(check_node(*y));
    EXPECT_EQ(
        build<ops::GetRelPos>(context, {{}, 5, 5}, {x}).error().message,
        "get_rel_pos: x 'x' f16[16,7,1,1] does not have the 2 * 5 - 1 distances in dimension 1");
    EXPECT_EQ(build<ops::GetRelPos>(context, {{}, 4, 5}, {x}).error().message,
              "get_rel_pos: 4 queries and 5 keys are not as many");
}

TEST_F(Windows, RelativePositionsAreAddedInPlaceToo) {
    Tensor* x = tensor("scores", {9, 6, 5, 1});
    Tensor* pw = tensor("pw", {3, 2, 3, 5});
    Tensor* ph = tensor("ph", {3, 2, 3, 5});
    Tensor* y = *build<ops::AddRelPos>(context, {0}, {x, pw, ph});
    EXPECT_EQ(summary(*y), "f32[9,6,5,1]");
    EXPECT_EQ(y->view_src, nullptr);
    EXPECT_EQ(name_of(*y), "");
    Tensor* z = *build_in_place<ops::AddRelPos>(context, {1}, {x, pw, ph});
    EXPECT_EQ(z->view_src, x);
    EXPECT_EQ(name_of(*z), "scores (view)");
    EXPECT_EQ(words(*z, 1), (Words{1}));
    EXPECT_EQ(cost_of(*z).flops, 2.0 * 9 * 6 * 5);
    EXPECT_EQ(
        build<ops::AddRelPos>(context, {0}, {x, pw, x}).error().message,
        "add_rel_pos: ph 'scores' f32[9,6,5,1] does not have the extents of pw 'pw' f32[3,2,3,5]");
}

}  // namespace
}  // namespace heddle
