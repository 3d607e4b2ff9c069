#include "runtime/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ggml.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "runtime/placement.hpp"
#include "runtime/test_support.hpp"
#include "runtime/transfer.hpp"

namespace heddle {
namespace {

using test::FakeDevice;

/// b = a + a, c = b + a with a view between, placed on the first of two devices.
class CompareStreams : public testing::Test {
protected:
    CompareStreams() {
        graph = *new_graph(*context, 8, false);
        EXPECT_TRUE(expand(*graph, *b, true));
        EXPECT_TRUE(expand(*graph, *view, true));
        EXPECT_TRUE(expand(*graph, *c, true));
        auto* base = static_cast<std::byte*>(*base_of(*memory));
        for (Tensor* tensor : {a, b, c}) {
            EXPECT_TRUE(place_tensor(*memory, *tensor, base));
            base += 64;
        }
        EXPECT_TRUE(place_view(*view));
        const float values[4] = {1, 2, 3, 4};
        EXPECT_TRUE(write_tensor(*a, values, 0, 16));
    }

    std::vector<int> seen;
    bool look(const NodePair& pair) {
        seen.push_back(pair.index);
        return true;
    }

    FakeDevice one, two;
    OwnedStream first = one.start(), second = two.start();
    OwnedBuffer memory = one.allocate(192);
    OwnedContext context = test::make_test_context();
    Tensor* a = test::new_floats(context, 4, "a");
    Tensor* b = ggml_add(context.get(), a, a);
    Tensor* view = ggml_reshape_2d(context.get(), b, 2, 2);
    Tensor* c = ggml_add(context.get(), b, a);
    Graph* graph = nullptr;
};

TEST_F(CompareStreams, ShowsEveryNodeButThoseThatOnlyDescribeData) {
    ASSERT_TRUE(compare_streams(*first, *second, *graph, {}, [&](const NodePair& pair) {
        EXPECT_EQ(pair.first, graph->nodes[pair.index]);
        EXPECT_EQ(pair.second->buffer->buft, &two.type);
        return look(pair);
    }));
    EXPECT_EQ(seen, (std::vector<int>{0, 2}));
    EXPECT_EQ(one.count("graph_compute"), 3u);
    EXPECT_EQ(two.count("graph_compute"), 3u);
    EXPECT_EQ(two.live_buffers, 0);
}

TEST_F(CompareStreams, StopsWhenAsked) {
    ASSERT_TRUE(compare_streams(*first, *second, *graph, {}, [&](const NodePair& pair) {
        look(pair);
        return false;
    }));
    EXPECT_EQ(seen, std::vector<int>{0});
    EXPECT_EQ(one.count("graph_compute"), 1u);
}

TEST_F(CompareStreams, ComputesTheGraphWholeForWatchedNodes) {
    const Tensor* watched[] = {c, b};
    ASSERT_TRUE(compare_streams(*first, *second, *graph, watched, [&](const NodePair& pair) {
        look(pair);
        return false;  // all are shown nevertheless
    }));
    EXPECT_EQ(seen, (std::vector<int>{0, 2}));
    EXPECT_EQ(one.count("graph_compute"), 1u);
    EXPECT_EQ(two.count("graph_compute"), 1u);
}

TEST_F(CompareStreams, RefusesWatchedNodesThatAreNotInTheGraph) {
    const Tensor* watched[] = {a};
    const auto compared = compare_streams(*first, *second, *graph, watched,
                                          [&](const NodePair& pair) { return look(pair); });
    EXPECT_EQ(compared.error().message,
              "graph comparison: none of the 1 nodes to look at is among the 3 nodes of the graph");
    EXPECT_EQ(one.count("graph_compute"), 0u);
    EXPECT_EQ(two.live_buffers, 0);
}

TEST_F(CompareStreams, EndsWithTheStatusOfAStreamThatFails) {
    two.compute_status = GGML_STATUS_ABORTED;
    const auto compared = compare_streams(*first, *second, *graph, {},
                                          [&](const NodePair& pair) { return look(pair); });
    EXPECT_EQ(compared.error().message,
              "node 0 'node_0' f32[4,1,1,1]: computing 1 nodes on stream 'FAKE0' (ADD 'node_0'): "
              "the backend answered ABORTED (1)");
    EXPECT_EQ(compared.error().code, Errc::aborted);
    EXPECT_TRUE(seen.empty());
    EXPECT_EQ(two.live_buffers, 0);
}

TEST_F(CompareStreams, FailsIfTheGraphCannotBeCopied) {
    two.allocations_left = 0;
    EXPECT_FALSE(compare_streams(*first, *second, *graph, {},
                                 [&](const NodePair& pair) { return look(pair); }));
    EXPECT_TRUE(seen.empty());
}

TEST_F(CompareStreams, MeasuresHowFarResultsAreApart) {
    two.bias = 0.5f;
    std::vector<NodeDifference> differences;
    ASSERT_TRUE(measure_streams(*first, *second, *graph, {}, [&](const NodeDifference& found) {
        differences.push_back(found);
        return true;
    }));
    ASSERT_EQ(differences.size(), 2u);
    EXPECT_EQ(differences[0].max_abs, 0.5);
    EXPECT_EQ(differences[1].max_abs, 1.0) << "each stream goes on from its own results";
    EXPECT_DOUBLE_EQ(differences[0].nmse, 4 * 0.25 / (4 + 16 + 36 + 64));
    EXPECT_DOUBLE_EQ(differences[0].max_rel, 0.5 / 2.5);
    EXPECT_FALSE(differences[0].identical);
    two.bias = 0;
    ASSERT_TRUE(measure_streams(*first, *second, *graph, {}, [&](const NodeDifference& found) {
        EXPECT_TRUE(found.identical);
        EXPECT_EQ(found.nmse, 0);
        return true;
    }));
}

// ---- two tensors -------------------------------------------------------------------------------

class Measure : public testing::Test {
protected:
    OwnedContext context = test::make_test_context(false);

