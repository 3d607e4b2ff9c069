#include "runtime/alloc/graph_allocator.hpp"

#include <gtest/gtest.h>

#include "ggml-impl.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "runtime/alloc/test_support.hpp"
#include "runtime/test_support.hpp"

namespace heddle {
namespace {

using test::FakeDevice;
using test::SampleGraph;

/// Memory of a device with the given limits, and a graph to be placed there.
struct Case {
    explicit Case(std::size_t max_size = SIZE_MAX, std::size_t alignment = 4) : sample(256) {
        device.max_size = max_size;
        device.alignment = alignment;
        BufferType* const types[] = {&device.type};
        allocator = *GraphAllocator::make(types);
    }

    ggml_context* context() { return sample.context(); }
    Tensor* floats(std::int64_t n) { return sample.input(GGML_TYPE_F32, n); }
    Tensor* pad(Tensor* x, int by) { return ggml_pad(context(), x, by, 0, 0, 0); }
    Graph& expand(Tensor* result) {
        ggml_set_output(result);
        ggml_build_forward_expand(&sample.graph(), result);
        return sample.graph();
    }

    /// Places everything and gives the bytes of all buffers.
    std::size_t total(Tensor* result) {
        const auto done = allocator->allocate(expand(result));
        EXPECT_TRUE(done) << done.error().message;
        expect_sound(sample.graph());
        return *allocator->buffer_size(0);
    }

    static void expect_sound(const Graph& graph);

    FakeDevice device;
    SampleGraph sample;
    std::unique_ptr<GraphAllocator> allocator;
};

bool overlap(const Tensor& a, const Tensor& b) {
    const auto from = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
    if (a.buffer != b.buffer) return false;  // devices may use the same addresses
    return from(a) < from(b) + byte_size(b) && from(b) < from(a) + byte_size(a);
}

const Tensor* root_of(const Tensor* tensor) {
    return tensor->view_src != nullptr ? tensor->view_src : tensor;
}

/// The definition: every tensor is in its buffer, and nothing that is still needed is overwritten.
void Case::expect_sound(const Graph& graph) {
    const auto nodes = nodes_of(graph);
    const auto last_read = [&](const Tensor* tensor) {
        std::size_t last = 0;
        bool read = false;
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            for (const Tensor* source : nodes[i]->src) {
                if (source == nullptr || root_of(source) != tensor) continue;
                last = i;
                read = true;
            }
        }
        const bool kept = (tensor->flags & GGML_TENSOR_FLAG_OUTPUT) != 0 || !read;
        return kept ? nodes.size() : last;
    };
    std::vector<const Tensor*> earlier(leafs_of(graph).begin(), leafs_of(graph).end());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const Tensor* node = nodes[i];
        ASSERT_NE(node->data, nullptr) << describe(*node);
        ASSERT_NE(node->buffer, nullptr) << describe(*node);
        if (node->view_src != nullptr) continue;
        for (const Tensor* other : earlier) {
            const std::size_t last = last_read(other);
            if (last < i || !overlap(*node, *other)) continue;
            // Its last reader may write over it, if that reader is allowed to work in place.
            EXPECT_TRUE(last == i && ggml_op_can_inplace(node->op) && node->data == other->data)
                << describe(*node) << " is placed over " << describe(*other);
        }
        earlier.push_back(node);
    }
}

// ---- how much memory graphs take ---------------------------------------------------------------

TEST(GraphAllocator, ChainsOfSmallTensorsSpreadOverChunks) {
    Case c(16, 8);
    Tensor* x = ggml_mul(c.context(), c.floats(2), c.floats(2));
    Tensor* last = c.floats(2);
    for (int i = 0; i < 4; ++i) x = ggml_add(c.context(), x, last);
    EXPECT_LE(c.total(x), 32u);
}

TEST(GraphAllocator, ResultsLargerThanWhatIsLeftOfAChunkGetAnother) {
    Case c(32);
    EXPECT_LE(c.total(ggml_concat(c.context(), c.floats(4), c.floats(2), 0)), 32u + 24u);
}

