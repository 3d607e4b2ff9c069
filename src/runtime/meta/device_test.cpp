// Joined devices and their memory: what they are made of, and data that goes in and comes out.

#include <numeric>
#include <thread>

#include "ggml/ops_layout.h"
#include "runtime/meta/test_support.hpp"

namespace heddle::meta {
namespace {

using testing::HasSubstr;

// ---- devices -----------------------------------------------------------------------------------

TEST(JoinedDevice, IsMadeOfItsDevices) {
    const Joined joined(some_devices(2, 0, ",mem=1M"), {});
    EXPECT_STREQ(ggml_backend_dev_name(joined.device()), "Meta(SIM0,SIM1)");
    EXPECT_STREQ(ggml_backend_buft_name(joined.memory()), "Meta(SIM0,SIM1)");
    EXPECT_EQ(ggml_backend_dev_type(joined.device()), GGML_BACKEND_DEVICE_TYPE_META);
    EXPECT_EQ(ggml_backend_dev_backend_reg(joined.device()), nullptr);
    std::size_t free = 0, total = 0;
    ggml_backend_dev_memory(joined.device(), &free, &total);
    EXPECT_EQ(total, std::size_t{2} << 20);
    ggml_backend_dev_props props{};
    ggml_backend_dev_get_props(joined.device(), &props);
    EXPECT_TRUE(props.caps.async);
    EXPECT_FALSE(props.caps.events || props.caps.host_buffer || props.caps.buffer_from_host_ptr);
    EXPECT_TRUE(ggml_backend_dev_supports_buft(joined.device(), joined.memory()));
    EXPECT_FALSE(ggml_backend_dev_supports_buft(joined.device(), ggml_backend_cpu_buffer_type()));
    EXPECT_FALSE(ggml_backend_buft_is_host(joined.memory()));
}

TEST(JoinedDevice, TellsItsObjectsFromOthers) {
    const Joined joined(some_devices(2), {});
    EXPECT_TRUE(ggml_backend_is_meta(joined.stream()));
    EXPECT_TRUE(ggml_backend_buft_is_meta(joined.memory()));
    const sim::Buffer buffer(ggml_backend_buft_alloc_buffer(joined.memory(), 64));
    EXPECT_TRUE(ggml_backend_buffer_is_meta(buffer.get()));
    ASSERT_EQ(ggml_backend_meta_n_backends(joined.stream()), 2u);
    const ggml_backend_t second = ggml_backend_meta_simple_backend(joined.stream(), 1);
    EXPECT_EQ(ggml_backend_get_device(second), joined.part(1));
    EXPECT_FALSE(ggml_backend_is_meta(second));
    EXPECT_FALSE(ggml_backend_is_meta(nullptr));
    EXPECT_FALSE(ggml_backend_buft_is_meta(ggml_backend_cpu_buffer_type()));
    EXPECT_FALSE(ggml_backend_buffer_is_meta(nullptr));
}

TEST(JoinedDevice, IsOnePerRecipe) {
    const auto devices = some_devices(2);
    Splits one, other;
    const auto make = [&](std::vector<ggml_backend_dev_t> list, void* data) {
        return ggml_backend_meta_device(list.data(), list.size(), Splits::find, data);
    };
    const ggml_backend_dev_t first = make(devices, &one);
    EXPECT_EQ(make(devices, &one), first);
    EXPECT_NE(make(devices, &other), first);
    EXPECT_NE(make({devices[1], devices[0]}, &one), first);
}

TEST(JoinedDevice, IsMadeOnceByManyThreads) {
    auto devices = some_devices(2);
    Splits splits;
    std::vector<ggml_backend_dev_t> made(8);
    {
        std::vector<std::jthread> threads;
        for (ggml_backend_dev_t& each : made) {
            threads.emplace_back(
                [&] { each = ggml_backend_meta_device(devices.data(), 2, Splits::find, &splits); });
        }
    }
    EXPECT_NE(made[0], nullptr);
    EXPECT_THAT(made, testing::Each(made[0]));
}

TEST(JoinedDevice, RefusesWhatCannotBeJoined) {
    auto devices = some_devices(1);
    Splits splits;
    EXPECT_EQ(ggml_backend_meta_device(devices.data(), 0, Splits::find, &splits), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("0 devices"));
    EXPECT_EQ(ggml_backend_meta_device(devices.data(), 17, Splits::find, &splits), nullptr);
    EXPECT_EQ(ggml_backend_meta_device(nullptr, 1, Splits::find, &splits), nullptr);
    EXPECT_EQ(ggml_backend_meta_device(devices.data(), 1, nullptr, &splits), nullptr);
    ggml_backend_dev_t none = nullptr;
    EXPECT_EQ(ggml_backend_meta_device(&none, 1, Splits::find, &splits), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("device 0 is NULL"));
    ggml_backend_dev_t nested = ggml_backend_meta_device(devices.data(), 1, Splits::find, &splits);
    EXPECT_EQ(ggml_backend_meta_device(&nested, 1, Splits::find, &splits), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("joined one itself"));
}

// ---- memory ------------------------------------------------------------------------------------

std::vector<std::byte> counted_bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
    return bytes;
}

class JoinedMemoryTest : public testing::Test {
protected:
    Tensor* make(const char* name, std::vector<std::int64_t> extents,
                 ggml_type type = GGML_TYPE_F32) {
        return ggml_set_name(
            ggml_new_tensor(context.get(), type, static_cast<int>(extents.size()), extents.data()),
            name);
    }
    sim::ContextOwner context{
        ggml_init({.mem_size = 1 << 16, .mem_buffer = nullptr, .no_alloc = true})};
};

TEST_F(JoinedMemoryTest, GivesBackWhatWasWritten) {
    const auto fused = state_of(GGML_BACKEND_SPLIT_AXIS_0, {{1, {4, 0, 2}}, {2, {1, 2, 0}}});
    const Joined joined(some_devices(2, 1), {{"a0", cut(0, {5, 1, 6})},
                                             {"a1", cut(1, {2, 3, 0})},
                                             {"a2", cut(2, {0, 0, 4})},
                                             {"q", cut(0, {32, 32, 64})},
                                             {"fused", fused}});
    std::vector<Tensor*> all{make("a0", {12, 5, 4}),
                             make("a1", {12, 5, 4}),
                             make("a2", {12, 5, 4}),
                             make("whole", {12, 5, 4}),
                             make("q", {128, 3}, GGML_TYPE_Q8_0),
                             make("fused", {12, 7})};
    const sim::Buffer buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(context.get(), joined.memory()));
    ASSERT_NE(buffer, nullptr) << heddle_last_error();
    for (Tensor* tensor : all) {
        SCOPED_TRACE(tensor->name);
        std::vector<std::byte> bytes = counted_bytes(ggml_nbytes(tensor)), got(bytes.size());
        ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
        ggml_backend_tensor_get(tensor, got.data(), 0, got.size());
        EXPECT_EQ(got, bytes);

        // Any range, in blocks and in elements, through the buffer and in the order of the stream.
        std::fill_n(bytes.begin() + 20, 70, std::byte{9});
        ggml_backend_tensor_set(tensor, bytes.data() + 20, 20, 30);
        ggml_backend_tensor_memset(tensor, 9, 50, 40);
        ggml_backend_tensor_get_async(joined.stream(), tensor, got.data(), 3, got.size() - 7);
        ggml_backend_synchronize(joined.stream());
        EXPECT_TRUE(std::equal(got.begin(), got.end() - 7, bytes.begin() + 3));
        ggml_backend_tensor_set_async(joined.stream(), tensor, bytes.data() + 1, 1, 100);
        ggml_backend_synchronize(joined.stream());
        ggml_backend_tensor_get(tensor, got.data(), 0, got.size());
        EXPECT_EQ(got, bytes);
        ggml_backend_tensor_memset(tensor, 3, 0, got.size());
        ggml_backend_tensor_get(tensor, got.data(), 0, got.size());
        EXPECT_THAT(got, testing::Each(std::byte{3}));
    }
    ggml_backend_buffer_clear(buffer.get(), 0);
    Values cleared(12 * 5 * 4, 1);
    ggml_backend_tensor_get(all[0], cleared.data(), 0, cleared.size() * sizeof(float));
    EXPECT_THAT(cleared, testing::Each(0.0F));
}