    Tensor* floats(std::vector<float> values) {
        Tensor* tensor = test::new_floats(context, static_cast<std::int64_t>(values.size()), "x");
        std::copy(values.begin(), values.end(), static_cast<float*>(tensor->data));
        return tensor;
    }
};

TEST_F(Measure, CountsWhatIsNoNumberApart) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = INFINITY;
    const auto found =
        *measure({0, floats({nan, nan, inf, inf, 1, 2}), floats({nan, 1, inf, -inf, 1, 2.5f})});
    EXPECT_EQ(found.mismatches, 2);
    EXPECT_EQ(found.worst, 5);
    EXPECT_EQ(found.max_abs, 0.5);
}

TEST_F(Measure, AgainstZerosTellsTheDifferenceItself) {
    EXPECT_EQ(measure({0, floats({0, 0}), floats({0, 2})})->nmse, 4);
}

TEST_F(Measure, ReadsEveryTypeAndLayout) {
    Tensor* matrix = *new_tensor(*context, GGML_TYPE_I32, {{2, 3}});
    for (int i = 0; i < 6; ++i) static_cast<std::int32_t*>(matrix->data)[i] = i;
    Tensor* turned = ggml_transpose(context.get(), matrix);
    Tensor* dense = *new_tensor(*context, GGML_TYPE_I32, {{3, 2}});
    const std::int32_t expected[6] = {0, 2, 4, 1, 3, 9};
    std::copy_n(expected, 6, static_cast<std::int32_t*>(dense->data));
    const auto found = *measure({0, turned, dense});
    EXPECT_EQ(found.max_abs, 4);
    EXPECT_EQ(found.worst, 5);

    Tensor* blocks[2];
    for (Tensor*& tensor : blocks) {
        tensor = *new_tensor(*context, GGML_TYPE_Q8_0, {{64, 2}});
        std::memset(tensor->data, 0x11, byte_size(*tensor));
    }
    EXPECT_TRUE(measure({0, blocks[0], blocks[1]})->identical);
    static_cast<std::int8_t*>(blocks[1]->data)[2 + 34] += 100;
    EXPECT_EQ(measure({0, blocks[0], blocks[1]})->worst, 32);
}

TEST_F(Measure, RefusesTensorsThatDiffer) {
    EXPECT_EQ(
        measure({0, floats({1}), floats({1, 2})}).error().message,
        "comparing 'x' f32[1,1,1,1] with 'x' f32[2,1,1,1]: type and extents must be the same");
}

}  // namespace
}  // namespace heddle
