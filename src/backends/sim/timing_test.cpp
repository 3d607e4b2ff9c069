// The virtual clock, and what queues note of the real one.

#include <chrono>

#include "backends/sim/test_support.hpp"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "heddle/backend/trace.h"

namespace heddle::sim {
namespace {

/// Round numbers: a copy of n bytes takes 1 ms + n us, a node 1 ms + 0.1 us for each byte moved.
constexpr const char* kSlow = "devices=2,flops=1T,membw=10M,link=1M,latency=1ms,pinned=1";
constexpr double kLatency = 1e-3, kLinkByte = 1e-6, kMemoryByte = 1e-7;
constexpr double kSlack = 1e-12;  // sums of doubles near 0.01

class SimTiming : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(configured_) << heddle_last_error();
        heddle_clear_error();
    }

    ggml_backend_buffer_type_t type(std::size_t index = 0) {
        return ggml_backend_dev_buffer_type(device(index));
    }

    const bool configured_ = configure(kSlow);
    Stream stream_{ggml_backend_dev_init(device(0), nullptr)};
    Bench bench_;
    std::vector<float> data_ = std::vector<float>(1000);
};

constexpr double kCopy = kLatency + 4000 * kLinkByte;    // of 1000 floats
constexpr double kNode = kLatency + 8000 * kMemoryByte;  // reads and writes them

TEST_F(SimTiming, BlockingCopiesTakeLatencyAndBandwidth) {
    Tensor* x = bench_.vector(1000, type());
    write(x, data_);
    EXPECT_NEAR(clock_of(nullptr), kCopy, kSlack);
    read(x);
    EXPECT_NEAR(clock_of(nullptr), 2 * kCopy, kSlack);
    EXPECT_NEAR(clock_of(device()), 2 * kCopy, kSlack);
    EXPECT_EQ(clock_of(device(1)), 0);
}

TEST_F(SimTiming, TheHostGoesOnUntilItWaits) {
    Tensor* x = bench_.vector(1000, type());
    ggml_backend_tensor_set_async(stream_.get(), x, data_.data(), 0, 4000);
    EXPECT_EQ(clock_of(nullptr), 0);
    EXPECT_NEAR(clock_of(device()), kCopy, kSlack);
    ggml_backend_synchronize(stream_.get());
    EXPECT_NEAR(clock_of(nullptr), kCopy, kSlack);
    const auto advance = sim_function<heddle_sim_advance_t>("heddle_sim_advance");
    EXPECT_NEAR(advance(1), 1 + kCopy, kSlack);
    ggml_backend_tensor_set_async(stream_.get(), x, data_.data(), 0, 4000);
    EXPECT_NEAR(clock_of(device()), 1 + 2 * kCopy, kSlack) << "not before the host asked for it";
    ggml_backend_synchronize(stream_.get());
}

