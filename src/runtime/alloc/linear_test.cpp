#include "runtime/alloc/linear.hpp"

#include <gtest/gtest.h>

#include "runtime/test_support.hpp"

namespace heddle {
namespace {

TEST(LinearAllocator, TensorsFollowEachOtherAtAlignedAddresses) {
    test::FakeDevice device;
    const auto context = test::make_test_context();
    const OwnedBuffer buffer = device.allocate(192);
    auto allocator = *make_linear_allocator(*buffer);
    Tensor *a = test::new_floats(context, 3, "a"), *b = test::new_floats(context, 20, "b");
    ASSERT_TRUE(allocate_next(allocator, *a));
    ASSERT_TRUE(allocate_next(allocator, *b));
    EXPECT_EQ(static_cast<std::byte *>(b->data) - static_cast<std::byte *>(a->data), 64);
    EXPECT_EQ(allocator.offset, 192u);
}

TEST(LinearAllocator, WhatDoesNotFitIsRefusedAndTakesNothing) {
    test::FakeDevice device;
    const auto context = test::make_test_context();
    const OwnedBuffer buffer = device.allocate(64);
    auto allocator = *make_linear_allocator(*buffer);
    Tensor *large = test::new_floats(context, 17, "large"),
           *small = test::new_floats(context, 16, "s");
    const auto refused = allocate_next(allocator, *large);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::out_of_memory);
    EXPECT_EQ(
        refused.error().message,
        "placing 'large' f32[17,1,1,1]: it needs 128 bytes, and of the 64 bytes of the buffer "
        "of type 'FAKE0' 64 are left");
    EXPECT_EQ(large->data, nullptr);
    EXPECT_TRUE(allocate_next(allocator, *small));
}

}  // namespace
}  // namespace heddle
