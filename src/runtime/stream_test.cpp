#include "runtime/stream.hpp"

#include <gtest/gtest.h>

#include "heddle/heddle.h"
#include "runtime/event.hpp"
#include "runtime/test_support.hpp"

namespace heddle {
namespace {

using test::FakeDevice;
using Calls = std::vector<std::string>;

class StreamTest : public testing::Test {
protected:
    FakeDevice fake;
    OwnedStream stream = fake.start();
    OwnedContext context = test::make_test_context();
    Graph* graph = *new_graph(*context, 8, false);
};

TEST_F(StreamTest, BelongsToADeviceAndHasItsBufferType) {
    EXPECT_STREQ(name_of(*stream), "FAKE0");
    EXPECT_EQ(*device_of(*stream), &fake.device);
    EXPECT_EQ(*default_buffer_type(*stream), &fake.type);
    stream->device = nullptr;
    EXPECT_EQ(default_buffer_type(*stream).error().message, "stream 'FAKE0' belongs to no device");
}

TEST_F(StreamTest, IsFreedByItsTableAndNullIsNothing) {
    stream.reset();
    EXPECT_EQ(fake.live_streams, 0);
    free_stream(nullptr);
}

TEST_F(StreamTest, ComputesAndThenWaits) {
    ASSERT_TRUE(compute(*stream, *graph));
    EXPECT_EQ(fake.calls, (Calls{"graph_compute", "synchronize"}));
    ASSERT_TRUE(compute_async(*stream, *graph));
    EXPECT_EQ(fake.calls.size(), 3u);
}

TEST_F(StreamTest, KeepsTheStatusOfABackendAndWaitsAllTheSame) {
    ASSERT_TRUE(append_node(*graph, *test::new_floats(context, 4, "x")));
    for (const Status status :
         {GGML_STATUS_FAILED, GGML_STATUS_ALLOC_FAILED, GGML_STATUS_ABORTED}) {
        fake.compute_status = status;
        const auto computed = compute(*stream, *graph);
        ASSERT_FALSE(computed);
        EXPECT_EQ(to_status(computed.error()), status);
        EXPECT_EQ(fake.calls.back(), "synchronize");
    }
    EXPECT_EQ(compute(*stream, *graph).error().message,
              "computing 1 nodes on stream 'FAKE0' (NONE 'x'): the backend answered ABORTED (1)");
}

TEST_F(StreamTest, WhatABackendTellsOfWhileItIsWaitedForIsAFailure) {
    stream->iface.synchronize = [](Stream*) { heddle_report_error("it is too hot"); };
    const auto finished = finish(*stream);
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().message, "waiting for stream 'FAKE0': it is too hot");
    const auto computed = compute(*stream, *graph);
    ASSERT_FALSE(computed);
    EXPECT_EQ(computed.error().code, Errc::device);
}

TEST_F(StreamTest, ThatCanBeStoppedSaysWithTheNextGraphWhetherItWas) {
    ASSERT_TRUE(append_node(*graph, *test::new_floats(context, 4, "x")));
    ggml_backend_reg registration{};
    registration.iface.get_proc_address = [](ggml_backend_reg_t of, const char* name) -> void* {
        return name == std::string_view("ggml_backend_set_abort_callback") ? of : nullptr;
    };
    fake.device.reg = &registration;
    stream->iface.synchronize = [](Stream*) { heddle_report_error("it was stopped"); };
    stream->iface.graph_compute = [](Stream*, Graph* nodes) {
        return nodes->n_nodes == 0 ? GGML_STATUS_ABORTED : GGML_STATUS_SUCCESS;
    };
    const auto computed = compute(*stream, *graph);
    ASSERT_FALSE(computed);
    EXPECT_EQ(computed.error().code, Errc::aborted);
    EXPECT_EQ(computed.error().message, "waiting for stream 'FAKE0': it was stopped");
}

TEST_F(StreamTest, WithoutOptionalMembersNeedsNone) {
    stream->iface.synchronize = nullptr;
    synchronize(*stream);
    optimize(*stream, *graph);
    EXPECT_TRUE(compute(*stream, *graph));
    stream->iface.graph_compute = nullptr;
    EXPECT_EQ(compute(*stream, *graph).error().message, "stream 'FAKE0' cannot compute graphs");
}

// ---- plans -------------------------------------------------------------------------------------

TEST_F(StreamTest, HasPlansWhateverItsBackend) {
    OwnedPlan plan = *make_plan(*stream, *graph);
    ASSERT_TRUE(compute_plan(*stream, plan.get()));
    ASSERT_TRUE(compute_plan(*stream, plan.get()));
    EXPECT_EQ(fake.count("graph_compute"), 2u);
    const PlanHandle before = plan.get();
    ASSERT_TRUE(update_plan(*stream, plan, *graph));
    EXPECT_EQ(plan.get(), before);
    EXPECT_FALSE(compute_plan(*stream, nullptr));
    free_plan(*stream, nullptr);
}

struct NativePlan {
    static inline int live = 0, runs = 0, updates = 0;
    static PlanHandle create(Stream*, const Graph*) { return ++live, new int; }
    static void free(Stream*, PlanHandle plan) { --live, delete static_cast<int*>(plan); }
    static void update(Stream*, PlanHandle, const Graph*) { ++updates; }
    static Status run(Stream*, PlanHandle) { return ++runs, GGML_STATUS_ABORTED; }
};

TEST_F(StreamTest, UsesTheBackendsOwnPlans) {
    stream->iface.graph_plan_create = NativePlan::create;
    stream->iface.graph_plan_free = NativePlan::free;
    stream->iface.graph_plan_compute = NativePlan::run;
    OwnedPlan plan = *make_plan(*stream, *graph);
    EXPECT_EQ(compute_plan(*stream, plan.get()).error().code, Errc::aborted);
    EXPECT_EQ(NativePlan::runs, 1);
    EXPECT_EQ(fake.count("graph_compute"), 0u);
    ASSERT_TRUE(update_plan(*stream, plan, *graph));
    EXPECT_EQ(NativePlan::live, 1) << "made anew";
    stream->iface.graph_plan_update = NativePlan::update;
    const PlanHandle before = plan.get();
    ASSERT_TRUE(update_plan(*stream, plan, *graph));
    EXPECT_EQ(plan.get(), before);
    EXPECT_EQ(NativePlan::updates, 1);
    plan.reset();
    EXPECT_EQ(NativePlan::live, 0);
    stream->iface.graph_plan_create = [](Stream*, const Graph*) -> PlanHandle { return nullptr; };
    EXPECT_EQ(make_plan(*stream, *graph).error().message,
              "stream 'FAKE0' made no plan for a graph of 0 nodes");
}

// ---- events ------------------------------------------------------------------------------------

TEST_F(StreamTest, RecordsAndWaitsForEvents) {
    const OwnedEvent event = make_event(fake.device);
    ASSERT_NE(event, nullptr);
    ASSERT_TRUE(synchronize(*event)) << "never recorded, so reached";
    ASSERT_TRUE(record(*event, *stream));
    ASSERT_TRUE(wait_for(*stream, *event));
    EXPECT_EQ(fake.calls, (Calls{"event_synchronize", "event_record", "event_wait"}));
    free_event(nullptr);
}

TEST_F(StreamTest, SaysSoWhereThereAreNoEvents) {
    const OwnedEvent event = make_event(fake.device);
    stream->iface.event_record = nullptr;
    stream->iface.event_wait = nullptr;
    EXPECT_EQ(record(*event, *stream).error().message, "stream 'FAKE0' cannot record events");
    EXPECT_EQ(wait_for(*stream, *event).error().message, "stream 'FAKE0' cannot wait for events");
    fake.device.iface.event_synchronize = nullptr;
    EXPECT_EQ(synchronize(*event).error().message, "device 'FAKE0' cannot wait for events");
    fake.device.iface.event_new = nullptr;
    EXPECT_EQ(make_event(fake.device), nullptr);
}

}  // namespace
}  // namespace heddle