TEST(GraphAllocator, TensorsAboveTheLargestBufferAreTriedAllTheSame) {
    Case c(16);
    EXPECT_EQ(c.total(ggml_scale(c.context(), c.floats(6), 2)), 24u);
}

TEST(GraphAllocator, ThereMayBeMoreThanSixteenChunks) {
    Case c(8, 8);
    Tensor* sum = c.floats(2);
    std::vector<Tensor*> inputs;
    for (int i = 0; i < 16; ++i) inputs.push_back(c.floats(2));
    for (Tensor* input : inputs) sum = ggml_add(c.context(), sum, input);
    EXPECT_EQ(c.total(sum), 17u * 8u);
    EXPECT_EQ(c.device.live_buffers, 17);
}

TEST(GraphAllocator, InputsAreRecycledAfterTheirLastUse) {
    Case c(16);
    EXPECT_LE(c.total(ggml_mean(c.context(), c.pad(c.floats(2), 2))), 28u);
}

TEST(GraphAllocator, ViewsTakeNothing) {
    Case c(32);
    Tensor* x = ggml_reshape_2d(c.context(), c.floats(4), 2, 2);
    x = ggml_permute(c.context(), x, 1, 0, 2, 3);
    x = ggml_view_1d(c.context(), x, 2, 4);
    EXPECT_LE(c.total(ggml_add(c.context(), x, c.floats(2))), 24u);
}

TEST(GraphAllocator, AMixOfReuseAndViewsStaysInItsChunks) {
    Case c(40);
    Tensor* x = c.pad(ggml_scale(c.context(), c.floats(6), 2), 2);
    x = ggml_scale(c.context(), c.pad(x, 2), 2);
    x = ggml_scale(c.context(), ggml_view_1d(c.context(), x, 4, 0), 2);
    EXPECT_LE(c.total(c.pad(x, 4)), 104u);
}

TEST(GraphAllocator, FreedNeighboursBecomeOneHole) {
    for (const std::size_t max_size : {std::size_t{32}, SIZE_MAX}) {
        Case c(max_size);
        Tensor *a = c.floats(4), *b = c.floats(4), *d = c.floats(4);
        Tensor* sum = ggml_add(c.context(), ggml_mean(c.context(), a), ggml_mean(c.context(), b));
        sum = ggml_add(c.context(), sum, ggml_mean(c.context(), d));
        EXPECT_LE(c.total(c.pad(c.pad(sum, 5), 2)), 88u);
    }
}

TEST(GraphAllocator, SmallResultsGoIntoHolesBeforeTheEnd) {
    Case c(32);
    EXPECT_LE(c.total(ggml_mean(c.context(), ggml_mean(c.context(), c.floats(6)))), 28u);
}

TEST(GraphAllocator, BuffersAreReplacedWhenAChunkIsTooSmall) {
    Case first(32);
    first.expand(ggml_scale(first.context(), first.floats(6), 2));
    EXPECT_EQ(first.total(ggml_scale(first.context(), first.floats(4), 2)), 40u);
    SampleGraph second(16);
    for (int i = 0; i < 2; ++i) {
        Tensor* x = ggml_scale(second.context(), second.input(GGML_TYPE_F32, 5), 2);
        ggml_build_forward_expand(&second.graph(), x);
    }
    ASSERT_TRUE(first.allocator->allocate(second.graph()));
    EXPECT_EQ(*first.allocator->buffer_size(0), 40u);
    EXPECT_EQ(first.device.live_buffers, 2);
}

// ---- in place ----------------------------------------------------------------------------------

TEST(GraphAllocator, ResultsTakeTheMemoryOfSourcesSeenThroughAView) {
    Case c;
    Tensor* y = c.pad(c.floats(2), 2);
    Tensor* z = ggml_scale(c.context(), ggml_reshape_2d(c.context(), y, 2, 2), 2);
    c.total(z);
    EXPECT_EQ(z->data, y->data);
}

