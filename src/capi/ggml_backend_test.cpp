// What C callers see of buffers, data, streams and devices: how failures reach them.

#include <gtest/gtest.h>

#include <string>

#include "ggml-backend-impl.h"
#include "heddle/heddle.h"
#include "runtime/test_support.hpp"

namespace {

using heddle::test::FakeDevice;

class BackendApi : public testing::Test {
protected:
    BackendApi() {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        heddle_clear_error();
        ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    }
    ~BackendApi() override {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
        ggml_log_set(nullptr, nullptr);
        ggml_free(context);
    }

    ggml_context* context =
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true});
    ggml_tensor* x = ggml_set_name(ggml_new_tensor_1d(context, GGML_TYPE_F32, 4), "x");
    FakeDevice fake;
};

TEST_F(BackendApi, PlacesWritesReadsAndCopies) {
    ggml_backend_buffer_t buffer =
        ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 64);
    ASSERT_NE(buffer, nullptr);
    auto* base = static_cast<char*>(ggml_backend_buffer_get_base(buffer));
    ggml_tensor* y = ggml_new_tensor_1d(context, GGML_TYPE_F32, 4);
    EXPECT_EQ(ggml_backend_tensor_alloc(buffer, x, base), GGML_STATUS_SUCCESS);
    EXPECT_EQ(ggml_backend_tensor_alloc(buffer, y, base + 32), GGML_STATUS_SUCCESS);
    const float values[4] = {1, 2, 3, 4};
    ggml_backend_tensor_set(x, values, 0, 16);
    ggml_backend_tensor_copy(x, y);
    EXPECT_EQ(ggml_set_zero(x), x);
    float read[4];
    ggml_backend_tensor_get(y, read, 0, 16);
    EXPECT_EQ(read[3], 4);
    ggml_backend_tensor_get(x, read, 0, 16);
    EXPECT_EQ(read[3], 0);
    EXPECT_STREQ(heddle_last_error(), "");
    ggml_backend_buffer_free(buffer);
}

TEST_F(BackendApi, SaysWithStatusesAndNullsWhatWentWrong) {
    EXPECT_EQ(ggml_backend_tensor_alloc(nullptr, x, nullptr), GGML_STATUS_FAILED);
    EXPECT_STREQ(heddle_last_error(), "tensor placement: the buffer is NULL");
    EXPECT_EQ(ggml_backend_view_init(x), GGML_STATUS_FAILED);
    EXPECT_STREQ(heddle_last_error(), "placing 'x' f32[4,1,1,1]: it is no view");
    fake.allocations_left = 0;
    EXPECT_EQ(ggml_backend_buft_alloc_buffer(&fake.type, 8), nullptr);
    EXPECT_STREQ(heddle_last_error(), "buffer type 'FAKE0': no memory for 8 bytes");
    EXPECT_EQ(ggml_backend_dev_buffer_from_host_ptr(&fake.device, x, 8, 8), nullptr);
    EXPECT_STREQ(heddle_last_error(), "device 'FAKE0' cannot use host memory as a buffer");
    EXPECT_EQ(ggml_backend_buffer_get_base(nullptr), nullptr);
    EXPECT_EQ(ggml_backend_cpu_buffer_from_ptr(nullptr, 8), nullptr);
}

TEST_F(BackendApi, ADeviceThatMakesNoEventIsToldOfUnlessItHasNone) {
    fake.device.iface.event_new = [](ggml_backend_dev_t) -> ggml_backend_event_t {
        return nullptr;
    };
    EXPECT_EQ(ggml_backend_event_new(&fake.device), nullptr);
    EXPECT_STREQ(heddle_last_error(), "device 'FAKE0' could not make an event");
    heddle_clear_error();
    fake.device.iface.event_new = nullptr;
    EXPECT_EQ(ggml_backend_event_new(&fake.device), nullptr);
    EXPECT_STREQ(heddle_last_error(), "");
}

TEST_F(BackendApi, FunctionsWithoutAResultLeaveTheSentence) {
    float value = 0;
    ggml_backend_tensor_set(nullptr, &value, 0, 4);
    EXPECT_STREQ(heddle_last_error(), "writing a tensor: the tensor is NULL");
    ggml_backend_tensor_get(x, &value, 0, 4);
    EXPECT_STREQ(heddle_last_error(), "reading 'x' f32[4,1,1,1]: it is in no buffer");
    ggml_backend_tensor_copy(x, nullptr);
    EXPECT_STREQ(heddle_last_error(), "copying a tensor: the destination is NULL");
    ggml_backend_buffer_clear(nullptr, 0);
    EXPECT_STREQ(heddle_last_error(), "buffer clear: the buffer is NULL");
}

