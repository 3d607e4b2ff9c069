#include "runtime/host_buffer.hpp"

#include <gtest/gtest.h>

#include <array>

#include "runtime/buffer.hpp"
#include "runtime/placement.hpp"
#include "runtime/test_support.hpp"
#include "runtime/transfer.hpp"

namespace heddle {
namespace {

TEST(HostBufferType, IsOrdinaryMemory) {
    BufferType& type = host_buffer_type();
    EXPECT_EQ(&type, &host_buffer_type());
    EXPECT_STREQ(name_of(type), "CPU");
    EXPECT_TRUE(is_host(type));
    EXPECT_EQ(alignment_of(type), 32u);
    EXPECT_EQ(max_size_of(type), SIZE_MAX);
    const auto context = test::make_test_context();
    EXPECT_EQ(alloc_size_of(type, *test::new_floats(context, 3, "x")), 12u);
}

TEST(HostBufferType, GivesMemoryAlignedTo64OfExactlyThatSize) {
    for (const std::size_t size : {1, 63, 64, 4097}) {
        const OwnedBuffer buffer = *allocate(host_buffer_type(), size);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*base_of(*buffer)) % 64, 0u);
        EXPECT_EQ(buffer->size, size);
        EXPECT_EQ(buffer->buft, &host_buffer_type());
    }
}

TEST(HostBufferType, WithoutMemoryGivesAnErrorAndNoBuffer) {
    const auto buffer = allocate(host_buffer_type(), SIZE_MAX - 10);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code, Errc::out_of_memory);
    EXPECT_EQ(buffer.error().message,
              text("buffer type 'CPU': no memory for ", SIZE_MAX - 10, " bytes"));
}

TEST(HostBufferType, BelongsToTheDeviceThatWasRegisteredForIt) {
    test::FakeDevice fake;
    EXPECT_EQ(device_of(host_buffer_type()), nullptr);
    heddle_set_host_device(&fake.device);
    EXPECT_EQ(device_of(host_buffer_type()), &fake.device);
    EXPECT_EQ(device_of(mapped_buffer_type()), &fake.device);
    heddle_set_host_device(nullptr);
    EXPECT_EQ(device_of(host_buffer_type()), nullptr);
}

TEST(HostBuffer, HoldsWhatIsWritten) {
    const auto context = test::make_test_context();
    Tensor* x = test::new_floats(context, 4, "x");
    const OwnedBuffer buffer = *allocate(host_buffer_type(), 64);
    ASSERT_TRUE(place_tensor(*buffer, *x, *base_of(*buffer)));
    std::array<float, 4> values{1, 2, 3, 4};
    ASSERT_TRUE(write_tensor(*x, values.data(), 0, 16));
    ASSERT_TRUE(fill_tensor(*x, 0, 4, 4));
    ASSERT_TRUE(read_tensor(*x, values.data(), 0, 16));
    EXPECT_EQ(values, (std::array<float, 4>{1, 0, 3, 4}));
    EXPECT_EQ(static_cast<float*>(x->data)[2], 3);
    ASSERT_TRUE(clear_buffer(*buffer, 0));
    EXPECT_EQ(static_cast<float*>(x->data)[2], 0);
}

TEST(HostBuffer, CopiesByItselfFromHostMemoryOnly) {
    test::FakeDevice fake;
    const auto context = test::make_test_context();
    Tensor* x = test::new_floats(context, 4, "x");
    Tensor* y = test::new_floats(context, 4, "y");
    Tensor* far = test::new_floats(context, 4, "far");
    const OwnedBuffer buffer = *allocate(host_buffer_type(), 64);
    const OwnedBuffer device = fake.allocate(64);
    auto* base = static_cast<std::byte*>(*base_of(*buffer));
    ASSERT_TRUE(place_tensor(*buffer, *x, base));
    ASSERT_TRUE(place_tensor(*buffer, *y, base + 32));
    ASSERT_TRUE(place_tensor(*device, *far, *base_of(*device)));
    static_cast<float*>(x->data)[3] = 5;
    EXPECT_TRUE(copy_by_destination(*x, *y));
    EXPECT_EQ(static_cast<float*>(y->data)[3], 5);
    EXPECT_FALSE(copy_by_destination(*far, *y));
    Tensor* small = test::new_floats(context, 2, "small");
    ASSERT_TRUE(place_tensor(*buffer, *small, base + 32));
    EXPECT_FALSE(copy_by_destination(*x, *small));  // it would write more than there is
}

TEST(MappedBuffer, UsesTheCallersMemoryAndLeavesItAlone) {
    alignas(64) std::array<std::byte, 128> memory{};
    {
        const OwnedBuffer buffer = *buffer_from_memory(memory.data() + 32, 96);
        EXPECT_STREQ(name_of(*buffer), "CPU_Mapped");
        EXPECT_EQ(buffer->buft, &mapped_buffer_type());
        EXPECT_NE(buffer->buft, &host_buffer_type());
        EXPECT_TRUE(is_host(*buffer));
        EXPECT_EQ(*base_of(*buffer), memory.data() + 32);
        ASSERT_TRUE(clear_buffer(*buffer, 3));
    }
    EXPECT_EQ(memory[31], std::byte{0});
    EXPECT_EQ(memory[32], std::byte{3});
    EXPECT_EQ(memory[127], std::byte{3});
}

TEST(MappedBuffer, RefusesMemoryThatIsNotAligned) {
    alignas(64) std::array<std::byte, 64> memory{};
    EXPECT_EQ(buffer_from_memory(memory.data() + 16, 16).error().message,
              text("buffer from memory: the address ", static_cast<void*>(memory.data() + 16),
                   " is not aligned to 32 bytes"));
    EXPECT_EQ(buffer_from_memory(nullptr, 16).error().message,
              "buffer from memory: the memory is NULL");
}

}  // namespace
}  // namespace heddle