TEST_F(SimTiming, CopiesAndComputingOverlapBetweenStreams) {
    Tensor *x = bench_.vector(1000, type()), *next = bench_.vector(1000, type(), "next");
    Tensor* y = bench_.place(ggml_set_name(ggml_sqr(bench_.context(), x), "y"), type());
    ggml_cgraph* graph = bench_.graph({y});
    const Stream copies(ggml_backend_dev_init(device(0), nullptr));
    ASSERT_EQ(ggml_backend_graph_compute_async(stream_.get(), graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_set_async(copies.get(), next, data_.data(), 0, 4000);
    ggml_backend_synchronize(stream_.get());
    ggml_backend_synchronize(copies.get());
    const auto items = trace_of(device());
    ASSERT_EQ(items.size(), 2u);
    EXPECT_EQ(items[0].kind, HEDDLE_SIM_NODE);
    EXPECT_STREQ(items[0].name, "y");
    EXPECT_EQ(items[0].stream, 1);
    EXPECT_EQ(items[0].start, 0);
    EXPECT_NEAR(items[0].end, kNode, kSlack);
    EXPECT_EQ(items[1].kind, HEDDLE_SIM_WRITE);
    EXPECT_STREQ(items[1].name, "next");
    EXPECT_EQ(items[1].stream, 2);
    EXPECT_EQ(items[1].bytes, 4000u);
    EXPECT_EQ(items[1].start, 0);
    EXPECT_NEAR(items[1].end, kCopy, kSlack);
}

TEST_F(SimTiming, OneEngineDoesOneThingAtATime) {
    Tensor *x = bench_.vector(1000, type()), *y = bench_.vector(1000, type());
    const Stream second(ggml_backend_dev_init(device(0), nullptr));
    std::vector<float> back(1000);
    ggml_backend_tensor_set_async(stream_.get(), x, data_.data(), 0, 4000);
    ggml_backend_tensor_set_async(second.get(), y, data_.data(), 0, 4000);
    ggml_backend_tensor_get_async(second.get(), y, back.data(), 0, 4000);
    ggml_backend_synchronize(stream_.get());
    ggml_backend_synchronize(second.get());
    const auto items = trace_of(device());
    ASSERT_EQ(items.size(), 3u);
    EXPECT_NEAR(items[1].start, kCopy, kSlack) << "the way in is taken";
    EXPECT_NEAR(items[2].start, 2 * kCopy, kSlack) << "the stream is not ready";
}

TEST_F(SimTiming, EventsCarryTheirTime) {
    Tensor *x = bench_.vector(1000, type()), *later = bench_.vector(1000, type());
    Tensor* y = bench_.place(ggml_sqr(bench_.context(), x), type());
    const Stream second(ggml_backend_dev_init(device(0), nullptr));
    const Event event(ggml_backend_event_new(device(0)));
    ggml_backend_tensor_set_async(stream_.get(), x, data_.data(), 0, 4000);
    ggml_backend_event_record(event.get(), stream_.get());
    ggml_backend_event_wait(second.get(), event.get());
    ASSERT_EQ(ggml_backend_graph_compute_async(second.get(), bench_.graph({y})),
              GGML_STATUS_SUCCESS);
    // Recorded again, which the wait before does not notice.
    ggml_backend_tensor_set_async(stream_.get(), later, data_.data(), 0, 4000);
    ggml_backend_event_record(event.get(), stream_.get());
    EXPECT_NEAR(trace_of(device())[1].start, kCopy, kSlack);
    ggml_backend_event_synchronize(event.get());
    EXPECT_NEAR(clock_of(nullptr), 2 * kCopy, kSlack);
    ggml_backend_synchronize(second.get());
}

TEST_F(SimTiming, CopiesBetweenDevicesHoldBothStreams) {
    Tensor *x = bench_.vector(1000, type(0)), *y = bench_.vector(1000, type(1));
    Tensor* z = bench_.place(ggml_sqr(bench_.context(), x), type(0));
    const Stream other(ggml_backend_dev_init(device(1), nullptr));
    ggml_backend_tensor_copy_async(stream_.get(), other.get(), x, y);
    ASSERT_EQ(ggml_backend_graph_compute_async(stream_.get(), bench_.graph({z})),
              GGML_STATUS_SUCCESS);
    ggml_backend_synchronize(stream_.get());
    ggml_backend_synchronize(other.get());
    const auto here = trace_of(device(0)), there = trace_of(device(1));
    ASSERT_EQ(here.size(), 1u);
    ASSERT_EQ(there.size(), 1u);
    EXPECT_EQ(there[0].kind, HEDDLE_SIM_COPY);
    EXPECT_NEAR(there[0].end, kCopy, kSlack);
    EXPECT_NEAR(here[0].start, kCopy, kSlack);
}

TEST_F(SimTiming, ProductsAreBoundByOperationsIfTheyAreMany) {
    ASSERT_TRUE(configure("flops=1M,membw=1T,latency=0s"));
    Bench bench;
    const Stream stream(ggml_backend_dev_init(device(), nullptr));
    Tensor *a = bench.matrix(64, 32, type()), *b = bench.matrix(64, 16, type());
    Tensor* y = bench.place(ggml_mul_mat(bench.context(), a, b), type());
    ASSERT_EQ(ggml_backend_graph_compute(stream.get(), bench.graph({y})), GGML_STATUS_SUCCESS);
    EXPECT_NEAR(clock_of(nullptr), 2.0 * 64 * 32 * 16 / 1e6, kSlack);
}

TEST_F(SimTiming, MemoryOfTheHostIsReadOverTheLink) {
    Tensor* x = bench_.vector(1000, ggml_backend_dev_host_buffer_type(device()));
    Tensor* y = bench_.place(ggml_sqr(bench_.context(), x), type());
    ASSERT_EQ(ggml_backend_graph_compute(stream_.get(), bench_.graph({y})), GGML_STATUS_SUCCESS);
    EXPECT_NEAR(clock_of(nullptr), kCopy, kSlack);
}

/// A run with copies, graphs, events and two devices, all in the background.
std::vector<heddle_sim_item> busy_run() {
    EXPECT_TRUE(configure(kSlow));
    Bench bench;
    const Stream a(ggml_backend_dev_init(device(0), nullptr));
    const Stream b(ggml_backend_dev_init(device(1), nullptr));
    const auto type_a = ggml_backend_dev_buffer_type(device(0));
    const auto type_b = ggml_backend_dev_buffer_type(device(1));
    Tensor *x = bench.vector(3000, type_a), *y = bench.vector(3000, type_b);
    Tensor* x2 = bench.place(ggml_sqr(bench.context(), x), type_a);
    Tensor* y2 = bench.place(ggml_sqr(bench.context(), y), type_b);
    ggml_cgraph *graph_a = bench.graph({x2}), *graph_b = bench.graph({y2});
    const Event event(ggml_backend_event_new(device(1)));
    const std::vector<float> data = numbers(3000);
    for (int i = 0; i < 25; ++i) {
        ggml_backend_tensor_set_async(a.get(), x, data.data(), 0, 12000);
        EXPECT_EQ(ggml_backend_graph_compute_async(a.get(), graph_a), GGML_STATUS_SUCCESS);
        ggml_backend_event_wait(a.get(), event.get());
        ggml_backend_tensor_copy_async(a.get(), b.get(), x2, y);
        EXPECT_EQ(ggml_backend_graph_compute_async(b.get(), graph_b), GGML_STATUS_SUCCESS);
        ggml_backend_event_record(event.get(), b.get());
        if (i % 10 == 0) ggml_backend_synchronize(a.get());
    }
    ggml_backend_synchronize(b.get());
    std::vector<heddle_sim_item> items = trace_of(device(0));
    for (const heddle_sim_item& item : trace_of(device(1))) items.push_back(item);
    return items;
}

TEST(SimDeterminism, TheSameCallsGiveTheSameTimes) {
    const auto first = busy_run(), second = busy_run();
    ASSERT_EQ(first.size(), 100u);
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(first[i].kind, second[i].kind);
        EXPECT_EQ(first[i].start, second[i].start) << "item " << i;
        EXPECT_EQ(first[i].end, second[i].end) << "item " << i;
    }
}

TEST_F(SimTiming, TheTraceCanBeClearedCutAndSwitchedOff) {
    Tensor* x = bench_.vector(1000, type());
    write(x, data_);
    write(x, data_);
    heddle_sim_item one{};
    const auto trace = sim_function<heddle_sim_trace_t>("heddle_sim_trace");
    EXPECT_EQ(trace(device(), &one, 1, sizeof one), 2u);
    EXPECT_EQ(one.stream, 0) << "the host waited";
    sim_function<heddle_sim_clear_trace_t>("heddle_sim_clear_trace")(device());
    EXPECT_TRUE(trace_of(device()).empty());
    EXPECT_GT(clock_of(device()), 0);
    EXPECT_EQ(trace(nullptr, &one, 1, sizeof one), 0u);
    EXPECT_THAT(heddle_last_error(), testing::HasSubstr("this is not a simulated device"));
    ASSERT_TRUE(configure("trace=0"));
    write(bench_.vector(10, type()), std::vector<float>(10));
    EXPECT_TRUE(trace_of(device()).empty());
}

double wall() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

TEST_F(SimTiming, QueuesNoteWhenTheyReallyWorkedOnWhat) {
    const auto span = sim_function<heddle_queue_span_t>(HEDDLE_QUEUE_SPAN);
    ASSERT_NE(span, nullptr);
    const Event from(ggml_backend_event_new(device(0))), to(ggml_backend_event_new(device(0)));
    double begin = -1, end = -1;
    EXPECT_FALSE(span(from.get(), to.get(), &begin, &end)) << "never recorded";
    ggml_backend_event_record(from.get(), stream_.get());
    ggml_backend_event_record(to.get(), stream_.get());
    ASSERT_TRUE(span(from.get(), to.get(), &begin, &end));
    EXPECT_EQ(begin, end) << "nothing was done";

    Tensor* x = bench_.vector(1000, type());
    const double before = wall();
    ggml_backend_tensor_set_async(stream_.get(), x, data_.data(), 0, 4000);
    ggml_backend_event_record(to.get(), stream_.get());
    ASSERT_TRUE(span(from.get(), to.get(), &begin, &end));
    EXPECT_LE(before, begin);
    EXPECT_LE(begin, end);
    EXPECT_LE(end, wall());

    const double middle = wall();
    ggml_backend_event_record(from.get(), stream_.get());
    ggml_backend_tensor_set_async(stream_.get(), x, data_.data(), 0, 4000);
    ggml_backend_event_record(to.get(), stream_.get());
    ASSERT_TRUE(span(from.get(), to.get(), &begin, &end));
    EXPECT_LE(middle, begin) << "only what lies between the two";
}

TEST_F(SimTiming, WhatAQueueWaitsForIsNotItsWork) {
    const auto span = sim_function<heddle_queue_span_t>(HEDDLE_QUEUE_SPAN);
    const auto event = [] { return Event(ggml_backend_event_new(device(0))); };
    const Event first = event(), done = event(), from = event(), to = event();
    const Stream other(ggml_backend_dev_init(device(0), nullptr));
    Tensor *x = bench_.vector(1 << 20, type()), *y = bench_.vector(1, type());
    Tensor* z = bench_.vector(1, type());  // each queue has its own: nothing orders them here
    const std::vector<float> data(1 << 20);
    ggml_backend_tensor_set_async(other.get(), z, data.data(), 0, 4);
    ggml_backend_event_record(first.get(), other.get());
    ggml_backend_tensor_set_async(other.get(), x, data.data(), 0, ggml_nbytes(x));
    ggml_backend_event_record(done.get(), other.get());
    ggml_backend_tensor_set_async(stream_.get(), y, data.data(), 0, 4);
    ggml_backend_event_record(from.get(), stream_.get());
    ggml_backend_event_wait(stream_.get(), done.get());
    ggml_backend_tensor_set_async(stream_.get(), y, data.data(), 0, 4);
    ggml_backend_event_record(to.get(), stream_.get());
    double begin = 0, end = 0, others_begin = 0, others_end = 0;
    ASSERT_TRUE(span(first.get(), done.get(), &others_begin, &others_end));
    ASSERT_TRUE(span(from.get(), to.get(), &begin, &end));
    EXPECT_GE(begin, others_end);
    EXPECT_LE(begin, end);
    EXPECT_FALSE(span(first.get(), to.get(), &begin, &end)) << "of two queues";
    EXPECT_FALSE(span(nullptr, to.get(), &begin, &end));
}

TEST_F(SimTiming, NoTraceIsKeptUnlessItIsAskedFor) {
    ASSERT_TRUE(sim_function<heddle_backend_configure_t>("heddle_backend_configure")("mem=1M"));
    write(bench_.vector(10, type()), std::vector<float>(10));
    EXPECT_TRUE(trace_of(device()).empty());
    EXPECT_GT(clock_of(device()), 0);
}

}  // namespace
}  // namespace heddle::sim
