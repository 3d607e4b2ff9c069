#include "runtime/placement.hpp"

#include <gtest/gtest.h>

#include "runtime/host_buffer.hpp"
#include "runtime/test_support.hpp"

namespace heddle {
namespace {

using test::FakeDevice;
using test::new_floats;

class Placement : public testing::Test {
protected:
    FakeDevice fake;
    OwnedContext context = test::make_test_context();
    OwnedBuffer buffer = fake.allocate(256);
    std::byte* base = static_cast<std::byte*>(*base_of(*buffer));
    Tensor* x = new_floats(context, 16, "x");  // 64 bytes

    Tensor* view_of(Tensor& tensor, std::int64_t n, std::size_t offset) {
        return *new_view(*context, TensorSpec::dense(GGML_TYPE_F32, {n, 1, 1, 1}), tensor, offset);
    }
};

TEST_F(Placement, GivesATensorItsPlaceAndTellsTheBackend) {
    ASSERT_TRUE(place_tensor(*buffer, *x, base + 192));
    EXPECT_EQ(x->buffer, buffer.get());
    EXPECT_EQ(x->data, base + 192);
    EXPECT_EQ(fake.count("init_tensor"), 1u);
}

TEST_F(Placement, RefusesATensorThatHasMemoryOrIsAView) {
    ASSERT_TRUE(place_tensor(*buffer, *x, base));
    EXPECT_EQ(place_tensor(*buffer, *x, base + 64).error().message,
              "placing 'x' f32[16,1,1,1]: it has memory already");
    Tensor* view = view_of(*x, 4, 0);
    view->data = nullptr;
    set_name(*view, "v");
    EXPECT_EQ(place_tensor(*buffer, *view, base + 64).error().message,
              "placing 'v' f32[4,1,1,1]: it is a view of 'x' f32[16,1,1,1] and lives there");
}

TEST_F(Placement, ChecksTheRangeWithAllThatTheTypeReserves) {
    EXPECT_EQ(place_tensor(*buffer, *x, base + 256).error().message,
              "placing 'x' f32[16,1,1,1]: 64 bytes at offset 256 reach past the 256 bytes of the "
              "buffer of type 'FAKE0'");
    fake.padding = 1;
    EXPECT_FALSE(place_tensor(*buffer, *x, base + 192));
    fake.padding = 0;
    EXPECT_TRUE(place_tensor(*buffer, *x, base + 192));
}

TEST_F(Placement, RangesCannotOverflow) {
    EXPECT_FALSE(place_tensor(*buffer, *x, reinterpret_cast<void*>(UINTPTR_MAX - 63)));
    EXPECT_EQ(place_tensor(*buffer, *x, base - 64).error().message,
              text("placing 'x' f32[16,1,1,1]: address ", static_cast<void*>(base - 64),
                   " lies before the buffer, which begins at ", static_cast<void*>(base)));
    EXPECT_EQ(x->data, nullptr);
    EXPECT_EQ(x->buffer, nullptr);
}

TEST_F(Placement, ChecksTheAlignment) {
    EXPECT_EQ(place_tensor(*buffer, *x, base + 32).error().message,
              text("placing 'x' f32[16,1,1,1]: address ", static_cast<void*>(base + 32),
                   " is not aligned to the 64 bytes of buffer type 'FAKE0'"));
    fake.alignment = 48;
    EXPECT_EQ(place_tensor(*buffer, *x, base + 48).error().message,
              "buffer type 'FAKE0': an alignment of 48 is not a power of two");
}

TEST_F(Placement, ATensorThatTheBackendRefusesStaysAsItWas) {
    fake.init_status = GGML_STATUS_FAILED;
    EXPECT_FALSE(place_tensor(*buffer, *x, base));
    EXPECT_EQ(x->buffer, nullptr);
    EXPECT_EQ(x->data, nullptr);
    fake.init_status = GGML_STATUS_SUCCESS;
    EXPECT_TRUE(place_tensor(*buffer, *x, base));
}

TEST_F(Placement, ADummyHoldsNothing) {
    const OwnedBuffer dummy = fake.allocate(0);
    EXPECT_FALSE(place_tensor(*dummy, *x, base));
}

TEST_F(Placement, GivesAViewThePlaceInItsTensor) {
    Tensor* view = view_of(*x, 4, 16);
    ASSERT_TRUE(place_tensor(*buffer, *x, base + 64));
    ASSERT_TRUE(place_view(*view));
    EXPECT_EQ(view->buffer, buffer.get());
    EXPECT_EQ(view->data, base + 80);
    EXPECT_EQ(fake.count("init_tensor"), 2u);
    EXPECT_EQ(place_view(*view).error().message,
              "placing '' f32[4,1,1,1]: the view has a buffer already");
}

TEST_F(Placement, AViewMadeOnAPlacedTensorMayHaveDataAlready) {
    ASSERT_TRUE(place_tensor(*buffer, *x, base));
    Tensor* view = view_of(*x, 4, 16);
    ASSERT_EQ(view->data, base + 16);
    EXPECT_TRUE(place_view(*view));
    EXPECT_EQ(view->data, base + 16);
}

TEST_F(Placement, RefusesViewsOfWhatHasNoMemory) {
    EXPECT_EQ(place_view(*x).error().message, "placing 'x' f32[16,1,1,1]: it is no view");
    Tensor* view = view_of(*x, 4, 16);
    EXPECT_EQ(place_view(*view).error().message,
              "placing '' f32[4,1,1,1]: 'x' f32[16,1,1,1], which it is a view of, has no memory");
    const OwnedBuffer dummy = fake.allocate(0);
    x->buffer = dummy.get();
    EXPECT_FALSE(place_view(*view));
}

TEST_F(Placement, RefusesAViewThatLeavesTheBuffer) {
    ASSERT_TRUE(place_tensor(*buffer, *x, base + 192));
    Tensor* view = view_of(*x, 4, 16);
    view->nb[0] = 100;  // strides of its own: 16 + 304 bytes
    EXPECT_EQ(place_view(*view).error().message,
              "placing '' f32[4,1,1,1]: 304 bytes at offset 208 reach past the 256 bytes of the "
              "buffer of type 'FAKE0'");
    view->view_offs = SIZE_MAX;
    EXPECT_FALSE(place_view(*view));
    EXPECT_EQ(view->buffer, nullptr);
}

TEST_F(Placement, MappedFilesNeedNoMoreThan32) {
    alignas(64) std::byte memory[128] = {};
    const OwnedBuffer mapped = *buffer_from_memory(memory + 32, 96);
    EXPECT_TRUE(place_tensor(*mapped, *x, memory + 32));
}

}  // namespace
}  // namespace heddle
