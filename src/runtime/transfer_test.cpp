#include "runtime/transfer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "heddle/heddle.h"
#include "runtime/host_buffer.hpp"
#include "runtime/placement.hpp"
#include "runtime/test_support.hpp"

namespace heddle {
namespace {

using test::FakeDevice;
using test::new_floats;
using Calls = std::vector<std::string>;

class Transfer : public testing::Test {
protected:
    FakeDevice fake;
    OwnedContext context = test::make_test_context();
    Tensor* x = new_floats(context, 8, "x");
    OwnedBuffer buffer = placed(*x, fake.type);
    std::array<float, 8> values{1, 2, 3, 4, 5, 6, 7, 8};

    static OwnedBuffer placed(Tensor& tensor, BufferType& type) {
        OwnedBuffer made = *allocate(type, byte_size(tensor));
        EXPECT_TRUE(place_tensor(*made, tensor, *base_of(*made)));
        return made;
    }

    void SetUp() override { fake.calls.clear(); }

    static float at(const Tensor& tensor, std::size_t i) {
        return reinterpret_cast<const float*>(FakeDevice::bytes(tensor))[i];
    }
};

// ---- one piece ---------------------------------------------------------------------------------

TEST_F(Transfer, WritesAndReadsAnyRange) {
    ASSERT_TRUE(write_tensor(*x, values.data(), 0, 32));
    ASSERT_TRUE(write_tensor(*x, values.data(), 28, 4));
    EXPECT_EQ(at(*x, 1), 2);
    EXPECT_EQ(at(*x, 7), 1);
    float two[2];
    ASSERT_TRUE(read_tensor(*x, two, 24, 8));
    EXPECT_EQ(two[0], 7);
    EXPECT_EQ(two[1], 1);
    ASSERT_TRUE(fill_tensor(*x, 0, 4, 4));
    EXPECT_EQ(at(*x, 1), 0);
    EXPECT_EQ(at(*x, 2), 3);
}

TEST_F(Transfer, GoesThroughTheBufferOfTheTensorAViewLooksInto) {
    Tensor* view = *new_view(*context, TensorSpec::dense(GGML_TYPE_F32, {2, 1, 1, 1}), *x, 8);
    ASSERT_EQ(view->buffer, nullptr) << "not placed, but its data are known";
    ASSERT_TRUE(write_tensor(*view, values.data(), 0, 8));
    EXPECT_EQ(at(*x, 2), 1);
}

TEST_F(Transfer, RefusesWhatReachesPastTheTensorWithoutOverflow) {
    EXPECT_EQ(write_tensor(*x, values.data(), 8, 28).error().message,
              "writing 'x' f32[8,1,1,1]: 28 bytes at offset 8 reach past its 32 bytes");
    EXPECT_FALSE(write_tensor(*x, values.data(), SIZE_MAX, 2));
    EXPECT_FALSE(read_tensor(*x, values.data(), 2, SIZE_MAX));
    EXPECT_EQ(fill_tensor(*x, 0, SIZE_MAX - 3, 8).error().message,
              text("filling 'x' f32[8,1,1,1]: 8 bytes at offset ", SIZE_MAX - 3,
                   " reach past its 32 bytes"));
    EXPECT_TRUE(fake.calls.empty());
}

TEST_F(Transfer, RefusesTensorsWithoutMemoryAndNullPointers) {
    Tensor* loose = new_floats(context, 8, "loose");
    EXPECT_EQ(write_tensor(*loose, values.data(), 0, 4).error().message,
              "writing 'loose' f32[8,1,1,1]: it is in no buffer");
    EXPECT_FALSE(write_tensor(*loose, values.data(), 0, 0));
    EXPECT_EQ(read_tensor(*x, nullptr, 0, 4).error().message,
              "reading 'x' f32[8,1,1,1]: the host memory is NULL");
    x->data = nullptr;
    EXPECT_EQ(fill_tensor(*x, 0, 0, 4).error().message,
              "filling 'x' f32[8,1,1,1]: it has no memory");
    EXPECT_TRUE(write_tensor(*x, nullptr, 0, 0)) << "nothing needs no memory";
}

TEST_F(Transfer, SaysWhichFunctionABackendLacks) {
    buffer->iface.get_tensor = nullptr;  // repacked weights cannot be read back
    EXPECT_EQ(read_tensor(*x, values.data(), 0, 4).error().message,
              "reading 'x' f32[8,1,1,1]: buffers of type 'FAKE0' have no function for it");
    buffer->iface.set_tensor = nullptr;
    EXPECT_EQ(write_tensor(*x, values.data(), 0, 4).error().code, Errc::unsupported);
    buffer->iface.memset_tensor = nullptr;
    EXPECT_EQ(fill_tensor(*x, 0, 0, 4).error().code, Errc::unsupported);
}

TEST_F(Transfer, ZeroesTensorsOnDevicesAndInContexts) {
    ASSERT_TRUE(write_tensor(*x, values.data(), 0, 32));
    ASSERT_TRUE(zero_tensor(*x));
    EXPECT_EQ(at(*x, 7), 0);
    const auto with_data = test::make_test_context(false);
    Tensor* y = new_floats(with_data, 2, "y");
    static_cast<float*>(y->data)[1] = 3;
    ASSERT_TRUE(zero_tensor(*y));
    EXPECT_EQ(static_cast<float*>(y->data)[1], 0);
    EXPECT_TRUE(zero_tensor(*new_floats(context, 0, "empty")));
    EXPECT_FALSE(zero_tensor(*new_floats(context, 2, "loose")));
}

// ---- many pieces -------------------------------------------------------------------------------

constexpr Pieces kEverySecond{.size = 4, .count = 4, .tensor_stride = 8, .data_stride = 4};

TEST_F(Transfer, MovesPiecesByTheBackendsFunctionIfItHasOne) {
    ASSERT_TRUE(write_tensor(*x, values.data(), 4, kEverySecond));
    EXPECT_EQ(fake.calls, Calls{"set_tensor_2d"});
    EXPECT_EQ(at(*x, 7), 4);
    EXPECT_EQ(at(*x, 6), 0);
    std::array<float, 4> read{};
    ASSERT_TRUE(read_tensor(*x, read.data(), 4, kEverySecond));
    EXPECT_EQ(read, (std::array<float, 4>{1, 2, 3, 4}));
    EXPECT_EQ(fake.calls.back(), "get_tensor_2d");
}

TEST_F(Transfer, MovesPiecesOneByOneOtherwise) {
    buffer->iface.set_tensor_2d = nullptr;
    buffer->iface.get_tensor_2d = nullptr;
    ASSERT_TRUE(write_tensor(*x, values.data(), 4, kEverySecond));
    std::array<float, 4> read{};
    ASSERT_TRUE(read_tensor(*x, read.data(), 4, kEverySecond));
    EXPECT_EQ(read, (std::array<float, 4>{1, 2, 3, 4}));
    EXPECT_EQ(fake.count("set_tensor"), 4u);
    EXPECT_EQ(fake.count("get_tensor"), 4u);
}

TEST_F(Transfer, OnePieceIsAnOrdinaryWriteAndNoneIsNothing) {
    ASSERT_TRUE(write_tensor(*x, values.data(), 0, Pieces{.size = 4, .count = 1}));
    EXPECT_EQ(fake.calls, Calls{"set_tensor"});
    EXPECT_TRUE(write_tensor(*x, values.data(), 0, Pieces{.size = 4, .count = 0}));
    EXPECT_TRUE(read_tensor(*x, values.data(), 0, Pieces{.size = 0, .count = 9}));
    EXPECT_EQ(fake.calls.size(), 1u);
}

TEST_F(Transfer, PiecesAreCheckedAsAWholeWithoutOverflow) {
    Pieces pieces = kEverySecond;
    EXPECT_EQ(write_tensor(*x, values.data(), 8, pieces).error().message,
              "writing 'x' f32[8,1,1,1]: 28 bytes at offset 8 reach past its 32 bytes");
    pieces.tensor_stride = SIZE_MAX / 2;
    EXPECT_EQ(write_tensor(*x, values.data(), 0, pieces).error().message,
              text("writing 'x' f32[8,1,1,1]: 4 pieces of 4 bytes, ", SIZE_MAX / 2,
                   " apart in the tensor and 4 apart in host memory, are more than can be "
                   "addressed"));
    pieces.count = SIZE_MAX;
    EXPECT_FALSE(read_tensor(*x, values.data(), 0, pieces));
    EXPECT_TRUE(fake.calls.empty());
}

// ---- copies ------------------------------------------------------------------------------------

class Copy : public Transfer {
protected:
    FakeDevice second;
    Tensor* y = new_floats(context, 8, "y");
    Tensor* host = new_floats(context, 8, "host");
    OwnedBuffer y_buffer = placed(*y, second.type);
    OwnedBuffer host_buffer = placed(*host, host_buffer_type());

