#include "runtime/buffer.hpp"

#include <gtest/gtest.h>

#include "runtime/buffer_count.hpp"
#include "runtime/host_buffer.hpp"
#include "runtime/multi_buffer.hpp"
#include "runtime/placement.hpp"
#include "runtime/test_support.hpp"
#include "runtime/transfer.hpp"

namespace heddle {
namespace {

using test::FakeDevice;

// ---- types -------------------------------------------------------------------------------------

TEST(BufferType, ForwardsToItsTable) {
    FakeDevice fake;
    fake.max_size = 1234;
    EXPECT_STREQ(name_of(fake.type), "FAKE0");
    EXPECT_EQ(alignment_of(fake.type), 64u);
    EXPECT_EQ(max_size_of(fake.type), 1234u);
    EXPECT_FALSE(is_host(fake.type));
    EXPECT_EQ(device_of(fake.type), &fake.device);
}

TEST(BufferType, HasDefaultsForAbsentMembers) {
    FakeDevice fake;
    const auto context = test::make_test_context();
    Tensor* x = test::new_floats(context, 5, "x");
    fake.type.iface = {};
    EXPECT_EQ(max_size_of(fake.type), SIZE_MAX);
    EXPECT_EQ(alloc_size_of(fake.type, *x), 20u);
    EXPECT_FALSE(is_host(fake.type));
    EXPECT_STREQ(name_of(fake.type), "(unnamed)");
    EXPECT_EQ(allocate(fake.type, 1).error().message,
              "buffer type '(unnamed)' cannot allocate buffers");
}

TEST(BufferType, NeverReservesLessThanATensorHas) {
    FakeDevice fake;
    const auto context = test::make_test_context();
    Tensor* x = test::new_floats(context, 5, "x");
    fake.padding = 12;
    EXPECT_EQ(alloc_size_of(fake.type, *x), 32u);
    fake.type.iface.get_alloc_size = [](BufferType*, const Tensor*) { return std::size_t{1}; };
    EXPECT_EQ(alloc_size_of(fake.type, *x), 20u);
}

TEST(BufferType, AFailedAllocationSaysWhatWasAskedFor) {
    FakeDevice fake;
    fake.allocations_left = 0;
    const auto buffer = allocate(fake.type, 4096);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code, Errc::out_of_memory);
    EXPECT_EQ(buffer.error().message, "buffer type 'FAKE0': no memory for 4096 bytes");
}

// ---- dummies -----------------------------------------------------------------------------------

TEST(DummyBuffer, IsMadeWithoutAskingTheBackend) {
    FakeDevice fake;
    fake.allocations_left = 0;
    const OwnedBuffer dummy = fake.allocate(0);
    ASSERT_NE(dummy, nullptr);
    EXPECT_TRUE(fake.calls.empty());
    EXPECT_EQ(dummy->buft, &fake.type);
    EXPECT_EQ(dummy->size, 0u);
    EXPECT_EQ(dummy->context, nullptr);
    EXPECT_EQ(dummy->usage, GGML_BACKEND_BUFFER_USAGE_ANY);
    EXPECT_EQ(dummy->iface.get_base, nullptr);
}

TEST(DummyBuffer, IsSafeToUse) {
    FakeDevice fake;
    const auto context = test::make_test_context();
    Tensor* x = test::new_floats(context, 4, "x");
    const OwnedBuffer dummy = fake.allocate(0);
    x->buffer = dummy.get();
    EXPECT_EQ(*base_of(*dummy), nullptr);
    EXPECT_TRUE(clear_buffer(*dummy, 1));
    reset_buffer(*dummy);
    set_usage(*dummy, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    EXPECT_EQ(dummy->usage, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    EXPECT_FALSE(is_host(*dummy));
    EXPECT_TRUE(write_tensor(*x, nullptr, 0, 0));
    EXPECT_TRUE(read_tensor(*x, nullptr, 0, 0));
    EXPECT_TRUE(fill_tensor(*x, 1, 0, 0));
    EXPECT_EQ(write_tensor(*x, &fake, 0, 4).error().message,
              "writing 'x' f32[4,1,1,1]: it has no memory");
}

// ---- buffers -----------------------------------------------------------------------------------

TEST(Buffer, LooksToPluginsLikeThePlainStruct) {
    FakeDevice fake;
    int context = 0;
    const OwnedBuffer buffer = *make_buffer(fake.type, BufferTable{}, &context, 77);
    EXPECT_EQ(buffer->buft, &fake.type);
    EXPECT_EQ(buffer->context, &context);
    EXPECT_EQ(buffer->size, 77u);
    EXPECT_EQ(buffer->usage, GGML_BACKEND_BUFFER_USAGE_ANY);
    EXPECT_STREQ(name_of(*buffer), "FAKE0");
}

TEST(Buffer, FreesThroughItsTableAndNullIsNothing) {
    FakeDevice fake;
    free_buffer(fake.allocate(8).release());
    EXPECT_EQ(fake.live_buffers, 0);
    free_buffer(nullptr);
}

TEST(Buffer, CallsMembersThatAPluginReplaced) {
    FakeDevice fake;
    const OwnedBuffer buffer = fake.allocate(64);
    buffer->iface.clear = [](Buffer* b, std::uint8_t) {
        b->usage = GGML_BACKEND_BUFFER_USAGE_COMPUTE;
    };
    ASSERT_TRUE(clear_buffer(*buffer, 0));
    EXPECT_EQ(buffer->usage, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    EXPECT_EQ(fake.count("clear"), 0u);
}

TEST(Buffer, WithoutTheMembersItNeedsFailsInsteadOfCrashing) {
    FakeDevice fake;
    const OwnedBuffer buffer = fake.allocate(64);
    buffer->iface.clear = nullptr;
    EXPECT_EQ(clear_buffer(*buffer, 0).error().message, "buffer of type 'FAKE0' cannot be cleared");
    buffer->iface.get_base = [](Buffer*) -> void* { return nullptr; };
    EXPECT_EQ(base_of(*buffer).error().message,
              "buffer of type 'FAKE0': no address for its 64 bytes");
    buffer->iface.get_base = nullptr;
    EXPECT_EQ(*base_of(*buffer), nullptr);
    buffer->iface.reset = nullptr;
    reset_buffer(*buffer);
}

TEST(Buffer, TellsWhatABackendAnsweredWhenItPreparesATensor) {
    FakeDevice fake;
    const auto context = test::make_test_context();
    Tensor* x = test::new_floats(context, 4, "x");
    const OwnedBuffer buffer = fake.allocate(64);
    EXPECT_TRUE(init_tensor(*buffer, *x));
    fake.init_status = GGML_STATUS_ALLOC_FAILED;
    const auto refused = init_tensor(*buffer, *x);
    EXPECT_EQ(refused.error().message,
              "preparing 'x' f32[4,1,1,1] in a buffer of type 'FAKE0': the backend answered "
              "ALLOC_FAILED (-2)");
    EXPECT_EQ(to_status(refused.error()), GGML_STATUS_ALLOC_FAILED);
    buffer->iface.init_tensor = nullptr;
    EXPECT_TRUE(init_tensor(*buffer, *x));
}

// ---- writes ------------------------------------------------------------------------------------

TEST(WriteGeneration, CountsEveryWriteThroughTheLibraryAndNoRead) {
    FakeDevice fake;
    const auto context = test::make_test_context();
    Tensor* x = test::new_floats(context, 4, "x");
    Tensor* y = test::new_floats(context, 4, "y");
    const OwnedBuffer buffer = fake.allocate(256), other = fake.allocate(64);
    ASSERT_TRUE(place_tensor(*buffer, *x, *base_of(*buffer)));
    ASSERT_TRUE(place_tensor(*other, *y, *base_of(*other)));
    const OwnedStream stream = fake.start();
    float values[4] = {};
    std::uint64_t last = write_generation(*buffer);
    const auto has_grown = [&] {
        const std::uint64_t now = write_generation(*buffer);
        return std::exchange(last, now) < now;
    };
    ASSERT_TRUE(write_tensor(*x, values, 0, 16));
    EXPECT_TRUE(has_grown());
    ASSERT_TRUE(fill_tensor(*x, 0, 0, 16));
    EXPECT_TRUE(has_grown());
    ASSERT_TRUE(clear_buffer(*buffer, 0));
    EXPECT_TRUE(has_grown());
    ASSERT_TRUE(copy_tensor(*y, *x));
    EXPECT_TRUE(has_grown());
    ASSERT_TRUE(write_tensor_async(*stream, *x, values, 0, 16));
    EXPECT_TRUE(has_grown());
    ASSERT_TRUE(copy_tensor_async(*stream, *stream, *y, *x));
    EXPECT_TRUE(has_grown());
    ASSERT_TRUE(read_tensor(*x, values, 0, 16));
    ASSERT_TRUE(read_tensor_async(*stream, *x, values, 0, 16));
    ASSERT_TRUE(copy_tensor(*x, *y));
    ASSERT_FALSE(write_tensor(*x, values, 8, 16));
    EXPECT_FALSE(has_grown());
}

TEST(LiveBuffers, AreCountedForTheBackendThatOffersTheirType) {
    FakeDevice fake;
    Registration reg{};
    EXPECT_EQ(heddle_live_buffers(&reg), 0);
    OwnedBuffer anonymous = fake.allocate(8);
    fake.device.reg = &reg;
    OwnedBuffer one = fake.allocate(8), dummy = fake.allocate(0);
    EXPECT_EQ(heddle_live_buffers(&reg), 2);
    one->buft = &host_buffer_type();  // plug-ins do that; the count does not suffer
    one.reset();
    anonymous.reset();
    EXPECT_EQ(heddle_live_buffers(&reg), 1);
    dummy.reset();
    EXPECT_EQ(heddle_live_buffers(&reg), 0);
}

// ---- several as one ----------------------------------------------------------------------------

class MultiBuffer : public testing::Test {
protected:
    FakeDevice fake;
    Buffer* first = fake.allocate(64).release();
    Buffer* second = fake.allocate(128).release();
    OwnedBuffer all = *make_multi_buffer(std::vector{first, second});
};

TEST_F(MultiBuffer, HasTheTypeOfItsFirstPartAndTheSizeOfAll) {
    EXPECT_EQ(all->buft, &fake.type);
    EXPECT_EQ(all->size, 192u);
    EXPECT_EQ(*base_of(*all), nullptr);
    EXPECT_TRUE(is_multi_buffer(*all));
    EXPECT_FALSE(is_multi_buffer(*first));
    EXPECT_EQ(parts_of(*all).size(), 2u);
}

TEST_F(MultiBuffer, PassesOnWhatIsDoneToIt) {
    ASSERT_TRUE(clear_buffer(*all, 7));
    EXPECT_EQ(fake.count("clear"), 2u);
    reset_buffer(*all);
    EXPECT_EQ(fake.count("reset"), 2u);
    set_usage(*all, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    EXPECT_EQ(first->usage, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    EXPECT_EQ(second->usage, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    all.reset();
    EXPECT_EQ(fake.live_buffers, 0);
}

TEST_F(MultiBuffer, MayHoldMultiBuffers) {
    Buffer* third = fake.allocate(8).release();
    OwnedBuffer outer = *make_multi_buffer(std::vector{all.release(), third});
    set_usage(*outer, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    EXPECT_EQ(second->usage, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    EXPECT_EQ(outer->size, 200u);
    outer.reset();
    EXPECT_EQ(fake.live_buffers, 0);
}

TEST_F(MultiBuffer, KnowsTheWritesOfItsParts) {
    const std::uint64_t before = write_generation(*all);
    note_write(*second);
    EXPECT_GT(write_generation(*all), before);
}

TEST_F(MultiBuffer, ClearsNothingIfOnePartCannotBeCleared) {
    second->iface.clear = nullptr;
    EXPECT_FALSE(clear_buffer(*all, 7));
    EXPECT_EQ(fake.count("clear"), 0u);
}

TEST_F(MultiBuffer, IsRefusedForPartsThatAreNone) {
    EXPECT_EQ(make_multi_buffer({}).error().message, "multi-buffer: no parts");
    EXPECT_EQ(make_multi_buffer(std::vector<Buffer*>{first, nullptr}).error().message,
              "multi-buffer: part 1 is NULL");
    const std::size_t size = std::exchange(first->size, SIZE_MAX);
    EXPECT_EQ(make_multi_buffer(std::vector{first, second}).error().message,
              "multi-buffer: the sizes of its 2 parts add up to more than can be addressed");
    first->size = size;
}

}  // namespace
}  // namespace heddle
