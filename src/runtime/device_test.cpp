#include "runtime/device.hpp"

#include <gtest/gtest.h>

#include "runtime/host_buffer.hpp"
#include "runtime/test_support.hpp"

namespace heddle {
namespace {

using test::FakeDevice;

TEST(DeviceTest, ForwardsToItsTable) {
    FakeDevice fake;
    EXPECT_STREQ(name_of(fake.device), "FAKE0");
    EXPECT_STREQ(description_of(fake.device), "a device for tests");
    EXPECT_EQ(memory_of(fake.device).free, 1000u);
    EXPECT_EQ(memory_of(fake.device).total, 4000u);
    EXPECT_EQ(*type_of(fake.device), GGML_BACKEND_DEVICE_TYPE_GPU);
    EXPECT_EQ(*buffer_type_of(fake.device), &fake.type);
    EXPECT_TRUE(supports_buffer_type(fake.device, fake.type));
    EXPECT_FALSE(supports_buffer_type(fake.device, host_buffer_type()));
    const OwnedStream stream = *start_stream(fake.device, nullptr);
    EXPECT_EQ(stream->device, &fake.device);
}

TEST(DeviceTest, PropertiesThatADeviceDoesNotSetAreZero) {
    FakeDevice fake;
    const DeviceProperties properties = *properties_of(fake.device);
    EXPECT_STREQ(properties.name, "FAKE0");
    EXPECT_TRUE(properties.caps.async);
    EXPECT_EQ(properties.device_id, nullptr);
    EXPECT_EQ(properties.memory_total, 0u);
    EXPECT_FALSE(properties.caps.events);
}

TEST(DeviceTest, HasAnswersForAbsentMembers) {
    FakeDevice fake;
    Tensor op{};
    fake.device.iface = {};
    EXPECT_STREQ(name_of(fake.device), "(unnamed)");
    EXPECT_EQ(memory_of(fake.device).total, 0u);
    EXPECT_EQ(host_buffer_type_of(fake.device), nullptr);
    EXPECT_FALSE(supports_op(fake.device, op));
    EXPECT_FALSE(supports_buffer_type(fake.device, fake.type));
    EXPECT_FALSE(wants_offload(fake.device, op));
    EXPECT_FALSE(type_of(fake.device));
    EXPECT_FALSE(properties_of(fake.device));
    EXPECT_EQ(buffer_type_of(fake.device).error().message, "device '(unnamed)' has no buffer type");
    EXPECT_EQ(start_stream(fake.device, nullptr).error().message,
              "device '(unnamed)' has no streams");
}

TEST(DeviceTest, SaysThatAStreamDidNotStart) {
    FakeDevice fake;
    fake.device.iface.init_backend = [](Device*, const char*) -> Stream* { return nullptr; };
    EXPECT_EQ(start_stream(fake.device, nullptr).error().message,
              "device 'FAKE0' could not start a stream");
    EXPECT_EQ(start_stream(fake.device, "fast").error().message,
              "device 'FAKE0' could not start a stream with parameters 'fast'");
}

TEST(DeviceTest, MakesBuffersOfHostMemoryIfItCan) {
    FakeDevice fake;
    alignas(32) std::byte memory[64];
    EXPECT_EQ(buffer_from_host(fake.device, memory, 64, 64).error().message,
              "device 'FAKE0' cannot use host memory as a buffer");
    fake.device.iface.buffer_from_host_ptr = [](Device*, void* at, std::size_t size, std::size_t) {
        return buffer_from_memory(at, size)->release();
    };
    const OwnedBuffer buffer = *buffer_from_host(fake.device, memory, 64, 64);
    EXPECT_EQ(*base_of(*buffer), memory);
    EXPECT_EQ(buffer_from_host(fake.device, nullptr, 64, 64).error().message,
              "device 'FAKE0': the host memory for a buffer is NULL");
    fake.device.iface.buffer_from_host_ptr = [](Device*, void*, std::size_t,
                                                std::size_t) -> Buffer* { return nullptr; };
    EXPECT_EQ(buffer_from_host(fake.device, memory, 64, 64).error().code, Errc::device);
}

TEST(RegistrationTest, GivesItsDevicesAndFunctions) {
    FakeDevice fake;
    Registration reg{
        .api_version = GGML_BACKEND_API_VERSION,
        .iface = {.get_name = [](Registration*) { return "FAKE"; },
                  .get_device_count = [](Registration*) { return std::size_t{1}; },
                  .get_device = [](Registration* r,
                                   std::size_t) { return static_cast<Device*>(r->context); },
                  .get_proc_address = nullptr},
        .context = &fake.device};
    EXPECT_STREQ(name_of(reg), "FAKE");
    EXPECT_EQ(device_count(reg), 1u);
    EXPECT_EQ(*device_at(reg, 0), &fake.device);
    EXPECT_EQ(device_at(reg, 1).error().message, "registration 'FAKE': device 1 of 1");
    EXPECT_EQ(find_function(reg, "anything"), nullptr);
    reg.iface.get_proc_address = [](Registration* r, const char* name) -> void* {
        return std::string_view(name) == "self" ? r : nullptr;
    };
    EXPECT_EQ(find_function(reg, "self"), &reg);
    EXPECT_EQ(find_function(reg, "other"), nullptr);
    EXPECT_EQ(find_function(reg, nullptr), nullptr);
}

}  // namespace
}  // namespace heddle