TEST_F(JoinedMemoryTest, ViewsAreReadAndWrittenInPlace) {
    const Joined joined(some_devices(2), {{"w", cut(0, {4, 4})}});
    Tensor* const w = make("w", {8, 6});
    Tensor* const view = ggml_view_2d(context.get(), w, 3, 2, w->nb[1], 2 * w->nb[1] + 12);
    const sim::Buffer buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(context.get(), joined.memory()));
    ASSERT_NE(buffer, nullptr) << heddle_last_error();
    Values values(48);
    std::iota(values.begin(), values.end(), 0.0F);
    sim::write(w, values);
    Values row(3);
    ggml_backend_tensor_get(view, row.data(), 32, 12);
    EXPECT_EQ(row, (Values{27, 28, 29}));
    ggml_backend_tensor_set(view, Values{-1, -2, -3}.data(), 32, 12);
    std::copy_n(Values{-1, -2, -3}.begin(), 3, values.begin() + 27);
    EXPECT_EQ(sim::read(w), values);
}

TEST_F(JoinedMemoryTest, AddendsAreWholeTogether) {
    const Joined joined(some_devices(3), {{"bias", state_of(GGML_BACKEND_SPLIT_AXIS_PARTIAL)},
                                          {"half", state_of(GGML_BACKEND_SPLIT_AXIS_PARTIAL)}});
    Tensor *const bias = make("bias", {5}), *const half = make("half", {5}, GGML_TYPE_F16);
    const sim::Buffer buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(context.get(), joined.memory()));
    ASSERT_NE(buffer, nullptr) << heddle_last_error();
    const Values values{1, 0.1F, -3, INFINITY, 5};
    sim::write(bias, values);
    EXPECT_EQ(sim::read(bias), values) << "exactly";
    std::vector<std::uint16_t> halves(5);
    ggml_backend_tensor_set(half, halves.data(), 0, 10);
    ggml_backend_tensor_get(half, halves.data(), 0, 10);
    EXPECT_THAT(heddle_last_error(), HasSubstr("f32 elements only"));
}

