// The library's own headers and those of the C++ API in one file: a name means one thing in each.

#include <gtest/gtest.h>

#include <type_traits>

#include "core/context.hpp"
#include "core/graph.hpp"
#include "core/tensor.hpp"
#include "heddle/cpp/buffer.hpp"
#include "heddle/cpp/compare.hpp"
#include "heddle/cpp/context.hpp"
#include "heddle/cpp/device.hpp"
#include "heddle/cpp/graph.hpp"
#include "heddle/cpp/model_file.hpp"
#include "heddle/cpp/ops.hpp"
#include "heddle/cpp/scheduler.hpp"
#include "runtime/objects.hpp"
#include "sched/scheduler.hpp"

namespace heddle {
namespace {

static_assert(std::is_same_v<Tensor, ggml_tensor> && std::is_class_v<api::Tensor>);
static_assert(std::is_same_v<Context, ggml_context> && std::is_class_v<api::Context>);
static_assert(std::is_same_v<Graph, ggml_cgraph> && std::is_class_v<api::Graph>);
static_assert(std::is_same_v<Buffer, ggml_backend_buffer> && std::is_class_v<api::Buffer>);
static_assert(std::is_same_v<Stream, ggml_backend> && std::is_class_v<api::Stream>);
static_assert(std::is_same_v<Device, ggml_backend_device> && std::is_class_v<api::Device>);
static_assert(std::is_same_v<Scheduler, ggml_backend_sched> && std::is_class_v<api::Scheduler>);
static_assert(!std::is_same_v<Tensor, api::Tensor> && !std::is_same_v<Scheduler, api::Scheduler>);

TEST(BothSides, SeeTheSameTensors) {
    auto context = api::Context::make();
    ASSERT_TRUE(context);
    const api::Tensor a = context->tensor(GGML_TYPE_F32, {4, 2}, "a");
    const api::Tensor sum = a + a;  // found by the type of its operands
    const auto graph = api::Graph::of(*context, sum);
    ASSERT_TRUE(graph);

    const Tensor& inside = *sum.c();
    EXPECT_EQ(extents_of(inside), (Extents{4, 2, 1, 1}));
    EXPECT_EQ(name_of(*a.c()), "a");
    const Graph& nodes = *graph->c();
    ASSERT_EQ(nodes_of(nodes).size(), 1u);
    EXPECT_EQ(nodes_of(nodes).front(), &inside);
    EXPECT_EQ(leafs_of(nodes).front(), a.c());
}

TEST(BothSides, ShareFailures) {
    auto context = api::Context::make();
    ASSERT_TRUE(context);
    context->tensor(GGML_TYPE_F32, {-1}, "a");
    const Result<> outside = context->check();
    const Result<> inside = check_extents(GGML_TYPE_F32, {-1, 1, 1, 1});
    ASSERT_FALSE(outside);
    ASSERT_FALSE(inside);
    EXPECT_NE(outside.error().message.find(inside.error().message), std::string::npos)
        << outside.error().message << " and " << inside.error().message;
}

}  // namespace
}  // namespace heddle
