#include "runtime/alloc/lifetimes.hpp"

#include <gtest/gtest.h>

#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "runtime/alloc/test_support.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/test_support.hpp"

namespace heddle::alloc {
namespace {

using test::SampleGraph;

/// Lifetimes in one arena with an alignment of 4, as text.
std::string found(SampleGraph& sample) {
    test::FakeDevice device;
    BufferType* const types[] = {&device.type};
    const std::size_t alignments[] = {4};
    LifetimeFinder finder;
    const Assignment all{.arenas = types, .alignments = alignments, .nodes = {}, .leafs = {}};
    return to_text(**finder.find(sample.graph(), all));
}

Tensor* named(Tensor* tensor, const char* name) { return ggml_set_name(tensor, name); }

TEST(Lifetimes, InputsLiveFromTheStartAndResultsToTheEnd) {
    SampleGraph s(8);
    Tensor* x = named(s.input(GGML_TYPE_F32, 2), "x");
    Tensor* y = named(ggml_sin(s.context(), x), "y");
    ggml_build_forward_expand(&s.graph(), named(ggml_sin(s.context(), y), "z"));
    EXPECT_EQ(found(s),
              "block 0: 8 bytes in arena 0, 0 to 1: x\n"
              "block 1: 8 bytes in arena 0, 1 to 2: y\n"
              "block 2: 8 bytes in arena 0, 2 to 3: z\n");
}

TEST(Lifetimes, OpsThatMayWorkInPlaceContinueTheBlockOfTheirSource) {
    SampleGraph s(8);
    Tensor* x = named(s.input(GGML_TYPE_F32, 2), "x");
    Tensor* y = named(ggml_scale(s.context(), x, 2), "y");
    ggml_build_forward_expand(&s.graph(), named(ggml_silu(s.context(), y), "z"));
    EXPECT_EQ(found(s), "block 0: 8 bytes in arena 0, 0 to 3: x, y, z\n");
}

TEST(Lifetimes, ASourceThatIsReadTwiceByOneNodeIsNotTakenOver) {
    SampleGraph s(8);
    Tensor* x = named(s.input(GGML_TYPE_F32, 2), "x");
    ggml_build_forward_expand(&s.graph(), named(ggml_mul(s.context(), x, x), "y"));
    EXPECT_EQ(found(s),
              "block 0: 8 bytes in arena 0, 0 to 1: x\n"
              "block 1: 8 bytes in arena 0, 1 to 2: y\n");
}

TEST(Lifetimes, ReadersOfViewsKeepTheRootAlive) {
    SampleGraph s(8);
    Tensor* x = named(s.input(GGML_TYPE_F32, 4), "x");
    Tensor* part = ggml_view_1d(s.context(), x, 2, 4);
    Tensor* y = named(ggml_sin(s.context(), x), "y");
    ggml_build_forward_expand(&s.graph(), y);
    ggml_build_forward_expand(&s.graph(), named(ggml_sin(s.context(), part), "z"));
    EXPECT_EQ(found(s),
              "block 0: 16 bytes in arena 0, 0 to 3: x\n"
              "block 1: 16 bytes in arena 0, 1 to 4: y\n"
              "block 2: 8 bytes in arena 0, 3 to 4: z\n");
}

TEST(Lifetimes, ViewsNoNodeReadsKeepTheirRootToTheEnd) {
    SampleGraph s(8);
    Tensor* x = named(s.input(GGML_TYPE_F32, 4), "x");
    Tensor* y = named(ggml_sin(s.context(), x), "y");
    ggml_build_forward_expand(&s.graph(), ggml_view_1d(s.context(), y, 2, 0));
    ggml_build_forward_expand(&s.graph(), named(ggml_scale(s.context(), y, 2), "z"));
    EXPECT_EQ(found(s),
              "block 0: 16 bytes in arena 0, 0 to 1: x\n"
              "block 1: 16 bytes in arena 0, 1 to 4: y\n"
              "block 2: 16 bytes in arena 0, 3 to 4: z\n");
}

TEST(Lifetimes, ADependencyWithoutAnOpHoldsItsSourceUpToThereOnly) {
    SampleGraph s(8);
    Tensor* x = named(s.input(GGML_TYPE_F32, 4), "x");
    Tensor* hold = ggml_view_tensor(s.context(), x);
    hold->src[0] = x;
    Tensor* copy = named(ggml_new_tensor_1d(s.context(), GGML_TYPE_F32, 4), "copy");
    Tensor* y = named(ggml_sin(s.context(), copy), "y");
    for (Tensor* node : {hold, copy, y}) ASSERT_TRUE(append_node(s.graph(), *node));
    EXPECT_EQ(found(s),
              "block 0: 16 bytes in arena 0, 0 to 1: x\n"
              "block 1: 16 bytes in arena 0, 2 to 3: copy\n"
              "block 2: 16 bytes in arena 0, 3 to 4: y\n");
}

TEST(Lifetimes, TensorsWithMemoryAndTheirViewsNeedNone) {
    SampleGraph s(8);
    Tensor* part = ggml_view_1d(s.context(), s.weight(64), 32, 0);
    Tensor* y = named(ggml_sum(s.context(), ggml_cast(s.context(), part, GGML_TYPE_F32)), "y");
    s.graph();
    ggml_build_forward_expand(&s.graph(), y);
    EXPECT_EQ(found(s),
              "block 0: 128 bytes in arena 0, 2 to 3:  (view) (copy)\n"
              "block 1: 4 bytes in arena 0, 3 to 4: y\n");
}

}  // namespace
}  // namespace heddle::alloc