TEST_F(BackendApi, NullIsFineWhereNothingIsToBeDone) {
    ggml_backend_buffer_free(nullptr);
    ggml_backend_free(nullptr);
    ggml_backend_event_free(nullptr);
    ggml_backend_graph_plan_free(nullptr, nullptr);
    ggml_backend_graph_copy_free({});
    EXPECT_EQ(ggml_backend_guid(nullptr), nullptr);
    EXPECT_STREQ(ggml_backend_name(nullptr), "NULL");
    EXPECT_EQ(ggml_backend_event_new(nullptr), nullptr);
    EXPECT_FALSE(ggml_backend_buffer_is_multi_buffer(nullptr));
    EXPECT_STREQ(heddle_last_error(), "");
}

TEST_F(BackendApi, ComputeReturnsTheStatusOfTheBackend) {
    ggml_backend_t stream = ggml_backend_dev_init(&fake.device, nullptr);
    ggml_cgraph* graph = ggml_new_graph(context);
    ggml_graph_add_node(graph, x);
    EXPECT_EQ(ggml_backend_graph_compute(stream, graph), GGML_STATUS_SUCCESS);
    fake.compute_status = GGML_STATUS_ABORTED;
    EXPECT_EQ(ggml_backend_graph_compute(stream, graph), GGML_STATUS_ABORTED);
    EXPECT_STREQ(
        heddle_last_error(),
        "computing 1 nodes on stream 'FAKE0' (NONE 'x'): the backend answered ABORTED (1)");
    EXPECT_EQ(ggml_backend_graph_compute(nullptr, graph), GGML_STATUS_FAILED);
    ggml_backend_free(stream);
}

TEST_F(BackendApi, ABackendsOwnSentenceStays) {
    fake.stream_table.graph_compute = [](ggml_backend_t, ggml_cgraph*) {
        ggml_backend_tensor_set(nullptr, nullptr, 0, 1);  // any failure of its own
        return GGML_STATUS_FAILED;
    };
    ggml_backend_t stream = ggml_backend_dev_init(&fake.device, nullptr);
    EXPECT_EQ(ggml_backend_graph_compute(stream, ggml_new_graph(context)), GGML_STATUS_FAILED);
    EXPECT_STREQ(heddle_last_error(), "writing a tensor: the tensor is NULL");
    ggml_backend_free(stream);
}

TEST_F(BackendApi, PlansWorkForEveryBackend) {
    ggml_backend_t stream = ggml_backend_dev_init(&fake.device, nullptr);
    ggml_backend_graph_plan_t plan =
        ggml_backend_graph_plan_create(stream, ggml_new_graph(context));
    ASSERT_NE(plan, nullptr);
    EXPECT_EQ(ggml_backend_graph_plan_compute(stream, plan), GGML_STATUS_SUCCESS);
    ggml_backend_graph_plan_free(stream, plan);
    ggml_backend_free(stream);
}

TEST_F(BackendApi, AFailedGraphCopyIsAllNulls) {
    ggml_backend_t stream = ggml_backend_dev_init(&fake.device, nullptr);
    ggml_cgraph* graph = ggml_new_graph(context);
    ggml_graph_add_node(graph, x);  // without data
    const auto copy = ggml_backend_graph_copy(stream, graph);
    EXPECT_EQ(copy.buffer, nullptr);
    EXPECT_EQ(copy.ctx_allocated, nullptr);
    EXPECT_EQ(copy.ctx_unallocated, nullptr);
    EXPECT_EQ(copy.graph, nullptr);
    EXPECT_STREQ(heddle_last_error(), "graph copy: 'x' f32[4,1,1,1] has no data");
    const auto ignore = [](int, ggml_tensor*, ggml_tensor*, void*) { return true; };
    EXPECT_FALSE(
        ggml_backend_compare_graph_backend(stream, stream, graph, ignore, nullptr, nullptr, 0));
    ggml_backend_free(stream);
}

TEST_F(BackendApi, MultiBuffersTakeUsageOnlyIfTheyAreOne) {
    ggml_backend_buffer_t parts[] = {fake.allocate(8).release(), fake.allocate(8).release()};
    ggml_backend_multi_buffer_set_usage(parts[0], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    EXPECT_STREQ(heddle_last_error(),
                 "multi-buffer usage: a buffer of type 'FAKE0' is no multi-buffer");
    ggml_backend_buffer_t all = ggml_backend_multi_buffer_alloc_buffer(parts, 2);
    ggml_backend_buffer_set_usage(all, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    EXPECT_EQ(ggml_backend_buffer_get_usage(parts[1]), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_free(all);
    EXPECT_EQ(fake.live_buffers, 0);
}

TEST(BackendApiDeath, AWriteThatCannotBeReportedStopsTheProgram) {
    float value = 0;
    EXPECT_DEATH(ggml_backend_tensor_set(nullptr, &value, 0, 4),
                 "writing a tensor: the tensor is NULL");
}

}  // namespace
