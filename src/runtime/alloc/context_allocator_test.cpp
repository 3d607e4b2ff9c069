#include "runtime/alloc/context_allocator.hpp"

#include <gtest/gtest.h>

#include "runtime/multi_buffer.hpp"
#include "runtime/test_support.hpp"

namespace heddle {
namespace {

using test::FakeDevice;
using test::new_floats;

TEST(ContextAllocator, EveryTensorAndViewGetsItsPlaceInOneBuffer) {
    FakeDevice device;
    const auto context = test::make_test_context();
    Tensor *a = new_floats(context, 10, "a"), *b = new_floats(context, 20, "b");
    Tensor *empty = new_floats(context, 0, "empty"), *view = *view_tensor(*context, *b);
    EXPECT_EQ(*measure_context(*context, device.type), 64u + 128u);
    const OwnedBuffer buffer = *allocate_context(*context, device.type);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(buffer->size, 192u);
    for (const Tensor* tensor : {a, b, empty, view}) EXPECT_EQ(tensor->buffer, buffer.get());
    EXPECT_NE(empty->data, nullptr);
    EXPECT_EQ(view->data, b->data);
}

TEST(ContextAllocator, LargestBuffersAreRespectedWhereTensorsAllow) {
    FakeDevice device;
    device.max_size = 128;
    const auto context = test::make_test_context();
    for (const int n : {16, 16, 16, 64, 16}) new_floats(context, n, "x");
    const OwnedBuffer buffer = *allocate_context(*context, device.type);
    ASSERT_TRUE(is_multi_buffer(*buffer));
    std::vector<std::size_t> sizes;
    for (const Buffer* part : parts_of(*buffer)) sizes.push_back(part->size);
    EXPECT_EQ(sizes, (std::vector<std::size_t>{128, 64, 256, 64}));
}

TEST(ContextAllocator, ContextsThatNeedNothingGetNoBuffer) {
    FakeDevice device;
    const auto context = test::make_test_context(), other = test::make_test_context();
    Tensor* root = new_floats(context, 16, "root");
    const OwnedBuffer buffer = *allocate_context(*context, device.type);
    Tensor* view = *view_tensor(*other, *root);
    const auto none = allocate_context(*other, device.type);
    ASSERT_TRUE(none);
    EXPECT_EQ(*none, nullptr);
    EXPECT_EQ(view->data, root->data);
}

TEST(ContextAllocator, AfterAFailureTensorsAreAsTheyWere) {
    FakeDevice device;
    device.max_size = 64;
    device.allocations_left = 1;
    const auto context = test::make_test_context();
    Tensor *a = new_floats(context, 16, "a"), *b = new_floats(context, 16, "b");
    const auto failed = allocate_context(*context, device.type);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Errc::out_of_memory);
    EXPECT_EQ(a->data, nullptr);
    EXPECT_EQ(a->buffer, nullptr);
    EXPECT_EQ(b->data, nullptr);
    EXPECT_EQ(device.live_buffers, 0);
    device.allocations_left = 2;
    const OwnedBuffer buffer = *allocate_context(*context, device.type);
    EXPECT_NE(a->data, nullptr);
}

TEST(ContextAllocator, ContextsWithDataOfTheirOwnAreRefused) {
    FakeDevice device;
    const auto context = test::make_test_context(false);
    EXPECT_EQ(allocate_context(*context, device.type).error().message,
              "allocating a context: it was made with data of its own (no_alloc is off)");
}

}  // namespace
}  // namespace heddle