TEST(GraphAllocator, OutputsAndWhatIsReadAgainAreNotWrittenOver) {
    Case c;
    Tensor* y = c.pad(c.floats(2), 2);
    ggml_set_output(ggml_reshape_2d(c.context(), y, 2, 2));
    Tensor* view = ggml_reshape_2d(c.context(), y, 2, 2);
    ggml_set_output(view);
    Tensor* z = ggml_scale(c.context(), view, 2);
    Tensor* again = ggml_add(c.context(), ggml_scale(c.context(), z, 2), z);
    c.total(again);
    EXPECT_FALSE(overlap(*z, *y));
}

TEST(GraphAllocator, InPlaceStaysInTheArenaThatWasAskedFor) {
    FakeDevice first, second;
    BufferType* const types[] = {&first.type, &second.type, &first.type};
    auto allocator = *GraphAllocator::make(types);
    SampleGraph sample(16);
    Tensor* x = sample.input(GGML_TYPE_F32, 64);
    Tensor* y = ggml_scale(sample.context(), x, 2);
    Tensor* z = ggml_scale(sample.context(), y, 2);
    ggml_build_forward_expand(&sample.graph(), z);
    const int node_ids[] = {1, 2}, leaf_ids[] = {0};
    const auto sizes = *allocator->measure(sample.graph(), node_ids, leaf_ids);
    EXPECT_EQ(sizes, (std::vector<std::size_t>{256, 256, 0}));
    EXPECT_EQ(first.live_buffers, 0);
    ASSERT_TRUE(allocator->reserve(sample.graph(), node_ids, leaf_ids));
    ASSERT_TRUE(allocator->allocate(sample.graph()));
    EXPECT_EQ(y->buffer->buft, &second.type);
    EXPECT_EQ(z->buffer->buft, &first.type);
    EXPECT_EQ(y->buffer->usage, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    EXPECT_EQ(*allocator->buffer_size(2), 0u);
}

TEST(GraphAllocator, TwoTypesWithForeignTensorsOnBothStaySmall) {
    FakeDevice limited, unlimited;
    limited.alignment = unlimited.alignment = 4;
    limited.max_size = 32;
    BufferType* const types[] = {&limited.type, &unlimited.type};
    auto allocator = *GraphAllocator::make(types);
    SampleGraph sample(16);
    ggml_context* context = sample.context();
    const OwnedBuffer buffers[] = {limited.allocate(64), unlimited.allocate(64)};
    Tensor* foreign[2];
    for (int i = 0; i < 2; ++i) {
        foreign[i] = ggml_new_tensor_1d(context, GGML_TYPE_F32, 4);
        foreign[i]->buffer = buffers[i].get();
        foreign[i]->data = *base_of(*buffers[i]);
    }
    Tensor* x = ggml_add(context, foreign[0], sample.input(GGML_TYPE_F32, 4));
    x = ggml_pad(context, x, 2, 0, 0, 0);
    x = ggml_add(context, ggml_mean(context, x), ggml_mean(context, foreign[1]));
    ggml_build_forward_expand(&sample.graph(), ggml_pad(context, x, 3, 0, 0, 0));
    std::vector<int> node_ids, leaf_ids(leafs_of(sample.graph()).size(), 0);
    for (int i = 0; i < ggml_graph_n_nodes(&sample.graph()); ++i) node_ids.push_back(i % 2);
    ASSERT_TRUE(allocator->reserve(sample.graph(), node_ids.data(), leaf_ids.data()));
    ASSERT_TRUE(allocator->allocate(sample.graph()));
    Case::expect_sound(sample.graph());
    EXPECT_LE(*allocator->buffer_size(0), 88u);
    EXPECT_LE(*allocator->buffer_size(1), 56u);
    EXPECT_EQ(foreign[0]->buffer, buffers[0].get());
}

TEST(GraphAllocator, ArenasWithoutTensorsHaveNoBuffer) {
    FakeDevice first, second;
    first.alignment = second.alignment = 4;
    BufferType* const types[] = {&first.type, &second.type};
    auto allocator = *GraphAllocator::make(types);
    SampleGraph sample(16);
    Tensor* y = ggml_scale(sample.context(), sample.input(GGML_TYPE_F32, 4), 2);
    ggml_build_forward_expand(&sample.graph(), y);
    ASSERT_TRUE(allocator->reserve(sample.graph(), nullptr, nullptr));
    EXPECT_EQ(*allocator->buffer_size(0), 16u);
    EXPECT_EQ(*allocator->buffer_size(1), 0u);
    EXPECT_FALSE(allocator->buffer_size(2));
    const int node_ids[] = {7};
    EXPECT_NE(allocator->reserve(sample.graph(), node_ids, nullptr)
                  .error()
                  .message.find("buffer id 7 is not one of 2"),
              std::string::npos);
}

// ---- plans and other graphs --------------------------------------------------------------------

/// Three pads of an input; the last one adds the result of pad number `reads` again.
void build_wired(SampleGraph& sample, int reads, std::int64_t n = 4) {
    Tensor* x = sample.input(GGML_TYPE_F32, n);
    Tensor* steps[3];
    for (Tensor*& step : steps) x = step = ggml_sin(sample.context(), x);
    ggml_build_forward_expand(&sample.graph(), ggml_concat(sample.context(), x, steps[reads], 0));
}

TEST(GraphAllocator, ARewiredGraphIsPlannedAnew) {
    FakeDevice device;
    BufferType* const types[] = {&device.type, &device.type};
    auto allocator = *GraphAllocator::make(types);
    SampleGraph planned(16), same(16), smaller(16), rewired(16);
    build_wired(planned, 1);
    build_wired(same, 1);
    build_wired(smaller, 1, 2);
    build_wired(rewired, 0);
    ASSERT_TRUE(allocator->reserve(planned.graph(), nullptr, nullptr));
    EXPECT_TRUE(*allocator->fits(same.graph()));
    EXPECT_TRUE(*allocator->fits(smaller.graph()));
    EXPECT_FALSE(*allocator->fits(rewired.graph()));
    EXPECT_FALSE(allocator->allocate(rewired.graph()));
    EXPECT_EQ(nodes_of(rewired.graph())[0]->data, nullptr);
    ASSERT_TRUE(allocator->allocate(same.graph()));
    Case::expect_sound(same.graph());
    // What is placed needs nothing more.
    EXPECT_TRUE(allocator->allocate(same.graph()));
}

TEST(GraphAllocator, NewFlagsNeedANewPlan) {
    Case c;
    SampleGraph plain(16), kept(16);
    build_wired(plain, 2);
    build_wired(kept, 2);
    ggml_set_output(nodes_of(kept.graph())[0]);
    ASSERT_TRUE(c.allocator->reserve(plain.graph(), nullptr, nullptr));
    EXPECT_FALSE(*c.allocator->fits(kept.graph()));
    ASSERT_TRUE(c.allocator->allocate(kept.graph()));
    Case::expect_sound(kept.graph());
}

TEST(GraphAllocator, AReservedGraphIsPlacedWithoutLookingAgain) {
    FakeDevice first, second;
    BufferType* const types[] = {&first.type, &second.type, &first.type};
    auto allocator = *GraphAllocator::make(types);
    SampleGraph sample(16), other(16);
    build_wired(sample, 1);
    build_wired(other, 1);
    EXPECT_FALSE(allocator->place_reserved(sample.graph()));
    EXPECT_TRUE(allocator->chunks(0).empty());
    const int node_ids[] = {0, 1, 2, 1}, leaf_ids[] = {1};
    ASSERT_TRUE(allocator->reserve(sample.graph(), node_ids, leaf_ids));
    EXPECT_FALSE(allocator->place_reserved(other.graph()));
    ASSERT_TRUE(allocator->place_reserved(sample.graph()));
    Case::expect_sound(sample.graph());
    for (const alloc::Tenant& tenant : allocator->lifetimes().tenants) {
        const auto block = static_cast<std::size_t>(tenant.block);
        const alloc::Place place = allocator->plan().places[block];
        const auto chunks = allocator->chunks(allocator->lifetimes().blocks[block].arena);
        ASSERT_LT(place.chunk, chunks.size());
        EXPECT_EQ(tenant.tensor->buffer, chunks[place.chunk].get());
    }
    EXPECT_EQ(allocator->chunks(2).data(), allocator->chunks(0).data());
    EXPECT_TRUE(allocator->chunks(3).empty());
    EXPECT_TRUE(allocator->chunks(-1).empty());
}

TEST(GraphAllocator, WhatWasPlacedOrLookedAtSinceItsReservationIsNotPlacedBlindly) {
    Case c;
    SampleGraph sample(16), other(16);
    build_wired(sample, 1);
    build_wired(other, 1);
    ASSERT_TRUE(c.allocator->reserve(sample.graph(), nullptr, nullptr));
    ASSERT_TRUE(c.allocator->place_reserved(sample.graph()));
    const Tensor& node = *nodes_of(sample.graph())[0];
    const void* const place = node.data;
    const auto again = c.allocator->place_reserved(sample.graph());
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().message.find("it got memory after it was planned"), std::string::npos);
    EXPECT_EQ(node.data, place);
    ASSERT_TRUE(c.allocator->reserve(other.graph(), nullptr, nullptr));
    ASSERT_TRUE(c.allocator->fits(other.graph()));
    EXPECT_EQ(c.allocator->place_reserved(other.graph()).error().message,
              "placing a graph of 4 nodes and 1 leafs: it is not the one reserved last");
}

