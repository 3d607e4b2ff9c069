// The functions that plug-ins inline from the headers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ggml-impl.h"

namespace {

TEST(HalfFloat, EveryFiniteValueSurvivesTheWayToFloatAndBack) {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<ggml_fp16_t>(bits);
        const float value = ggml_compute_fp16_to_fp32(half);
        if ((bits & 0x7FFF) > 0x7C00) {
            EXPECT_TRUE(std::isnan(value));
            EXPECT_EQ(ggml_compute_fp32_to_fp16(value), (bits & 0x8000) | 0x7E00);
        } else {
            ASSERT_EQ(ggml_compute_fp32_to_fp16(value), half) << "bits " << bits;
        }
    }
    EXPECT_EQ(fp32_to_bits(ggml_compute_fp16_to_fp32(0x7C01)), 0x7FC02000u);
}

TEST(HalfFloat, RoundsHalfwayValuesToEvenBetweenAllNeighbours) {
    for (unsigned bits = 0; bits < 0x7BFF; ++bits) {
        const float low = ggml_compute_fp16_to_fp32(static_cast<ggml_fp16_t>(bits));
        const float high = ggml_compute_fp16_to_fp32(static_cast<ggml_fp16_t>(bits + 1));
        const float middle = low + (high - low) / 2;  // exact: a float has 13 more bits
        const unsigned even = bits % 2 == 0 ? bits : bits + 1;
        ASSERT_EQ(ggml_compute_fp32_to_fp16(middle), even) << "bits " << bits;
        ASSERT_EQ(ggml_compute_fp32_to_fp16(std::nextafter(middle, low)), bits);
        ASSERT_EQ(ggml_compute_fp32_to_fp16(std::nextafter(middle, high)), bits + 1);
    }
    EXPECT_EQ(ggml_compute_fp32_to_fp16(65519.0f), 0x7BFF);
    EXPECT_EQ(ggml_compute_fp32_to_fp16(65520.0f), 0x7C00);
    EXPECT_EQ(ggml_compute_fp32_to_fp16(-1e30f), 0xFC00);
}

TEST(BrainFloat, RoundsToNearestEvenAndKeepsNan) {
    EXPECT_EQ(ggml_compute_fp32_to_bf16(fp32_from_bits(0x3F808000)).bits, 0x3F80);
    EXPECT_EQ(ggml_compute_fp32_to_bf16(fp32_from_bits(0x3F818000)).bits, 0x3F82);
    EXPECT_EQ(ggml_compute_fp32_to_bf16(fp32_from_bits(0x7F7FFFFF)).bits, 0x7F80);
    EXPECT_EQ(ggml_compute_fp32_to_bf16(fp32_from_bits(0xFF800001)).bits, 0xFFC0);
    EXPECT_EQ(ggml_compute_bf16_to_fp32({0xC000}), -2.0f);
}

TEST(ScaleByte, E8m0IsAPowerOfTwoForEveryCode) {
    for (int code = 0; code < 255; ++code) {
        const auto byte = static_cast<std::uint8_t>(code);
        EXPECT_EQ(ggml_e8m0_to_fp32(byte), std::ldexp(1.0f, code - 127));
        EXPECT_EQ(ggml_e8m0_to_fp32_half(byte), std::ldexp(1.0f, code - 128));
    }
    EXPECT_EQ(ggml_e8m0_to_fp32_half(255), std::ldexp(1.0f, 127));
}

TEST(ScaleByte, Ue4m3DecodesToHalfItsValueAndEncodesBack) {
    for (int code = 0; code < 0x7F; ++code) {
        const int exponent = code >> 3, mantissa = code & 7;
        const float value = exponent == 0 ? std::ldexp(float(mantissa), -9)
                                          : std::ldexp(1 + float(mantissa) / 8, exponent - 7);
        EXPECT_EQ(ggml_ue4m3_to_fp32(static_cast<std::uint8_t>(code)), value / 2);
        EXPECT_EQ(ggml_fp32_to_ue4m3(value), value >= 256 ? 0x7E : code) << value;
    }
    EXPECT_EQ(ggml_ue4m3_to_fp32(0x7F), 0.0f);
    EXPECT_EQ(ggml_ue4m3_to_fp32(0x80), 0.0f);
    EXPECT_EQ(ggml_ue4m3_to_fp32(0xFF), 240.0f);
    EXPECT_EQ(ggml_fp32_to_ue4m3(-1.0f), 0);
    EXPECT_EQ(ggml_fp32_to_ue4m3(std::numeric_limits<float>::quiet_NaN()), 0);
    EXPECT_EQ(ggml_fp32_to_ue4m3(std::numeric_limits<float>::infinity()), 0x7E);
    EXPECT_EQ(ggml_fp32_to_ue4m3(1.0625f), 0x39);  // halfway rounds up
}

/// A hash set with room for `slots` keys.
struct HashSet {
    explicit HashSet(std::size_t slots)
        : used(ggml_bitset_size(slots)), keys(slots), set{slots, used.data(), keys.data()} {}

    std::vector<ggml_bitset_t> used;
    std::vector<ggml_tensor*> keys;
    ggml_hash_set set;
};