TEST_F(JoinedMemoryTest, EachDeviceHoldsItsShareAlone) {
    const Joined joined(some_devices(2, 0, ",mem=1M"), {{"w", cut(1, {128, 128})}});
    make("w", {256, 256});
    const auto used = [&](std::size_t i) {
        std::size_t free = 0, total = 0;
        ggml_backend_dev_memory(joined.part(i), &free, &total);
        return total - free;
    };
    const sim::Buffer buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(context.get(), joined.memory()));
    ASSERT_NE(buffer, nullptr) << heddle_last_error();
    EXPECT_LE(used(0), 128u * 1024 + 1024);
    EXPECT_LE(used(1), 128u * 1024 + 1024);
    EXPECT_GE(used(0) + used(1), 256u * 1024);
}

TEST_F(JoinedMemoryTest, PartsMayBeLargerThanOneBuffer) {
    const Joined joined(some_devices(2, 0, ",maxbuf=1K"),
                        {{"a", cut(0, {96, 32})}, {"b", cut(0, {100, 28})}});
    Tensor *const a = make("a", {128, 2}), *const b = make("b", {128, 2});
    const sim::Buffer buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(context.get(), joined.memory()));
    ASSERT_NE(buffer, nullptr) << heddle_last_error();
    for (Tensor* each : {a, b}) {
        const Values values = sim::numbers(256);
        sim::write(each, values);
        EXPECT_EQ(sim::read(each), values);
    }
}

TEST_F(JoinedMemoryTest, TensorsPlacedOneByOneAreCutToo) {
    const Joined joined(some_devices(2), {{"w", cut(0, {2, 6})}});
    Tensor* const w = make("w", {8, 3});
    const sim::Buffer buffer(ggml_backend_buft_alloc_buffer(joined.memory(), 4096));
    ggml_tallocr allocator = ggml_tallocr_new(buffer.get());
    ASSERT_EQ(ggml_tallocr_alloc(&allocator, w), GGML_STATUS_SUCCESS) << heddle_last_error();
    const Values values = sim::numbers(24);
    sim::write(w, values);
    EXPECT_EQ(sim::read(w), values);
}

TEST_F(JoinedMemoryTest, AFailureLeavesTensorsAsTheyWere) {
    const Joined joined(some_devices(2), {{"w", cut(0, {2, 7})}});
    Tensor* const w = make("w", {8, 3});
    EXPECT_EQ(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), joined.memory()), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("add up to 9, not to 8"));
    EXPECT_EQ(w->buffer, nullptr);

    const Joined other(some_devices(2), {{"w", cut(0, {2, 6})}});
    ASSERT_TRUE(sim::set_faults(other.part(1), "alloc=1"));
    EXPECT_EQ(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), other.memory()), nullptr);
    EXPECT_EQ(w->buffer, nullptr);
    EXPECT_EQ(w->data, nullptr);
    const sim::Buffer buffer(
        ggml_backend_meta_alloc_ctx_tensors_from_buft(context.get(), other.memory()));
    EXPECT_NE(buffer, nullptr) << heddle_last_error();
    EXPECT_EQ(ggml_backend_meta_alloc_ctx_tensors_from_buft(context.get(),
                                                            ggml_backend_cpu_buffer_type()),
              nullptr);
}

TEST_F(JoinedMemoryTest, NothingToPlaceGivesNothing) {
    const Joined joined(some_devices(2), {});
    make("empty", {0, 3});
    EXPECT_EQ(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), joined.memory()), nullptr);
}

}  // namespace
}  // namespace heddle::meta
