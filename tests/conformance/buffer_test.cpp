#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <thread>

#include "heddle/heddle.h"
#include "test_support.hpp"

namespace heddle::conformance {
namespace {

/// A suite of its own, so that each can be run alone.
class Buffer : public Device {
protected:
    ggml_backend_buffer_ptr allocate(std::size_t size) const {
        return ggml_backend_buffer_ptr(ggml_backend_buft_alloc_buffer(buffer_type(), size));
    }
};

TEST_P(Buffer, TypesHaveAStableNameAndAnAlignmentThatIsAPowerOfTwo) {
    const char* name = ggml_backend_buft_name(buffer_type());
    EXPECT_STRNE(name, "");
    EXPECT_EQ(ggml_backend_buft_name(buffer_type()), name);
    EXPECT_TRUE(std::has_single_bit(ggml_backend_buft_get_alignment(buffer_type())));
    EXPECT_GT(ggml_backend_buft_get_max_size(buffer_type()), 0u);
}

TEST_P(Buffer, BaseHonoursTheAlignment) {
    for (const std::size_t size : {1u, 100u, 4096u, 100001u}) {
        const auto buffer = allocate(size);
        ASSERT_NE(buffer, nullptr);
        const auto base =
            reinterpret_cast<std::uintptr_t>(ggml_backend_buffer_get_base(buffer.get()));
        EXPECT_NE(base, 0u);
        EXPECT_EQ(base % ggml_backend_buft_get_alignment(buffer_type()), 0u);
        EXPECT_GE(ggml_backend_buffer_get_size(buffer.get()), size);
    }
}

TEST_P(Buffer, OfSizeZeroIsADummyThatEveryQuestionIsSafeFor) {
    const auto dummy = allocate(0);
    ASSERT_NE(dummy, nullptr);
    EXPECT_EQ(ggml_backend_buffer_get_base(dummy.get()), nullptr);
    EXPECT_EQ(ggml_backend_buffer_get_size(dummy.get()), 0u);
    EXPECT_EQ(ggml_backend_buffer_get_type(dummy.get()), buffer_type());
    EXPECT_EQ(ggml_backend_buffer_is_host(dummy.get()), ggml_backend_buft_is_host(buffer_type()));
    ggml_backend_buffer_clear(dummy.get(), 1);
    ggml_backend_buffer_reset(dummy.get());
    ggml_backend_buffer_set_usage(dummy.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    EXPECT_EQ(ggml_backend_buffer_get_usage(dummy.get()), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
}

TEST_P(Buffer, KeepsItsUsageAndTheNameOfItsType) {
    const auto buffer = allocate(64);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(ggml_backend_buffer_get_usage(buffer.get()), GGML_BACKEND_BUFFER_USAGE_ANY);
    ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    EXPECT_EQ(ggml_backend_buffer_get_usage(buffer.get()), GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    const auto type = ggml_backend_buffer_get_type(buffer.get());
    EXPECT_STREQ(ggml_backend_buffer_name(buffer.get()), ggml_backend_buft_name(type));
}

TEST_P(Buffer, AllocationSizesCoverTheirTensor) {
    const Workspace workspace;
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K}) {
        ggml_tensor* tensor = ggml_new_tensor_2d(workspace.context(), type, 256, 3);
        EXPECT_GE(ggml_backend_buft_get_alloc_size(buffer_type(), tensor), ggml_nbytes(tensor));
    }
    const ggml_tensor* node =
        ggml_mul_mat(workspace.context(), workspace.floats(64, 64), workspace.floats(64, 64));
    EXPECT_GE(ggml_backend_buft_get_alloc_size(buffer_type(), node), ggml_nbytes(node));
}

TEST_P(Buffer, MoreThanThereIsGivesNullAndASentence) {
    EXPECT_EQ(allocate(SIZE_MAX / 4), nullptr);
    EXPECT_STRNE(heddle_last_error(), "");
}

TEST_P(Buffer, FreeingNothingIsFine) {
    ggml_backend_buffer_free(nullptr);
    ggml_backend_free(nullptr);
    ggml_backend_event_free(nullptr);
}

TEST_P(Buffer, ClearFillsEveryByte) {
    Workspace workspace;
    ggml_tensor* tensor = workspace.floats(100, 3);
    ASSERT_TRUE(workspace.place(buffer_type()));
    ggml_backend_buffer_clear(workspace.buffer(), 0xA5);
    std::vector<std::uint8_t> bytes(ggml_nbytes(tensor));
    ggml_backend_tensor_get(tensor, bytes.data(), 0, bytes.size());
    EXPECT_EQ(std::ranges::count(bytes, 0xA5), std::int64_t(bytes.size()));
}

TEST_P(Buffer, SetAndGetReachAnyRange) {
    Workspace workspace;
    ggml_tensor* tensor = workspace.floats(100);
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(tensor, counting(100));
    const float patch[] = {-1, -2, -3};
    ggml_backend_tensor_set(tensor, patch, 7 * sizeof(float), sizeof patch);
    std::vector<float> expected = counting(100);
    std::ranges::copy(patch, expected.begin() + 7);
    EXPECT_EQ(read(tensor), expected);
    float one = 0;
    ggml_backend_tensor_get(tensor, &one, 99 * sizeof(float), sizeof one);
    EXPECT_EQ(one, 99);
    std::uint8_t odd[3];  // not whole elements
    ggml_backend_tensor_get(tensor, odd, 5, sizeof odd);
    EXPECT_EQ(std::memcmp(odd, reinterpret_cast<const char*>(expected.data()) + 5, sizeof odd), 0);
}

TEST_P(Buffer, AccessOfNoBytesDoesNothing) {
    Workspace workspace;
    ggml_tensor* tensor = workspace.floats(4);
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(tensor, counting(4));
    ggml_backend_tensor_set(tensor, nullptr, 0, 0);
    ggml_backend_tensor_get(tensor, nullptr, 16, 0);
    ggml_backend_tensor_memset(tensor, 1, 0, 0);
    EXPECT_EQ(read(tensor), counting(4));
}

TEST_P(Buffer, AccessPastTheEndIsRefusedAndChangesNothing) {
    Workspace workspace;
    ggml_tensor* tensor = workspace.floats(4);
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(tensor, counting(4));
    const float patch[] = {9, 9};
    for (const std::size_t offset : {std::size_t{12}, std::size_t{16}, SIZE_MAX - 3}) {
        heddle_clear_error();
        ggml_backend_tensor_set(tensor, patch, offset, sizeof patch);
        EXPECT_STRNE(heddle_last_error(), "") << "offset " << offset;
    }
    EXPECT_EQ(read(tensor), counting(4));
}

TEST_P(Buffer, MemsetFillsARange) {
    Workspace workspace;
    ggml_tensor* tensor = workspace.floats(8);
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(tensor, counting(8, 1));
    ggml_backend_tensor_memset(tensor, 0, 2 * sizeof(float), 3 * sizeof(float));
    EXPECT_EQ(read(tensor), (std::vector<float>{1, 2, 0, 0, 0, 6, 7, 8}));
}

TEST_P(Buffer, RowsAreReachedWithStridesOnBothSides) {
    Workspace workspace;
    ggml_tensor* tensor = workspace.floats(4, 3);
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(tensor, std::vector<float>(12));
    const std::vector<float> host = counting(9, 1);  // rows of three
    constexpr std::size_t f = sizeof(float);
    ggml_backend_tensor_set_2d(tensor, host.data(), f, 2 * f, 3, 4 * f, 3 * f);
    EXPECT_EQ(read(tensor), (std::vector<float>{0, 1, 2, 0, 0, 4, 5, 0, 0, 7, 8, 0}));
    std::vector<float> back(9);
    ggml_backend_tensor_get_2d(tensor, back.data(), f, 2 * f, 3, 4 * f, 3 * f);
    EXPECT_EQ(back, (std::vector<float>{1, 2, 0, 4, 5, 0, 7, 8, 0}));
    ggml_backend_tensor_set_2d(tensor, host.data(), 0, f, 0, 4 * f, 3 * f);
    EXPECT_EQ(read(tensor)[0], 0) << "no copies, no writing";
}

TEST_P(Buffer, PlacingATensorOutsideOfItOrTwiceIsRefused) {
    const auto buffer = allocate(1024);
    ASSERT_NE(buffer, nullptr);
    const Workspace workspace;
    ggml_tensor* tensor = workspace.floats(64);
    auto* base = static_cast<char*>(ggml_backend_buffer_get_base(buffer.get()));
    const std::size_t size = ggml_backend_buffer_get_size(buffer.get());
    EXPECT_NE(ggml_backend_tensor_alloc(buffer.get(), tensor, base + size), GGML_STATUS_SUCCESS);
    EXPECT_EQ(tensor->buffer, nullptr);
    EXPECT_EQ(ggml_backend_tensor_alloc(buffer.get(), tensor, base), GGML_STATUS_SUCCESS);
    EXPECT_EQ(tensor->data, base);
    EXPECT_NE(ggml_backend_tensor_alloc(buffer.get(), tensor, base), GGML_STATUS_SUCCESS);
}

TEST_P(Buffer, ViewsShowTheirPartOfTheMemory) {
    Workspace workspace;
    ggml_tensor* tensor = workspace.floats(10);
    ggml_tensor* view = ggml_view_1d(workspace.context(), tensor, 3, 4 * sizeof(float));
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(tensor, counting(10));
    EXPECT_EQ(read(view), counting(3, 4));
    write(view, {0, 0, 0});
    EXPECT_EQ(read(tensor), (std::vector<float>{0, 1, 2, 3, 0, 0, 0, 7, 8, 9}));
}

TEST_P(Buffer, CopiesGoToTheHostAndBackAndToAnotherBuffer) {
    Workspace here, there, host;
    ggml_tensor* source = here.floats(33, 5);
    ggml_tensor* target = there.floats(33, 5);
    ggml_tensor* on_host = host.floats(33, 5);
    ASSERT_TRUE(here.place(buffer_type()) && there.place(buffer_type()));
    ASSERT_TRUE(host.place(ggml_backend_cpu_buffer_type()));
    write(source, counting(165));
    ggml_backend_tensor_copy(source, target);
    EXPECT_EQ(read(target), counting(165));
    ggml_backend_tensor_copy(source, on_host);
    EXPECT_EQ(read(on_host), counting(165));
    write(on_host, counting(165, 7));
    ggml_backend_tensor_copy(on_host, target);
    EXPECT_EQ(read(target), counting(165, 7));
    EXPECT_EQ(read(source), counting(165)) << "the source stays";
}

TEST_P(Buffer, CopiesBetweenDifferentLayoutsAreRefused) {
    Workspace workspace;
    ggml_tensor* a = workspace.floats(4, 2);
    ggml_tensor* b = workspace.floats(2, 4);
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(a, counting(8));
    write(b, counting(8, 50));
    ggml_backend_tensor_copy(a, b);
    EXPECT_STRNE(heddle_last_error(), "");
    EXPECT_EQ(read(b), counting(8, 50));
}

TEST_P(Buffer, MemoryOfTheCallerCanBeBorrowed) {
    if (!props().caps.buffer_from_host_ptr) GTEST_SKIP() << "cannot borrow memory";
    alignas(4096) static float memory[4096 / sizeof(float)];
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_dev_buffer_from_host_ptr(device(), memory, sizeof memory, sizeof memory));
    ASSERT_NE(buffer, nullptr);
    const Workspace workspace;
    ggml_tensor* tensor = workspace.floats(64);
    ASSERT_EQ(
        ggml_backend_tensor_alloc(buffer.get(), tensor, ggml_backend_buffer_get_base(buffer.get())),
        GGML_STATUS_SUCCESS);
    memory[3] = 42;
    EXPECT_EQ(read(tensor)[3], 42);
}

TEST_P(Buffer, OutlivesTheStreamItWasUsedWith) {
    Workspace workspace;
    ggml_tensor* tensor = workspace.floats(16);
    {
        const ggml_backend_ptr stream = new_stream();
        ASSERT_TRUE(workspace.place(ggml_backend_get_default_buffer_type(stream.get())));
        write(tensor, counting(16));
    }
    EXPECT_EQ(read(tensor), counting(16));
}

TEST_P(Buffer, TwoThreadsMayUseDifferentTensorsOfIt) {
    Workspace workspace;
    ggml_tensor* tensors[] = {workspace.floats(1000), workspace.floats(1000)};
    ASSERT_TRUE(workspace.place(buffer_type()));
    const auto work = [](ggml_tensor* tensor, float first) {
        for (int i = 0; i < 50; ++i) {
            write(tensor, counting(1000, first + float(i)));
            if (read(tensor) != counting(1000, first + float(i))) ADD_FAILURE() << "round " << i;
        }
    };
    std::thread other(work, tensors[1], 5000.0f);
    work(tensors[0], 0);
    other.join();
}

INSTANTIATE_TEST_SUITE_P(Every, Buffer, testing::ValuesIn(all_subjects()), label_of);

}  // namespace
}  // namespace heddle::conformance