TEST(HashSet, FindsWhatWasInsertedAndSaysWhenItIsFull) {
    std::vector<ggml_tensor> tensors(6);
    HashSet hash(5);
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_FALSE(ggml_hash_contains(&hash.set, &tensors[i]));
        const std::size_t slot = ggml_hash_insert(&hash.set, &tensors[i]);
        EXPECT_LT(slot, 5u);
        EXPECT_EQ(ggml_hash_find(&hash.set, &tensors[i]), slot);
        EXPECT_EQ(ggml_hash_find_or_insert(&hash.set, &tensors[i]), slot);
        EXPECT_EQ(ggml_hash_insert(&hash.set, &tensors[i]), GGML_HASHSET_ALREADY_EXISTS);
    }
    EXPECT_EQ(ggml_hash_find(&hash.set, &tensors[5]), GGML_HASHSET_FULL);
    EXPECT_FALSE(ggml_hash_contains(&hash.set, &tensors[5]));
}

TEST(HashSet, BeginsAtTheAddressOverSixteenAndGoesAround) {
    const std::size_t slots = 7;
    HashSet hash(slots);
    auto* last = reinterpret_cast<ggml_tensor*>(std::uintptr_t{16 * (slots - 1)});
    auto* again = reinterpret_cast<ggml_tensor*>(std::uintptr_t{16 * (2 * slots - 1)});
    EXPECT_EQ(ggml_hash_insert(&hash.set, last), slots - 1);
    EXPECT_EQ(ggml_hash_insert(&hash.set, again), 0u);
    EXPECT_TRUE(ggml_bitset_get(hash.set.used, 0));
    ggml_bitset_clear(hash.set.used, 0);
    EXPECT_FALSE(ggml_hash_contains(&hash.set, again));
}

/// SQR -> SQRT -> LOG over one input, each used by the next.
class Fusion : public testing::Test {
protected:
    Fusion() {
        const ggml_op ops[] = {GGML_OP_SQR, GGML_OP_SQRT, GGML_OP_LOG};
        for (int i = 0; i < 3; ++i) {
            ggml_tensor& node = tensors_[i];
            node.op = ops[i];
            node.flags = GGML_TENSOR_FLAG_COMPUTE;
            node.ne[0] = 4;
            node.ne[1] = node.ne[2] = node.ne[3] = 1;
            if (i > 0) node.src[0] = &tensors_[i - 1];
            nodes_[i] = &node;
            uses_[ggml_hash_insert(&hash_.set, &node)] = i < 2 ? 1 : 0;
        }
        graph_.n_nodes = 3;
        graph_.nodes = nodes_;
        graph_.use_counts = uses_;
        graph_.visited_hash_set = hash_.set;
    }

    ggml_tensor tensors_[3] = {};
    ggml_tensor* nodes_[3] = {};
    std::int32_t uses_[11] = {};
    HashSet hash_{11};
    ggml_cgraph graph_ = {};
};

TEST_F(Fusion, AcceptsAChain) {
    EXPECT_TRUE(ggml_can_fuse(&graph_, 0, {GGML_OP_SQR, GGML_OP_SQRT, GGML_OP_LOG}));
    EXPECT_TRUE(ggml_can_fuse(&graph_, 1, {GGML_OP_SQRT, GGML_OP_LOG}));
    EXPECT_TRUE(ggml_check_edges(&graph_, 0, {{1, 0, 0}, {2, 0, 1}}));
    EXPECT_FALSE(ggml_check_edges(&graph_, 0, {{2, 0, 0}}));
}

TEST_F(Fusion, RefusesOtherOpsAndWhatLiesBeyondTheGraph) {
    EXPECT_FALSE(ggml_can_fuse(&graph_, 0, {GGML_OP_SQR, GGML_OP_LOG}));
    EXPECT_FALSE(ggml_can_fuse(&graph_, 2, {GGML_OP_LOG, GGML_OP_SQR}));
    EXPECT_FALSE(ggml_can_fuse_subgraph(&graph_, 2, {GGML_OP_LOG, GGML_OP_SQR}, {3}));
}

TEST_F(Fusion, RefusesResultsThatSomeoneElseNeeds) {
    tensors_[0].flags |= GGML_TENSOR_FLAG_OUTPUT;
    EXPECT_FALSE(ggml_can_fuse(&graph_, 0, {GGML_OP_SQR, GGML_OP_SQRT}));
    tensors_[0].flags = GGML_TENSOR_FLAG_COMPUTE;
    uses_[ggml_hash_find(&hash_.set, &tensors_[0])] = 2;
    EXPECT_FALSE(ggml_can_fuse(&graph_, 0, {GGML_OP_SQR, GGML_OP_SQRT}));
}

TEST_F(Fusion, RefusesNodesThatAreNotComputedAndOtherShapes) {
    tensors_[1].flags = 0;
    EXPECT_FALSE(ggml_can_fuse(&graph_, 0, {GGML_OP_SQR, GGML_OP_SQRT}));
    tensors_[1].flags = GGML_TENSOR_FLAG_COMPUTE;
    tensors_[1].ne[0] = 2;
    EXPECT_FALSE(ggml_can_fuse(&graph_, 0, {GGML_OP_SQR, GGML_OP_SQRT}));
}

TEST(OpParams, KeepIntegersAndFloatsInTheirWords) {
    ggml_tensor tensor = {};
    ggml_set_op_params_i32(&tensor, 3, -7);
    ggml_set_op_params_f32(&tensor, 15, 0.25f);
    EXPECT_EQ(ggml_get_op_params_i32(&tensor, 3), -7);
    EXPECT_EQ(ggml_get_op_params_f32(&tensor, 15), 0.25f);
    EXPECT_EQ(tensor.flags, 0);
}

}  // namespace
