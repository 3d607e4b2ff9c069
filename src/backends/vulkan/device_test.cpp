// A device of the driver that computes on the CPU, which every machine with Mesa has: life, order,
// limits and failures. Numbers are compared by `heddle verify`.

#include "backends/vulkan/test_support.hpp"
#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "heddle/backend/nodes.hpp"

namespace heddle::vulkan {
namespace {

TEST(VulkanDevice, ComputesAGraphAgainFromItsRecording) {
    HEDDLE_BENCH(bench, Options{});
    ggml_tensor *a = bench.vector(1000), *b = bench.vector(1000);
    ggml_tensor* y = ggml_add(bench.context(), ggml_mul(bench.context(), a, b), a);
    ggml_cgraph* graph = bench.graph(y);
    ASSERT_TRUE(bench.allocate());
    const std::vector<float> x = ramp(1000);
    for (const float factor : {2.0f, 3.0f, 4.0f}) {  // recorded, then replayed with other data
        const std::vector<float> factors(1000, factor);
        ggml_backend_tensor_set(a, x.data(), 0, ggml_nbytes(a));
        ggml_backend_tensor_set(b, factors.data(), 0, ggml_nbytes(b));
        ASSERT_EQ(ggml_backend_graph_compute(bench.stream(), graph), GGML_STATUS_SUCCESS);
        EXPECT_EQ(values_of(y)[999], 1000 * factor + 1000);
    }
}

TEST(VulkanDevice, AsynchronousCopiesKeepTheirOrderThroughATinyRing) {
    Options options;
    options.staging = 64;
    HEDDLE_BENCH(bench, options);
    ggml_tensor* a = bench.vector(500);
    ggml_tensor* y = ggml_sqr(bench.context(), a);
    ggml_cgraph* graph = bench.graph(y);
    ASSERT_TRUE(bench.allocate());
    std::vector<float> x = ramp(500), result(500);
    ggml_backend_tensor_set_async(bench.stream(), a, x.data(), 0, ggml_nbytes(a));
    std::ranges::fill(x, 0.0f);  // the stream has what it needs
    ASSERT_EQ(ggml_backend_graph_compute_async(bench.stream(), graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get_async(bench.stream(), y, result.data(), 0, ggml_nbytes(y));
    ggml_backend_synchronize(bench.stream());
    EXPECT_EQ(result[0], 1.0f);
    EXPECT_EQ(result[499], 250000.0f);
}

TEST(VulkanDevice, WritesFromHostMemoryWhatWasReadIntoItBefore) {
    HEDDLE_BENCH(bench, Options{});
    ggml_tensor *a = bench.vector(100), *b = bench.vector(100), *c = bench.vector(100);
    ASSERT_TRUE(bench.allocate());
    const ggml_backend_ptr other(ggml_backend_dev_init(bench.device().handle(), nullptr));
    const ggml_backend_event_ptr event(ggml_backend_event_new(bench.device().handle()));
    const std::vector<float> x = ramp(100);
    std::vector<float> host(100);
    ggml_backend_tensor_set(a, x.data(), 0, ggml_nbytes(a));
    ggml_backend_tensor_get_async(bench.stream(), a, host.data(), 0, ggml_nbytes(a));
    ggml_backend_tensor_set_async(bench.stream(), b, host.data(), 0, ggml_nbytes(b));
    ggml_backend_synchronize(bench.stream());
    EXPECT_EQ(values_of(b), x);
    std::ranges::fill(host, 0.0f);
    ggml_backend_tensor_get_async(bench.stream(), a, host.data(), 0, ggml_nbytes(a));
    ggml_backend_event_record(event.get(), bench.stream());
    ggml_backend_event_wait(other.get(), event.get());
    ggml_backend_tensor_set_async(other.get(), c, host.data(), 0, ggml_nbytes(c));
    ggml_backend_synchronize(other.get());
    EXPECT_EQ(values_of(c), x) << "of another stream, which is waited for";
}

TEST(VulkanDevice, AnEventBringsWhatWasReadBeforeIt) {
    HEDDLE_BENCH(bench, Options{});
    ggml_tensor* a = bench.vector(8);
    ASSERT_TRUE(bench.allocate());
    const std::vector<float> x = ramp(8);
    std::vector<float> result(8);
    ggml_backend_tensor_set_async(bench.stream(), a, x.data(), 0, ggml_nbytes(a));
    ggml_backend_tensor_get_async(bench.stream(), a, result.data(), 0, ggml_nbytes(a));
    const ggml_backend_event_ptr event(ggml_backend_event_new(bench.device().handle()));
    ggml_backend_event_record(event.get(), bench.stream());
    ggml_backend_event_synchronize(event.get());
    EXPECT_EQ(result, x);
}

TEST(VulkanDevice, RefusesMoreMemoryThanThereIs) {
    Options options;
    options.heap_limit = 64u << 20;
    HEDDLE_BENCH(bench, options);
    ggml_tensor* a = bench.vector(32 << 20);
    EXPECT_FALSE(bench.allocate()) << "128 MiB of 64";
    EXPECT_EQ(a->buffer, nullptr);
    EXPECT_LE(bench.device().memory().free, 64u << 20);
}

TEST(VulkanDevice, ALostDeviceFailsAndStaysLost) {
    Options options;
    options.lose_after = 2;
    HEDDLE_BENCH(bench, options);
    ggml_tensor* a = bench.vector(16);
    ggml_tensor* y = ggml_sqr(bench.context(), a);
    ggml_cgraph* graph = bench.graph(y);
    ASSERT_TRUE(bench.allocate());
    std::vector<ggml_status> statuses;
    for (int i = 0; i < 4; ++i) {
        statuses.push_back(ggml_backend_graph_compute(bench.stream(), graph));
    }
    EXPECT_EQ(statuses, (std::vector{GGML_STATUS_SUCCESS, GGML_STATUS_SUCCESS, GGML_STATUS_FAILED,
                                     GGML_STATUS_FAILED}));
}

/// Copies, events, two streams and graphs; every call may fail, none may crash.
void use_all(Bench& bench) {
    ggml_tensor* a = bench.vector(4096);
    ggml_tensor* y = ggml_sqr(bench.context(), a);
    ggml_cgraph* graph = bench.graph(y);
    if (!bench.allocate()) return;
    const ggml_backend_ptr other(ggml_backend_dev_init(bench.device().handle(), nullptr));
    const ggml_backend_event_ptr event(ggml_backend_event_new(bench.device().handle()));
    std::vector<float> x = ramp(4096);
    for (int i = 0; i < 3; ++i) {
        ggml_backend_tensor_set_async(bench.stream(), a, x.data(), 0, ggml_nbytes(a));
        (void)ggml_backend_graph_compute_async(bench.stream(), graph);
        if (other == nullptr || event == nullptr) continue;
        ggml_backend_event_record(event.get(), bench.stream());
        ggml_backend_event_wait(other.get(), event.get());
        ggml_backend_tensor_copy_async(bench.stream(), other.get(), y, a);
        ggml_backend_tensor_get_async(other.get(), a, x.data(), 0, ggml_nbytes(a));
        ggml_backend_event_synchronize(event.get());
        ggml_backend_synchronize(other.get());
    }
    ggml_backend_synchronize(bench.stream());
    ggml_backend_buffer_clear(y->buffer, 0);
}

TEST(VulkanDevice, MayBeLostAtAnySubmission) {
    std::size_t lost = 0;
    for (std::int64_t submission = 0; submission < 12; ++submission) {
        Options options;
        options.lose_after = submission;
        HEDDLE_BENCH(bench, options);
        use_all(bench);
        const auto gpu = bench.device().site().gpu_if_made();
        ASSERT_NE(gpu, nullptr);
        if (!gpu->check_alive()) ++lost;
    }
    EXPECT_GE(lost, 8u) << "so many submissions are made";
}

TEST(VulkanDevice, RefusesAGraphWhoseScratchMemoryIsNotThereAndWorksOn) {
    Options options;
    options.staging = 4096;
    options.heap_limit = 10u << 20;
    HEDDLE_BENCH(bench, options);
    constexpr std::int64_t n = 1 << 20;
    ggml_tensor *a = bench.vector(n), *small = bench.vector(16);
    ggml_cgraph* sorting = bench.graph(ggml_argsort(bench.context(), a, GGML_SORT_ORDER_ASC));
    ggml_tensor* y = ggml_sqr(bench.context(), small);
    ggml_cgraph* squaring = bench.graph(y);
    ASSERT_TRUE(bench.allocate());
    EXPECT_EQ(ggml_backend_graph_compute(bench.stream(), sorting), GGML_STATUS_ALLOC_FAILED);
    const std::vector<float> x = ramp(16);
    ggml_backend_tensor_set(small, x.data(), 0, ggml_nbytes(small));
    ASSERT_EQ(ggml_backend_graph_compute(bench.stream(), squaring), GGML_STATUS_SUCCESS);
    EXPECT_EQ(values_of(y)[15], 256.0f);
}

TEST(VulkanDevice, HasNoStreamWhereNotEvenItsRingFits) {
    Options options;
    options.heap_limit = 1u << 20;  // the ring has 4 MiB
    HEDDLE_BENCH(bench, options);
    EXPECT_EQ(bench.stream(), nullptr);
}

TEST(VulkanDevice, CompilesTheShadersOfAGraphOnSeveralThreads) {
    HEDDLE_BENCH(bench, Options{});
    ggml_context* c = bench.context();
    ggml_tensor* a = bench.vector(64);
    ggml_tensor* y = ggml_sqrt(c, ggml_sqr(c, ggml_neg(c, ggml_exp(c, ggml_abs(c, a)))));
    ggml_cgraph* graph = bench.graph(ggml_sub(c, y, ggml_exp(c, a)));
    ASSERT_TRUE(bench.allocate());
    const std::vector<float> x(64, 2.0f);
    ggml_backend_tensor_set(a, x.data(), 0, ggml_nbytes(a));
    ASSERT_EQ(ggml_backend_graph_compute(bench.stream(), graph), GGML_STATUS_SUCCESS);
    EXPECT_NEAR(values_of(ggml_graph_node(graph, -1))[63], 0.0f, 1e-5f);  // a rounding of 7.4
}

TEST(VulkanDevice, TellsWhatNodesTookWhenItIsAsked) {
    Options options;
    options.is_timing = true;
    HEDDLE_BENCH(bench, options);
    ggml_tensor* a = bench.vector(1000);
    ggml_tensor* y = ggml_sqr(bench.context(), ggml_add(bench.context(), a, a));
    ggml_cgraph* graph = bench.graph(y);
    ASSERT_TRUE(bench.allocate());
    std::string told;
    ggml_log_set([](ggml_log_level, const char* words,
                    void* to) { *static_cast<std::string*>(to) += words; },
                 &told);
    EXPECT_EQ(ggml_backend_graph_compute(bench.stream(), graph), GGML_STATUS_SUCCESS);
    ggml_log_set(nullptr, nullptr);
    EXPECT_NE(told.find("add: ADD f32 1000 f32 1000"), std::string::npos) << told;
    EXPECT_NE(told.find("sqr: SQR f32 1000"), std::string::npos) << told;
    EXPECT_NE(told.find("us in all"), std::string::npos) << told;
}

TEST(VulkanDevice, ReportsAnIndexOutsideOfItsTable) {
    HEDDLE_BENCH(bench, Options{});
    ggml_tensor* table = ggml_new_tensor_2d(bench.context(), GGML_TYPE_F32, 4, 3);
    ggml_tensor* ids = ggml_new_tensor_1d(bench.context(), GGML_TYPE_I32, 2);
    ggml_tensor* y = ggml_get_rows(bench.context(), table, ids);
    ggml_cgraph* graph = bench.graph(y);
    ASSERT_TRUE(bench.allocate());
    const std::vector<float> rows = ramp(12);
    const std::array<std::int32_t, 2> indices{1, 7};
    ggml_backend_tensor_set(table, rows.data(), 0, ggml_nbytes(table));
    ggml_backend_tensor_set(ids, indices.data(), 0, ggml_nbytes(ids));
    VulkanStream* const stream = vulkan_stream(bench.stream());
    ASSERT_TRUE(stream->compute(*graph));
    const auto finished = stream->synchronize();
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().message,
              "GET_ROWS on Vulkan0: index 7 is outside of its table, which has 3 entries");
    EXPECT_EQ(values_of(y), (std::vector<float>{5, 6, 7, 8, 0, 0, 0, 0}));
    EXPECT_TRUE(stream->synchronize()) << "it is reported once";
}

TEST(VulkanDevice, IsNotAmongThoseFoundByThemselves) {
    const auto instance = Instance::open(Options{}.loader);
    if (!instance) GTEST_SKIP() << instance.error().message;
    const auto survey = survey_devices(*instance, {});
    ASSERT_TRUE(survey);
    for (const Board& board : survey->boards) EXPECT_FALSE(board.facts.is_software) << board.name;
}

}  // namespace
}  // namespace heddle::vulkan
