// What travels, and between whom.
#include <algorithm>
#include <map>
#include <numeric>

#include "backends/mpi/client/trace.hpp"
#include "backends/mpi/test_support.hpp"

namespace heddle::mpi {
namespace {

struct OnWorker {
    ggml_backend_buffer_ptr buffer;
    ggml_tensor* tensor;
};

OnWorker vector_on(const TestJob& job, std::size_t device, ggml_context* context, std::int64_t n) {
    OnWorker placed{nullptr, ggml_new_tensor_1d(context, GGML_TYPE_F32, n)};
    placed.buffer.reset(ggml_backend_buft_alloc_buffer(
        ggml_backend_dev_buffer_type(job.device(device)), ggml_nbytes(placed.tensor)));
    ggml_backend_tensor_alloc(placed.buffer.get(), placed.tensor,
                              ggml_backend_buffer_get_base(placed.buffer.get()));
    return placed;
}

TEST(Traffic, OfACopyBetweenWorkersDoesNotPassRankZero) {
    TestJob job(2);
    const ggml_context_ptr context = small_context();
    constexpr std::int64_t kCount = std::int64_t{5}
                                    << 20;  // 20 MiB: more than is under way at once
    const auto from = vector_on(job, 0, context.get(), kCount);
    const auto to = vector_on(job, 1, context.get(), kCount);
    std::vector<float> values(static_cast<std::size_t>(kCount));
    std::iota(values.begin(), values.end(), 0.0F);
    ggml_backend_tensor_set(from.tensor, values.data(), 0, values.size() * sizeof(float));
    const ggml_backend_ptr source(ggml_backend_dev_init(job.device(0), nullptr));
    const ggml_backend_ptr target(ggml_backend_dev_init(job.device(1), nullptr));
    const auto past_rank_zero = [&] { return job.fabric.carried(0, 2) + job.fabric.carried(1, 0); };
    const std::size_t before = past_rank_zero();
    ggml_backend_tensor_copy_async(source.get(), target.get(), from.tensor, to.tensor);
    ggml_backend_synchronize(target.get());
    EXPECT_LT(past_rank_zero() - before, 4096U);
    EXPECT_GE(job.fabric.carried(1, 2), values.size() * sizeof(float));
    std::vector<float> found(values.size());
    ggml_backend_tensor_get(to.tensor, found.data(), 0, found.size() * sizeof(float));
    EXPECT_EQ(found, values);
}

TEST(Traffic, OfAGraphThatIsKnownIsItsNumber) {
    TestJob job(1);
    const ggml_context_ptr context = small_context();
    const auto x = vector_on(job, 0, context.get(), 64);
    ggml_tensor* node = x.tensor;
    ggml_cgraph* const graph = ggml_new_graph_custom(context.get(), 64, false);
    for (int i = 0; i < 20; ++i) {
        node = ggml_scale_inplace(context.get(), node, 1);
        if (node->buffer == nullptr) ggml_backend_view_init(node);
    }
    ggml_build_forward_expand(graph, node);
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    const auto sent_by_run = [&] {
        const std::size_t before = job.fabric.carried(0, 1);
        EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS);
        return job.fabric.carried(0, 1) - before;
    };
    EXPECT_GT(sent_by_run(), 2000U) << "the first time it travels whole";
    EXPECT_LE(sent_by_run(), 200U) << "the same content: its number, and perhaps a ping";
}

TEST(Traces, ShowWhatStreamsOfWorkersDidOnOneClock) {
    TestJob job(2);
    const ggml_context_ptr context = small_context();
    const auto from = vector_on(job, 0, context.get(), 1000);
    const auto to = vector_on(job, 1, context.get(), 1000);
    const ggml_backend_ptr source(ggml_backend_dev_init(job.device(0), nullptr));
    const ggml_backend_ptr target(ggml_backend_dev_init(job.device(1), nullptr));
    const auto copy = [&] {
        ggml_backend_tensor_copy_async(source.get(), target.get(), from.tensor, to.tensor);
        ggml_backend_synchronize(source.get());
        ggml_backend_synchronize(target.get());
    };
    copy();  // is not traced
    job.cluster->set_tracing(true);
    const double before = static_cast<double>(clock_now()) * 1e-9;
    copy();
    const double after = static_cast<double>(clock_now()) * 1e-9;
    std::map<std::string, heddle_trace_span> spans;
    std::map<std::string, std::string> processes;
    each_span(*job.cluster, [&](const heddle_trace_span& span) {
        const std::string name = span.name;
        if (name != "send" && name != "receive") return;
        EXPECT_FALSE(spans.contains(name)) << "one of each";
        spans[name] = span;
        processes[name] = span.process;
        EXPECT_LE(before - span.error, span.start);
        EXPECT_LE(span.start, span.end);
        EXPECT_LE(span.end, after + span.error);
        EXPECT_GT(span.error, 0);
    });
    ASSERT_EQ(spans.size(), 2U);
    EXPECT_EQ(processes["send"].substr(0, 10), "rank 1 on ");
    EXPECT_EQ(processes["receive"].substr(0, 10), "rank 2 on ");
    EXPECT_NE(spans["send"].transfer, 0U);
    EXPECT_EQ(spans["send"].transfer, spans["receive"].transfer);
    EXPECT_TRUE(spans["send"].sends);
    EXPECT_FALSE(spans["receive"].sends);
    job.cluster->set_tracing(false);
    each_span(*job.cluster, [](const heddle_trace_span&) { FAIL() << "none is traced"; });
}

/// Halves a vector many times: several times the work of sending it, also under sanitizers.
ggml_cgraph* halving(ggml_context* context, ggml_tensor* vector) {
    constexpr int kTimes = 96;
    ggml_cgraph* const graph = ggml_new_graph_custom(context, 2 * kTimes, false);
    ggml_tensor* node = vector;
    for (int i = 0; i < kTimes; ++i) {
        node = ggml_scale_inplace(context, node, 0.5F);
        ggml_backend_view_init(node);
    }
    ggml_build_forward_expand(graph, node);
    return graph;
}

TEST(Pipelines, ComputeOnSeveralWorkersAtATime) {
    TestJob job(2);
    const ggml_context_ptr context(ggml_init({std::size_t{4} << 20, nullptr, true}));
    const ggml_backend_ptr source(ggml_backend_dev_init(job.device(0), nullptr));
    const ggml_backend_ptr target(ggml_backend_dev_init(job.device(1), nullptr));
    job.cluster->set_tracing(true);
    constexpr std::int64_t kCount = 1 << 17;
    std::vector<OnWorker> places;
    std::vector<std::pair<ggml_cgraph*, ggml_cgraph*>> stages;
    for (int slot = 0; slot < 4; ++slot) {
        for (const std::size_t worker : {0, 1}) {
            places.push_back(vector_on(job, worker, context.get(), kCount));
            ggml_backend_buffer_clear(places.back().buffer.get(), 0);
        }
        stages.emplace_back(halving(context.get(), places[places.size() - 2].tensor),
                            halving(context.get(), places.back().tensor));
    }
    for (std::size_t slot = 0; slot < stages.size(); ++slot) {
        ggml_backend_graph_compute_async(source.get(), stages[slot].first);
        ggml_backend_tensor_copy_async(source.get(), target.get(), places[2 * slot].tensor,
                                       places[2 * slot + 1].tensor);
        ggml_backend_graph_compute_async(target.get(), stages[slot].second);
    }
    ggml_backend_synchronize(source.get());
    ggml_backend_synchronize(target.get());
    std::map<std::string, std::vector<std::pair<double, double>>> computing;
    each_span(*job.cluster, [&](const heddle_trace_span& span) {
        if (std::string(span.name) != "compute") return;
        computing[span.process].emplace_back(span.start, span.end);
    });
    ASSERT_EQ(computing.size(), 2U);
    const auto &first = computing.begin()->second, &second = computing.rbegin()->second;
    ASSERT_EQ(first.size(), 4U);
    ASSERT_EQ(second.size(), 4U);
    const auto overlaps = [&](const auto& one) {
        return std::ranges::any_of(second, [&](const auto& other) {
            return one.first < other.second && other.first < one.second;
        });
    };
    EXPECT_TRUE(std::ranges::any_of(first, overlaps)) << "the second slot while the first goes on";
    for (std::size_t slot = 0; slot < 4; ++slot) {
        EXPECT_GE(second[slot].first, first[slot].second - 1e-3) << "but not before its input";
    }
}

}  // namespace
}  // namespace heddle::mpi
