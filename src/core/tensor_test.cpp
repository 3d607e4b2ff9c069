#include "core/tensor.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "core/test_support.hpp"

namespace heddle {
namespace {

/// A tensor that stands alone, densely packed.
Tensor dense(Type type, const Extents& extent) {
    const TensorSpec spec = TensorSpec::dense(type, extent);
    Tensor t{};
    t.type = type;
    std::copy(spec.extent.begin(), spec.extent.end(), t.ne);
    std::copy(spec.stride.begin(), spec.stride.end(), t.nb);
    return t;
}

Tensor f32(const Extents& extent) { return dense(GGML_TYPE_F32, extent); }

/// `t` with dimensions `a` and `b` exchanged.
Tensor exchanged(Tensor t, int a, int b) {
    std::swap(t.ne[a], t.ne[b]);
    std::swap(t.nb[a], t.nb[b]);
    return t;
}

TEST(TensorStrides, ArePackedFromTheFirstDimensionOn) {
    EXPECT_EQ(dense_strides(GGML_TYPE_F32, {2, 3, 4, 5}), (Strides{4, 8, 24, 96}));
    EXPECT_EQ(dense_strides(GGML_TYPE_F16, {2, 3, 1, 1}), (Strides{2, 4, 12, 12}));
}

TEST(TensorStrides, CountBlocksOfQuantizedTypes) {
    EXPECT_EQ(dense_strides(GGML_TYPE_Q4_0, {64, 3, 1, 1}), (Strides{18, 36, 108, 108}));
}

TEST(TensorSizes, CountElementsAndRows) {
    const Tensor t = f32({2, 3, 4, 5});
    EXPECT_EQ(element_count(t), 120);
    EXPECT_EQ(row_count(t), 60);
}

TEST(TensorSizes, SpanOfAStridedTensorIncludesItsGaps) {
    EXPECT_EQ(byte_size(f32({2, 3, 1, 1})), 24u);
    Tensor padded = f32({2, 3, 1, 1});
    padded.nb[1] = 100;
    EXPECT_EQ(byte_size(padded), 4u + 4u + 2 * 100u);
    EXPECT_EQ(byte_size(exchanged(f32({2, 3, 1, 1}), 0, 1)), 24u);
}

TEST(TensorSizes, QuantizedRowsCountWholeBlocks) {
    EXPECT_EQ(byte_size(dense(GGML_TYPE_Q4_0, {64, 3, 1, 1})), 108u);
}

TEST(TensorSizes, EmptyTensorsHaveNoBytes) {
    EXPECT_EQ(byte_size(f32({0, 3, 1, 1})), 0u);
    EXPECT_EQ(byte_size(f32({3, 0, 1, 1})), 0u);
}

TEST(TensorSizes, DimensionsAreCountedWithoutTrailingOnes) {
    EXPECT_EQ(dimension_count(f32({1, 1, 1, 1})), 1);
    EXPECT_EQ(dimension_count(f32({5, 1, 1, 1})), 1);
    EXPECT_EQ(dimension_count(f32({1, 1, 3, 1})), 3);
    EXPECT_EQ(dimension_count(f32({1, 1, 1, 2})), 4);
    EXPECT_EQ(dimension_count(f32({5, 0, 1, 1})), 1);
}

TEST(TensorShape, ScalarVectorMatrixLookAtExtentsOnly) {
    EXPECT_TRUE(is_scalar(f32({1, 1, 1, 1})));
    EXPECT_FALSE(is_scalar(f32({2, 1, 1, 1})));
    EXPECT_TRUE(is_vector(f32({7, 1, 1, 1})));
    EXPECT_FALSE(is_vector(f32({7, 2, 1, 1})));
    EXPECT_TRUE(is_matrix(f32({7, 2, 1, 1})));
    EXPECT_FALSE(is_matrix(f32({7, 2, 3, 1})));
    EXPECT_FALSE(is_matrix(f32({7, 2, 1, 2})));
}

TEST(TensorShape, OneZeroExtentMakesATensorEmpty) {
    EXPECT_FALSE(is_empty(f32({1, 1, 1, 1})));
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        Extents extent{2, 2, 2, 2};
        extent[d] = 0;
        EXPECT_TRUE(is_empty(f32(extent))) << "dimension " << d;
    }
}

TEST(TensorShape, TransposedAndPermutedLookAtTheOrderOfStrides) {
    const Tensor t = f32({2, 3, 4, 5});
    EXPECT_FALSE(is_transposed(t));
    EXPECT_FALSE(is_permuted(t));
    EXPECT_TRUE(is_transposed(exchanged(t, 0, 1)));
    EXPECT_TRUE(is_permuted(exchanged(t, 0, 1)));
    EXPECT_FALSE(is_transposed(exchanged(t, 1, 2)));
    EXPECT_TRUE(is_permuted(exchanged(t, 1, 2)));
    EXPECT_TRUE(is_permuted(exchanged(t, 2, 3)));
}

TEST(Contiguity, HoldsForOneBlockWithoutGapsInLogicalOrder) {
    const Tensor t = f32({2, 3, 4, 5});
    EXPECT_TRUE(is_contiguous(t));
    for (const int d : {0, 1, 2}) EXPECT_FALSE(is_contiguous(exchanged(t, d, d + 1))) << d;
}

TEST(Contiguity, ExtentsOfOneMayHaveAnyStride) {
    Tensor column = f32({1, 7, 1, 1});
    column.nb[0] = 12345;
    column.nb[2] = column.nb[3] = 99;
    EXPECT_TRUE(is_contiguous(column));
    EXPECT_TRUE(has_dense_rows(column));
}

TEST(Contiguity, FreeDimensionsMayBePadded) {
    Tensor t = f32({2, 3, 4, 5});
    t.nb[1] = 16, t.nb[2] = 48, t.nb[3] = 192;  // rows of 8 bytes, 16 apart
    EXPECT_FALSE(is_contiguous(t));
    EXPECT_TRUE(is_contiguous(t, 1));
    EXPECT_TRUE(is_contiguous(t, 2));
    t.nb[2] = 100, t.nb[3] = 400;
    EXPECT_FALSE(is_contiguous(t, 1));
    EXPECT_TRUE(is_contiguous(t, 2));
    t.nb[3] = 500;
    EXPECT_FALSE(is_contiguous(t, 2));
}

TEST(Contiguity, CanBeAskedOfTheFirstDimensionsAlone) {
    Tensor t = f32({2, 3, 4, 5});
    t.nb[3] = 1000;
    EXPECT_TRUE(is_contiguous(t, 0, 1));
    EXPECT_TRUE(is_contiguous(t, 0, 2));
    EXPECT_TRUE(is_contiguous(t, 0, 3));
    EXPECT_FALSE(is_contiguous(t, 0, 4));
    t.nb[1] = 32;
    EXPECT_TRUE(is_contiguous(t, 0, 1));
    EXPECT_FALSE(is_contiguous(t, 0, 2));
}

TEST(Contiguity, DenseRowsLookAtDimensionZeroOnly) {
    const Tensor t = f32({2, 3, 4, 5});
    EXPECT_TRUE(has_dense_rows(exchanged(t, 1, 3)));
    EXPECT_FALSE(has_dense_rows(exchanged(t, 0, 1)));
    EXPECT_TRUE(has_dense_rows(dense(GGML_TYPE_Q8_0, {32, 2, 1, 1})));
}

TEST(Contiguity, ContiguouslyAllocatedAllowsPermutationButNoGaps) {
    Tensor t = f32({2, 3, 4, 5});
    EXPECT_TRUE(is_contiguously_allocated(exchanged(t, 0, 3)));
    t.nb[3] += 4;
    EXPECT_FALSE(is_contiguously_allocated(t));
}

TEST(Contiguity, DenseChannelsMeanThatDimensionTwoVariesFastest) {
    Tensor image = f32({8, 6, 3, 1});
    EXPECT_FALSE(has_dense_channels(image));
    image.nb[2] = 4, image.nb[0] = 12, image.nb[1] = 96;
    EXPECT_TRUE(has_dense_channels(image));
}

TEST(Contiguity, PaddedRowsHaveNoExceptionForExtentsOfOne) {
    Tensor t = f32({2, 3, 4, 5});
    t.nb[1] = 16, t.nb[2] = 48, t.nb[3] = 192;
    EXPECT_TRUE(is_padded_rows(t));
    t.nb[3] = 200;
    EXPECT_FALSE(is_padded_rows(t));
    t.ne[3] = 1;
    EXPECT_FALSE(is_padded_rows(t));
}

TEST(TensorComparison, ShapeStridesAndLayoutAreDifferentQuestions) {
    const Tensor a = f32({2, 3, 1, 1});
    const Tensor h = dense(GGML_TYPE_F16, {2, 3, 1, 1});
    Tensor padded = a;
    padded.nb[1] = 64;
    EXPECT_TRUE(same_shape(a, h));
    EXPECT_FALSE(same_strides(a, h));
    EXPECT_FALSE(same_layout(a, h));
    EXPECT_TRUE(same_shape(a, padded));
    EXPECT_FALSE(same_layout(a, padded));
    EXPECT_TRUE(same_layout(a, f32({2, 3, 1, 1})));
    Tensor i32 = a;
    i32.type = GGML_TYPE_I32;
    EXPECT_TRUE(same_strides(a, i32));
    EXPECT_FALSE(same_layout(a, i32));
}

TEST(TensorComparison, ATileRepeatsAWholeNumberOfTimes) {
    EXPECT_TRUE(can_repeat(f32({1, 1, 1, 1}), f32({7, 5, 3, 2})));
    EXPECT_TRUE(can_repeat(f32({2, 5, 1, 1}), f32({6, 5, 3, 2})));
    EXPECT_FALSE(can_repeat(f32({4, 1, 1, 1}), f32({6, 1, 1, 1})));
    EXPECT_FALSE(can_repeat(f32({6, 1, 1, 1}), f32({3, 1, 1, 1})));
    EXPECT_TRUE(can_repeat_rows(f32({6, 1, 1, 1}), f32({6, 4, 1, 1})));
    EXPECT_FALSE(can_repeat_rows(f32({3, 1, 1, 1}), f32({6, 4, 1, 1})));
}

TEST(TensorComparison, AnEmptyTileFillsOnlyEmptyTensors) {
    EXPECT_TRUE(can_repeat(f32({0, 1, 1, 1}), f32({5, 0, 1, 1})));
    EXPECT_FALSE(can_repeat(f32({0, 1, 1, 1}), f32({5, 1, 1, 1})));
    EXPECT_TRUE(can_repeat(f32({5, 1, 1, 1}), f32({0, 1, 1, 1})));
}

TEST(TensorIndex, UnravelsWithDimensionZeroFastest) {
    const Tensor t = f32({2, 3, 4, 5});
    EXPECT_EQ(unravel(t, 0), (Extents{0, 0, 0, 0}));
    EXPECT_EQ(unravel(t, 1), (Extents{1, 0, 0, 0}));
    EXPECT_EQ(unravel(t, 2), (Extents{0, 1, 0, 0}));
    EXPECT_EQ(unravel(t, 119), (Extents{1, 2, 3, 4}));
}

TEST(TensorNames, AreCutAt63Bytes) {
    Tensor t{};
    set_name(t, std::string(100, 'a'));
    EXPECT_EQ(name_of(t), std::string(63, 'a'));
    EXPECT_EQ(t.name[63], '\0');
    set_name(t, "short");
    EXPECT_EQ(name_of(t), "short");
}

TEST(TensorNames, AfterAnotherTensorKeepAsMuchAsFits) {
    Tensor origin{}, t{};
    set_name(origin, std::string(60, 'a'));
    name_after(t, origin, " (view)");
    EXPECT_EQ(name_of(t), std::string(60, 'a') + " (v");
    set_name(origin, "");
    name_after(t, origin, " (view)");
    EXPECT_EQ(name_of(t), " (view)");
}

TEST(TensorNames, DescriptionShowsNameTypeAndExtents) {
    Tensor t = dense(GGML_TYPE_F16, {64, 32, 1, 1});
    set_name(t, "kq_mask");
    EXPECT_EQ(describe(t), "'kq_mask' f16[64,32,1,1]");
}

TEST(TensorExtents, HostileOnesAreRefusedWithTheReason) {
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(check_extents(GGML_TYPE_F32, {1, -2, 1, 1}).error().message,
              "extent -2 in dimension 1");
    EXPECT_EQ(check_extents(GGML_TYPE_Q4_0, {33, 1, 1, 1}).error().message,
              "rows of 33 elements of type q4_0 are not a multiple of its block size 32");
    EXPECT_FALSE(check_extents(GGML_TYPE_F32, {huge, 1, 1, 1}));
    EXPECT_FALSE(check_extents(GGML_TYPE_I8, {huge, huge, 1, 1}));
    EXPECT_FALSE(check_extents(GGML_TYPE_I8, {0, huge, huge, 1}));
    EXPECT_FALSE(check_extents(static_cast<Type>(4), {1, 1, 1, 1}));
    EXPECT_FALSE(check_extents(static_cast<Type>(1000), {1, 1, 1, 1}));
    EXPECT_FALSE(check_extents(static_cast<Type>(-1), {1, 1, 1, 1}));
    EXPECT_TRUE(check_extents(GGML_TYPE_F32, {0, 3, 1, 1}));
}

TEST(TensorParams, UnusedWordsAreZeroed) {
    Tensor t{};
    std::fill(std::begin(t.op_params), std::end(t.op_params), -1);
    const std::array<float, 2> words{1.5f, 2.5f};
    set_params(t, words.data(), sizeof words);
    EXPECT_EQ((unpack<std::array<float, 2>>(t)), words);
    for (int word = 2; word < 16; ++word) EXPECT_EQ(t.op_params[word], 0) << "word " << word;
}

}  // namespace
}  // namespace heddle
