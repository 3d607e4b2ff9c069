#include "core/context.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/graph.hpp"
#include "core/sound_layout.hpp"
#include "core/test_support.hpp"
#include "ggml/op_list.h"

namespace heddle {
namespace {

/// Memory of the caller's, aligned as contexts ask for.
class CallersMemory {
public:
    explicit CallersMemory(std::size_t size) : memory_(aligned_allocate(size)) {}
    ~CallersMemory() { aligned_free(memory_); }
    CallersMemory(const CallersMemory&) = delete;
    CallersMemory& operator=(const CallersMemory&) = delete;
    std::byte* data() const { return static_cast<std::byte*>(memory_); }

private:
    void* memory_;
};

constexpr std::array<std::int64_t, 1> kFour{4};

TEST(ContextSize, TensorOverheadIsExactlyWhatATensorTakes) {
    EXPECT_EQ(kTensorOverhead, 368u);
    TestContext context(3 * kTensorOverhead);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(new_tensor(context, GGML_TYPE_F32, kFour)) << i;
    EXPECT_FALSE(new_tensor(context, GGML_TYPE_F32, kFour));
    EXPECT_EQ(used_bytes(context), 3 * kTensorOverhead);
}

TEST(ContextSize, TensorsAndGraphFitExactlyInTheSumOfTheirOverheads) {
    for (const std::size_t capacity : {1u, 5u, 100u, 2048u, 5000u}) {
        for (const bool gradients : {false, true}) {
            const std::size_t size = 8 * kTensorOverhead + graph_overhead(capacity, gradients);
            TestContext context(size);
            for (int i = 0; i < 8; ++i) ASSERT_TRUE(new_tensor(context, GGML_TYPE_F32, kFour));
            ASSERT_TRUE(new_graph(context, capacity, gradients)) << capacity;
            EXPECT_EQ(used_bytes(context), size);
            EXPECT_FALSE(new_object(context, GGML_OBJECT_TYPE_WORK_BUFFER, 0));
        }
    }
}

TEST(ContextSize, GraphsStayNearFortyBytesPerNode) {
    const std::size_t plain = graph_overhead(2048, false);
    EXPECT_LT(plain, std::size_t{2048} * 42);
    EXPECT_LT(graph_overhead(2048, true), 2 * plain);
}

TEST(ContextSize, RefusalSaysWhatWasNeededAndWhatThereWas) {
    TestContext context(kTensorOverhead);
    ASSERT_TRUE(new_tensor(context, GGML_TYPE_F32, kFour));
    const auto refused = new_tensor(context, GGML_TYPE_F32, kFour);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::out_of_memory);
    EXPECT_EQ(
        refused.error().message,
        "context: not enough space in the memory pool (needed 336 bytes and 32 for its header, "
        "available 0 of 368)");
    EXPECT_EQ(used_bytes(context), kTensorOverhead);
}

TEST(ContextSize, SizeZeroIsAnArenaWithoutRoom) {
    TestContext context(0);
    EXPECT_EQ(used_bytes(context), 0u);
    EXPECT_FALSE(new_tensor(context, GGML_TYPE_F32, kFour));
}

TEST(ContextSize, ImpossibleSizesAreRefused) {
    EXPECT_FALSE(make_context(SIZE_MAX, nullptr, true));
    EXPECT_FALSE(make_context(SIZE_MAX - 64, nullptr, true));
    TestContext context;
    EXPECT_FALSE(new_object(context, GGML_OBJECT_TYPE_WORK_BUFFER, SIZE_MAX));
    EXPECT_FALSE(new_object(context, GGML_OBJECT_TYPE_WORK_BUFFER, SIZE_MAX - 15));
    EXPECT_EQ(used_bytes(context), 0u);
}

TEST(ContextData, StandsRightBehindTheTensor) {
    TestContext context(1 << 16, false);
    Tensor* t = context.f32({5});
    EXPECT_EQ(t->data, static_cast<void*>(t + 1));
    EXPECT_EQ(used_bytes(context), kTensorOverhead + 32);  // 20 bytes, rounded up to 16
    EXPECT_EQ(context.f32({0})->data, nullptr);
}

TEST(ContextData, IsLeftOutOnRequest) {
    TestContext context;
    EXPECT_EQ(context.f32({5})->data, nullptr);
    static_cast<Context&>(context).no_alloc = false;
    EXPECT_NE(context.f32({5})->data, nullptr);
}

TEST(ContextTensors, StartZeroedAndDense) {
    CallersMemory memory(4096);
    std::fill_n(memory.data(), 4096, std::byte{0xAB});
    const OwnedContext context = *make_context(4096, memory.data(), true);
    const std::array<std::int64_t, 2> extents{3, 2};
    const Tensor* t = *new_tensor(*context, GGML_TYPE_F32, extents);
    EXPECT_EQ(extents_of(*t), (Extents{3, 2, 1, 1}));
    EXPECT_EQ(strides_of(*t), (Strides{4, 12, 24, 24}));
    EXPECT_EQ(t->op, GGML_OP_NONE);
    EXPECT_EQ(t->flags, 0);
    EXPECT_EQ(t->name[0], '\0');
    EXPECT_EQ(t->extra, nullptr);
    for (const auto* source : t->src) EXPECT_EQ(source, nullptr);
    for (const std::int32_t word : t->op_params) EXPECT_EQ(word, 0);
}

TEST(ContextTensors, HostileExtentsAreRefused) {
    TestContext context;
    const auto refusal = [&](Type type, std::vector<std::int64_t> extents) {
        const auto made = new_tensor(context, type, extents);
        return made ? std::string("made") : made.error().message;
    };
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(refusal(GGML_TYPE_F32, {}), "new tensor: 0 dimensions, not 1 to 4");
    EXPECT_EQ(refusal(GGML_TYPE_F32, {1, 1, 1, 1, 1}), "new tensor: 5 dimensions, not 1 to 4");
    EXPECT_EQ(refusal(GGML_TYPE_F32, {-1}), "new tensor: extent -1 in dimension 0");
    EXPECT_EQ(
        refusal(GGML_TYPE_F32, {huge, huge}),
        "new tensor: a tensor of extents [9223372036854775807,9223372036854775807,1,1] is too "
        "large to address");
    EXPECT_EQ(refusal(static_cast<Type>(99), {1}),
              "new tensor: type 99 (unknown type) cannot be used");
    EXPECT_EQ(used_bytes(context), 0u);
}

TEST(ContextTensors, AreListedInOrderOfCreationWithoutGraphs) {
    TestContext context;
    EXPECT_EQ(first_tensor(context), nullptr);
    Tensor* a = context.f32({1}, "a");
    ASSERT_TRUE(new_graph(context, 4, false));
    Tensor* b = context.f32({1}, "b");
    Tensor* again = context.f32({1}, "a");
    EXPECT_EQ(first_tensor(context), a);
    EXPECT_EQ(next_tensor(*a), b);
    EXPECT_EQ(next_tensor(*b), again);
    EXPECT_EQ(next_tensor(*again), nullptr);
    EXPECT_EQ(find_tensor(context, "a"), a);
    EXPECT_EQ(find_tensor(context, "c"), nullptr);
}

TEST(ContextMemory, OfTheCallerIsUsedAsItIs) {
    CallersMemory memory(1000);
    const OwnedContext context = *make_context(1000, memory.data(), true);
    EXPECT_EQ(context->memory, memory.data());
    EXPECT_EQ(context->size, 1000u);

    const auto refused = make_context(900, memory.data() + 8, true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::invalid_argument);
}

TEST(ContextMemory, KeepsTensorsAndGraphWhenTheContextIsGone) {
    const std::size_t size = 4 * kTensorOverhead + graph_overhead(8, false);
    CallersMemory memory(size);
    for (int round = 0; round < 3; ++round) {  // on the same bytes, without cleaning up
        OwnedContext context = *make_context(size, memory.data(), true);
        Tensor* x = *new_tensor(*context, GGML_TYPE_F32, kFour);
        Tensor* y = *new_tensor(*context, GGML_TYPE_F32, kFour);
        Graph* graph = *new_graph(*context, 8, false);
        context.reset();
        y->op = GGML_OP_SQR;
        y->src[0] = x;
        ASSERT_TRUE(expand(*graph, *y, true));
        EXPECT_EQ(graph->n_nodes, 1);
        EXPECT_EQ(name_of(*x), "leaf_0");
        EXPECT_EQ(use_count(*graph, *x), 1);
    }
}

TEST(ContextMemory, ResetForgetsObjectsAndKeepsTheMemory) {
    TestContext context(kTensorOverhead);
    Tensor* first = context.f32({1}, "first");
    reset(context);
    EXPECT_EQ(used_bytes(context), 0u);
    EXPECT_EQ(first_tensor(context), nullptr);
    EXPECT_EQ(context.f32({1}), first);
    EXPECT_EQ(name_of(*first), "");
}

TEST(ContextMemory, DestroyingNothingIsAllowed) { destroy_context(nullptr); }

TEST(Views, CollapseToTheRoot) {
    TestContext context(1 << 16, false);
    Tensor* root = context.f32({16}, "root");
    TensorSpec half = TensorSpec::dense(GGML_TYPE_F32, {8, 1, 1, 1});
    Tensor* view = *new_view(context, half, *root, 16);
    TensorSpec quarter = TensorSpec::dense(GGML_TYPE_F32, {4, 1, 1, 1});
    Tensor* inner = *new_view(context, quarter, *view, 8);
    EXPECT_EQ(view->view_src, root);
    EXPECT_EQ(inner->view_src, root);
    EXPECT_EQ(inner->view_offs, 24u);
    EXPECT_EQ(inner->data, static_cast<char*>(root->data) + 24);
}

TEST(Views, OfTensorsWithoutDataHaveNone) {
    TestContext context;
    Tensor* root = context.f32({16});
    const Tensor* view = *new_view(context, TensorSpec::view(*root, 0), *root, 0);
    EXPECT_EQ(view->data, nullptr);
    EXPECT_EQ(view->view_src, root);
}

TEST(Views, MustEndWithinTheRootPackedAndByTheirStrides) {
    TestContext context;
    Tensor* root = context.f32({16}, "root");
    TensorSpec spec = TensorSpec::dense(GGML_TYPE_F32, {8, 1, 1, 1});
    EXPECT_TRUE(new_view(context, spec, *root, 32));
    EXPECT_FALSE(new_view(context, spec, *root, 33));
    EXPECT_FALSE(new_view(context, spec, *root, SIZE_MAX));
    spec.extent = {0, 1, 1, 1};
    EXPECT_TRUE(new_view(context, spec, *root, 1000));  // nothing is nowhere
    spec.extent = {4, 4, 1, 1};
    spec.stride = {4, 16, 1000, 1000};  // those of extents of 1 lead nowhere
    EXPECT_TRUE(new_view(context, spec, *root, 0));
    spec.stride = {4, 20, 80, 80};
    EXPECT_EQ(new_view(context, spec, *root, 0).error().message,
              "a view of 76 bytes at offset 0 reaches past the 64 bytes of 'root' f32[16,1,1,1]");
    spec.stride = {4, 0, 0, 0};  // rows on top of each other: packed they would still have to fit
    EXPECT_TRUE(new_view(context, spec, *root, 0));
    EXPECT_FALSE(new_view(context, spec, *root, 4));
}

TEST(Views, StridesThatWrapAreRefused) {
    TestContext context;
    Tensor* root = context.f32({64}, "root");
    TensorSpec spec = TensorSpec::dense(GGML_TYPE_F32, {4, 3, 1, 1});
    spec.stride = {4, std::size_t{1} << 63, 0, 0};  // twice that is 0
    EXPECT_EQ(byte_size(spec), kUncountable);
    EXPECT_FALSE(new_view(context, spec, *root, 0));
}

TEST(Views, OffsetsOfViewsOfViewsMayNotWrap) {
    TestContext context;
    Tensor* root = context.f32({64}, "root");
    const TensorSpec spec = TensorSpec::dense(GGML_TYPE_F32, {4, 1, 1, 1});
    Tensor* view = *new_view(context, spec, *root, 64);
    set_name(*view, "view");
    EXPECT_EQ(new_view(context, spec, *view, std::size_t{0} - 64).error().message,
              "a view at offset 18446744073709551552 of 'view' f32[4,1,1,1], which is at 64 of "
              "'root' f32[64,1,1,1]");
}

TEST(Views, OfAWholeTensorAreNamedAfterIt) {
    TestContext context;
    Tensor* x = context.f32({2, 3}, "x");
    const Tensor* view = *view_tensor(context, *x);
    EXPECT_EQ(name_of(*view), "x (view)");
    EXPECT_TRUE(same_layout(*view, *x));
    EXPECT_EQ(view->op, GGML_OP_NONE);
    EXPECT_EQ(view->src[0], nullptr);
}

TEST(AlignedMemory, StartsAtACacheLine) {
    for (const std::size_t size : {0u, 1u, 63u, 64u, 1000u}) {
        void* memory = aligned_allocate(size);
        ASSERT_NE(memory, nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
        aligned_free(memory);
    }
    EXPECT_EQ(aligned_allocate(SIZE_MAX), nullptr);
}

}  // namespace
}  // namespace heddle