    void SetUp() override {
        ASSERT_TRUE(write_tensor(*x, values.data(), 0, 32));
        fake.calls.clear();
        second.calls.clear();
    }
};

TEST_F(Copy, FromHostMemoryIsAWrite) {
    static_cast<float*>(host->data)[3] = 9;
    ASSERT_TRUE(copy_tensor(*host, *y));
    EXPECT_EQ(at(*y, 3), 9);
    EXPECT_EQ(second.calls, Calls{"set_tensor"});
}

TEST_F(Copy, ToHostMemoryIsARead) {
    ASSERT_TRUE(copy_tensor(*x, *host));
    EXPECT_EQ(static_cast<float*>(host->data)[7], 8);
    EXPECT_EQ(fake.calls, Calls{"get_tensor"});
}

TEST_F(Copy, BetweenDevicesIsTheDestinationsTask) {
    ASSERT_TRUE(copy_tensor(*x, *y));
    EXPECT_EQ(at(*y, 7), 8);
    EXPECT_EQ(second.calls, Calls{"cpy_tensor"});
    EXPECT_TRUE(fake.calls.empty());
}

TEST_F(Copy, GoesThroughTheHostIfNoDeviceCan) {
    second.copies = false;
    ASSERT_TRUE(copy_tensor(*x, *y));
    EXPECT_EQ(at(*y, 7), 8);
    EXPECT_EQ(second.calls, (Calls{"cpy_tensor", "set_tensor"}));
    EXPECT_EQ(fake.calls, Calls{"get_tensor"});
    y_buffer->iface.cpy_tensor = nullptr;
    EXPECT_TRUE(copy_tensor(*x, *y));
}

TEST_F(Copy, OfLargeTensorsIsStagedInPieces) {
    constexpr std::int64_t n = (9 << 20) / 4;
    Tensor* big = new_floats(context, n, "big");
    Tensor* other = new_floats(context, n, "other");
    const OwnedBuffer from = placed(*big, fake.type), to = placed(*other, second.type);
    std::vector<float> data(n);
    std::iota(data.begin(), data.end(), 0.0f);
    ASSERT_TRUE(write_tensor(*big, data.data(), 0, data.size() * 4));
    second.copies = false;
    fake.calls.clear();
    ASSERT_TRUE(copy_tensor(*big, *other));
    EXPECT_EQ(fake.count("get_tensor"), 3u) << "9 MiB in pieces of 4 MiB";
    EXPECT_EQ(std::memcmp(FakeDevice::bytes(*other), data.data(), data.size() * 4), 0);
    // Buffers with a layout of their own take whole tensors only.
    to->iface.get_tensor = nullptr;
    fake.calls.clear();
    ASSERT_TRUE(copy_tensor(*big, *other));
    EXPECT_EQ(fake.count("get_tensor"), 1u);
}

TEST_F(Copy, FailsWhereTheSourceCannotBeRead) {
    buffer->iface.get_tensor = nullptr;
    second.copies = false;
    EXPECT_EQ(copy_tensor(*x, *y).error().message,
              "reading 'x' f32[8,1,1,1]: buffers of type 'FAKE0' have no function for it");
    EXPECT_FALSE(copy_tensor(*x, *host));
    buffer->iface.get_tensor = fake.buffer_table.get_tensor;
    y_buffer->iface.set_tensor = nullptr;
    EXPECT_FALSE(copy_tensor(*x, *y));
    EXPECT_EQ(fake.count("get_tensor"), 0u);
}

TEST_F(Copy, NeedsTheSameLayoutAndMemoryOnBothSides) {
    Tensor* shorter = new_floats(context, 4, "shorter");
    EXPECT_EQ(copy_tensor(*x, *shorter).error().message,
              "copying 'x' f32[8,1,1,1] to 'shorter' f32[4,1,1,1]: type, extents and strides must "
              "be the same");
    Tensor* loose = new_floats(context, 8, "loose");
    EXPECT_EQ(copy_tensor(*x, *loose).error().message,
              "copying 'loose' f32[8,1,1,1]: it is in no buffer");
    EXPECT_FALSE(copy_tensor(*loose, *x));
    EXPECT_TRUE(copy_tensor(*loose, *loose)) << "a tensor is a copy of itself";
}

TEST_F(Copy, NeverTouchesMemoryThatWasGivenUp) {
    static_cast<float*>(host->data)[3] = 9;
    empty_buffer(*host_buffer);
    const std::string why =
        "copying 'host' f32[8,1,1,1]: the memory that it had was given up when a larger graph was "
        "planned";
    EXPECT_EQ(copy_tensor(*host, *y).error().message, why);
    EXPECT_EQ(copy_tensor(*x, *host).error().message, why);
    EXPECT_FALSE(copy_by_destination(*host, *y));
    const OwnedStream from = fake.start(), to = second.start();
    EXPECT_EQ(copy_tensor_async(*from, *to, *host, *y).error().message, why);
    EXPECT_FALSE(write_tensor(*host, values.data(), 0, 4));
    EXPECT_FALSE(read_tensor(*host, values.data(), 0, 4));
    EXPECT_TRUE(fake.calls.empty() && second.calls.empty());
}

TEST_F(Copy, OfAViewWhoseRootHasMovedIsRefused) {
    Tensor* view = *new_view(*context, TensorSpec::dense(GGML_TYPE_F32, {8, 1, 1, 1}), *host, 0);
    set_name(*view, "view");
    const OwnedBuffer other = *allocate(host_buffer_type(), 32);
    host->buffer = nullptr;
    host->data = nullptr;
    ASSERT_TRUE(place_tensor(*other, *host, *base_of(*other)));
    const std::string why = "copying 'view' f32[8,1,1,1]: it is not inside its buffer of 32 bytes";
    EXPECT_EQ(copy_tensor(*view, *y).error().message, why);
    EXPECT_EQ(copy_tensor(*x, *view).error().message, why);
    const std::string said =
        "writing 'view' f32[8,1,1,1]: 32 bytes at offset 0 of 'view' f32[8,1,1,1] are not inside "
        "its buffer of 32 bytes";
    EXPECT_EQ(write_tensor(*view, values.data(), 0, 32).error().message, said);
    EXPECT_FALSE(read_tensor(*view, values.data(), 0, 32));
    EXPECT_FALSE(fill_tensor(*view, 0, 0, 32));
    EXPECT_TRUE(copy_tensor(*host, *y));
}

// ---- in the order of a stream ------------------------------------------------------------------

TEST_F(Copy, AsyncWritesAndReadsAreQueued) {
    const OwnedStream stream = fake.start();
    ASSERT_TRUE(write_tensor_async(*stream, *x, values.data(), 4, 8));
    ASSERT_TRUE(read_tensor_async(*stream, *x, values.data(), 4, 8));
    EXPECT_EQ(fake.calls, (Calls{"set_tensor_async", "get_tensor_async"}));
}

TEST_F(Copy, WithoutAsyncMembersTheStreamIsSynchronisedFirst) {
    fake.stream_table.set_tensor_async = nullptr;
    fake.stream_table.get_tensor_async = nullptr;
    const OwnedStream stream = fake.start();
    ASSERT_TRUE(write_tensor_async(*stream, *x, values.data(), 4, 8));
    ASSERT_TRUE(read_tensor_async(*stream, *x, values.data(), 4, 8));
    EXPECT_EQ(fake.calls, (Calls{"synchronize", "set_tensor", "synchronize", "get_tensor"}));
}

TEST_F(Copy, AsyncPiecesFallBackStepByStep) {
    fake.stream_table.set_tensor_2d_async = [](Stream* s, Tensor*, const void*, std::size_t,
                                               std::size_t, std::size_t, std::size_t, std::size_t) {
        static_cast<FakeDevice*>(s->context)->calls.emplace_back("set_tensor_2d_async");
    };
    OwnedStream stream = fake.start();
    ASSERT_TRUE(write_tensor_async(*stream, *x, values.data(), 4, kEverySecond));
    EXPECT_EQ(fake.calls, Calls{"set_tensor_2d_async"});
    stream->iface.set_tensor_2d_async = nullptr;
    ASSERT_TRUE(write_tensor_async(*stream, *x, values.data(), 4, kEverySecond));
    EXPECT_EQ(fake.count("set_tensor_async"), 4u);
    ASSERT_TRUE(read_tensor_async(*stream, *x, values.data(), 4, kEverySecond));
    EXPECT_EQ(fake.count("get_tensor_async"), 4u);
    stream->iface.set_tensor_async = nullptr;
    fake.calls.clear();
    ASSERT_TRUE(write_tensor_async(*stream, *x, values.data(), 4, kEverySecond));
    EXPECT_EQ(fake.calls, (Calls{"synchronize", "set_tensor_2d"}));
    EXPECT_TRUE(write_tensor_async(*stream, *x, values.data(), 4, Pieces{.size = 4, .count = 0}));
}

TEST_F(Copy, AsyncFormsCheckAsStrictly) {
    const OwnedStream stream = fake.start();
    EXPECT_FALSE(write_tensor_async(*stream, *x, values.data(), 28, 8));
    EXPECT_FALSE(read_tensor_async(*stream, *x, nullptr, 0, 8));
    x->data = nullptr;
    EXPECT_FALSE(write_tensor_async(*stream, *x, values.data(), 0, 0))
        << "even nothing needs memory";
    EXPECT_TRUE(fake.calls.empty());
}

TEST_F(Copy, AsyncIsTheDestinationStreamsTask) {
    const OwnedStream from = fake.start(), to = second.start();
    ASSERT_TRUE(copy_tensor_async(*from, *to, *x, *y));
    EXPECT_EQ(second.calls, Calls{"cpy_tensor_async"});
    EXPECT_TRUE(fake.calls.empty());
    EXPECT_EQ(at(*y, 7), 8);
}

TEST_F(Copy, AsyncSynchronisesBothStreamsIfTheDestinationDeclines) {
    const OwnedStream from = fake.start(), to = second.start();
    second.copies = false;
    ASSERT_TRUE(copy_tensor_async(*from, *to, *x, *y));
    EXPECT_EQ(fake.calls, (Calls{"synchronize", "get_tensor"}));
    EXPECT_EQ(second.calls, (Calls{"cpy_tensor_async", "synchronize", "cpy_tensor", "set_tensor"}));
    EXPECT_EQ(at(*y, 7), 8);
    EXPECT_TRUE(copy_tensor_async(*from, *to, *x, *x));
    EXPECT_FALSE(copy_tensor_async(*from, *to, *x, *new_floats(context, 4, "shorter")));
}

// ---- failures that a backend can only tell of --------------------------------------------------

void tell() { heddle_report_error("the cable is out"); }

TEST_F(Copy, WhatABackendTellsOfIsAFailure) {
    const OwnedStream from = fake.start(), to = second.start();
    buffer->iface.set_tensor = [](Buffer*, Tensor*, const void*, std::size_t, std::size_t) {
        tell();
    };
    buffer->iface.get_tensor = [](Buffer*, const Tensor*, void*, std::size_t, std::size_t) {
        tell();
    };
    from->iface.set_tensor_async = [](Stream*, Tensor*, const void*, std::size_t, std::size_t) {
        tell();
    };
    to->iface.cpy_tensor_async = [](Stream*, Stream*, const Tensor*, Tensor*) {
        tell();
        return true;
    };
    const auto written = write_tensor(*x, values.data(), 0, 8);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Errc::device);
    EXPECT_EQ(written.error().message, "writing 'x' f32[8,1,1,1]: the cable is out");
    EXPECT_FALSE(read_tensor(*x, values.data(), 0, 8));
    EXPECT_FALSE(write_tensor_async(*from, *x, values.data(), 0, 8));
    const auto copied = copy_tensor_async(*from, *to, *x, *y);
    ASSERT_FALSE(copied);
    EXPECT_EQ(copied.error().message, "copying 'x' f32[8,1,1,1]: the cable is out");
}

}  // namespace
}  // namespace heddle
