#include "runtime/graph_copy.hpp"

#include <gtest/gtest.h>

#include "ggml.h"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "runtime/host_buffer.hpp"
#include "runtime/multi_buffer.hpp"
#include "runtime/placement.hpp"
#include "runtime/test_support.hpp"
#include "runtime/transfer.hpp"

namespace heddle {
namespace {

using test::FakeDevice;

/// c = a + b, and a view of c, placed in host memory.
class GraphCopyTest : public testing::Test {
protected:
    GraphCopyTest() {
        graph = *new_graph(*context, 8, false);
        EXPECT_TRUE(expand(*graph, *view, true));
        auto* base = static_cast<std::byte*>(*base_of(*memory));
        for (Tensor* tensor : {a, b, c}) {
            EXPECT_TRUE(place_tensor(*memory, *tensor, base));
            base += 64;
        }
        EXPECT_TRUE(place_view(*view));
        for (int i = 0; i < 4; ++i) {
            static_cast<float*>(a->data)[i] = static_cast<float>(i);
            static_cast<float*>(b->data)[i] = 10;
        }
    }

    FakeDevice fake;
    OwnedStream stream = fake.start();
    OwnedBuffer memory = *allocate(host_buffer_type(), 192);
    OwnedContext context = test::make_test_context();
    Tensor* a = test::new_floats(context, 4, "a");
    Tensor* b = test::new_floats(context, 4, "b");
    Tensor* c = ggml_add(context.get(), a, b);
    Tensor* view = ggml_view_1d(context.get(), c, 2, 8);
    Graph* graph = nullptr;
};

TEST_F(GraphCopyTest, HasTheSameNodesOnTheOtherDevice) {
    ggml_set_output(c);
    GraphCopy copy = *copy_graph_to(*stream, *graph);
    ASSERT_EQ(copy.graph->n_nodes, 2);
    EXPECT_EQ(copy.graph->n_leafs, 0);
    const Tensor& sum = *copy.graph->nodes[0];
    EXPECT_EQ(sum.op, GGML_OP_ADD);
    EXPECT_EQ(sum.flags, c->flags);
    EXPECT_NE(&sum, c);
    EXPECT_EQ(sum.buffer, copy.buffer.get());
    EXPECT_EQ(sum.buffer->buft, &fake.type);
    EXPECT_EQ(name_of(sum), name_of(*c));
    EXPECT_EQ(use_count(*copy.graph, sum), 0);
    const Tensor& part = *copy.graph->nodes[1];
    EXPECT_EQ(part.view_src, &sum);
    EXPECT_EQ(part.data, static_cast<std::byte*>(sum.data) + 8);
    EXPECT_EQ(part.buffer, copy.buffer.get());
    copy = {};
    EXPECT_EQ(fake.live_buffers, 0);
}

TEST_F(GraphCopyTest, HasTheSameData) {
    const GraphCopy copy = *copy_graph_to(*stream, *graph);
    ASSERT_TRUE(compute(*stream, *copy.graph));
    float values[4];
    ASSERT_TRUE(read_tensor(*copy.graph->nodes[0], values, 0, 16));
    EXPECT_EQ(values[3], 13);
}

TEST_F(GraphCopyTest, HasNodesThatAreTheirOwnOperand) {
    const OwnedContext host = test::make_test_context(false);
    Tensor* half = ggml_cast(host.get(), test::new_floats(host, 4, "x"), GGML_TYPE_F16);
    ASSERT_EQ(half->src[1], half);
    Graph* cast = *new_graph(*host, 8, false);
    ASSERT_TRUE(expand(*cast, *half, true));
    const GraphCopy copy = *copy_graph_to(*stream, *cast);
    ASSERT_EQ(copy.graph->n_nodes, 1);
    EXPECT_EQ(copy.graph->nodes[0]->src[1], copy.graph->nodes[0]);
}

TEST_F(GraphCopyTest, IsSpreadOverBuffersThatAreNotTooLarge) {
    fake.max_size = 64;
    GraphCopy copy = *copy_graph_to(*stream, *graph);
    EXPECT_TRUE(is_multi_buffer(*copy.buffer));
    EXPECT_EQ(fake.live_buffers, 3);
    EXPECT_EQ(copy.graph->nodes[1]->buffer, copy.graph->nodes[0]->buffer);
    copy = {};
    EXPECT_EQ(fake.live_buffers, 0);
}

TEST_F(GraphCopyTest, TakesSlicesAndRepeatedNodes) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(append_node(*graph, *c));
    const GraphCopy copy = *copy_graph_to(*stream, slice(*graph, 1, 5));
    EXPECT_EQ(copy.graph->n_nodes, 4);
    EXPECT_EQ(copy.graph->nodes[1], copy.graph->nodes[3]);
}

TEST_F(GraphCopyTest, TakesTensorsThatLiveInAContext) {
    const auto own = test::make_test_context(false);
    Tensor* x = test::new_floats(own, 4, "x");
    static_cast<float*>(x->data)[2] = 5;
    Graph* other = *new_graph(*own, 8, false);
    ASSERT_TRUE(append_node(*other, *x));
    const GraphCopy copy = *copy_graph_to(*stream, *other);
    float values[4];
    ASSERT_TRUE(read_tensor(*copy.graph->nodes[0], values, 0, 16));
    EXPECT_EQ(values[2], 5);
}

TEST_F(GraphCopyTest, NeedsDataForAllButEmptyTensors) {
    Tensor* empty = test::new_floats(context, 0, "empty");
    ASSERT_TRUE(append_node(*graph, *empty));
    EXPECT_TRUE(copy_graph_to(*stream, *graph));
    ASSERT_TRUE(append_node(*graph, *test::new_floats(context, 4, "loose")));
    EXPECT_EQ(copy_graph_to(*stream, *graph).error().message,
              "graph copy: 'loose' f32[4,1,1,1] has no data");
}

TEST_F(GraphCopyTest, LeavesNothingBehindWhenItFails) {
    fake.max_size = 64;
    fake.allocations_left = 2;
    EXPECT_EQ(copy_graph_to(*stream, *graph).error().code, Errc::out_of_memory);
    EXPECT_EQ(fake.live_buffers, 0);
    fake.allocations_left = 100;
    fake.init_status = GGML_STATUS_FAILED;
    EXPECT_FALSE(copy_graph_to(*stream, *graph));
    EXPECT_EQ(fake.live_buffers, 0);
    fake.init_status = GGML_STATUS_SUCCESS;
    fake.buffer_table.set_tensor = nullptr;
    EXPECT_FALSE(copy_graph_to(*stream, *graph));
    EXPECT_EQ(fake.live_buffers, 0);
}

TEST_F(GraphCopyTest, IsNotLimitedByTheCallStack) {
    constexpr int depth = 100'000;
    const OwnedContext deep =
        *make_context(depth * (kTensorOverhead + 64) + (16 << 20), nullptr, true);
    Tensor* x = a;
    for (int i = 0; i < depth; ++i) {
        x = ggml_add(deep.get(), x, x);
        x->data = a->data;  // all in one place: only the copies matter
        x->buffer = a->buffer;
    }
    Graph* chain = *new_graph(*deep, depth, false);
    ASSERT_TRUE(expand(*chain, *x, true));
    const GraphCopy copy = *copy_graph_to(*stream, *chain);
    EXPECT_EQ(copy.graph->n_nodes, depth);
}

}  // namespace
}  // namespace heddle