// ---- failures ----------------------------------------------------------------------------------

TEST(GraphAllocator, WithoutMemoryTheOldPlanStaysAndTheNextReservationWorks) {
    Case c;
    SampleGraph small(16), large(16);
    build_wired(small, 1);
    build_wired(large, 1, 4000);
    ASSERT_TRUE(c.allocator->reserve(small.graph(), nullptr, nullptr));
    c.device.allocations_left = 0;
    const auto failed = c.allocator->allocate(large.graph());
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Errc::out_of_memory);
    EXPECT_EQ(nodes_of(large.graph())[0]->data, nullptr);
    c.device.allocations_left = 10;
    EXPECT_TRUE(c.allocator->allocate(large.graph()));
    EXPECT_TRUE(c.allocator->allocate(small.graph()));
}

TEST(GraphAllocator, OldBuffersAreGivenUpIfThereIsNoMemoryForBoth) {
    Case c;
    SampleGraph small(16), large(16);
    build_wired(small, 1);
    build_wired(large, 1, 4000);
    ASSERT_TRUE(c.allocator->reserve(small.graph(), nullptr, nullptr));
    static const auto original = c.device.type.iface.alloc_buffer;
    c.device.type.iface.alloc_buffer = [](BufferType* type, std::size_t size) -> Buffer* {
        const auto& device = *static_cast<FakeDevice*>(type->context);
        return device.live_buffers > 0 ? nullptr : original(type, size);
    };
    EXPECT_TRUE(c.allocator->allocate(large.graph()));
    EXPECT_EQ(c.device.live_buffers, 1);
}

TEST(GraphAllocator, TensorsTheBackendRefusesAreAsTheyWere) {
    Case c;
    SampleGraph graph(16);
    build_wired(graph, 1);
    c.device.init_status = GGML_STATUS_FAILED;
    EXPECT_FALSE(c.allocator->allocate(graph.graph()));
    for (const Tensor* node : nodes_of(graph.graph())) EXPECT_EQ(node->buffer, nullptr);
    c.device.init_status = GGML_STATUS_SUCCESS;
    EXPECT_TRUE(c.allocator->allocate(graph.graph()));
}

TEST(GraphAllocator, TensorsOfNoBytesHaveAnAddress) {
    Case c;
    Tensor* y = ggml_scale(c.context(), c.floats(0), 2);
    ASSERT_TRUE(c.allocator->allocate(c.expand(y)));
    EXPECT_NE(y->data, nullptr);
}

TEST(GraphAllocator, RandomGraphsAreSoundWithAndWithoutChunks) {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        Case c(seed % 2 == 0 ? SIZE_MAX : 40'000, 32);
        SampleGraph sample(256);
        test::build_random(sample, 150, seed);
        const auto done = c.allocator->allocate(sample.graph());
        ASSERT_TRUE(done) << done.error().message;
        Case::expect_sound(sample.graph());
    }
}

}  // namespace
}  // namespace heddle
