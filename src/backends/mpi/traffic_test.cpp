// What travels, and between whom.
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "backends/mpi/client/trace.hpp"
#include "backends/mpi/test_support.hpp"
#include "ggml/ops_math.h"

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

TEST(Traffic, IsNotMoreWhenRankZeroWaitsForWhatItSent) {
    TestJob job(1);
    const ggml_context_ptr context = small_context();
    const auto x = vector_on(job, 0, context.get(), 64);
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    const ggml_backend_event_ptr event(ggml_backend_event_new(job.device(0)));
    const std::vector<float> values(64, 1.5F);
    // Of several tries: rank 0 says now and then that it is alive.
    std::size_t before = 0;
    const auto least_sent = [&](const std::function<void()>& wait) {
        std::size_t least = SIZE_MAX;
        for (int i = 0; i < 5; ++i) {
            before = job.fabric.carried(0, 1);
            ggml_backend_tensor_set_async(stream.get(), x.tensor, values.data(), 0, 256);
            wait();
            least = std::min(least, job.fabric.carried(0, 1) - before);
            ggml_backend_synchronize(stream.get());
        }
        return least;
    };
    const std::size_t alone = least_sent([&] {  // what is kept back for a moment goes by itself
        for (int i = 0; i < 5000 && job.fabric.carried(0, 1) - before <= 256; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    EXPECT_GT(alone, 256U);
    EXPECT_EQ(least_sent([&] { ggml_backend_synchronize(stream.get()); }), alone);
    EXPECT_EQ(least_sent([&] {
                  ggml_backend_event_record(event.get(), stream.get());
                  ggml_backend_event_synchronize(event.get());
              }),
              alone);
}

TEST(Habits, SleepThroughMostOfAWaitIfTheLastOnesWereAllLong) {
    using std::chrono::microseconds;
    Habit habit;
    for (int i = 0; i < 3; ++i) habit.note(microseconds(400 + i));
    EXPECT_EQ(habit.nap(), microseconds(0));  // too few are known
    habit.note(microseconds(1000));
    EXPECT_EQ(habit.nap(), microseconds(300));
    habit.note(microseconds(40));
    EXPECT_EQ(habit.nap(), microseconds(0));
    for (int i = 0; i < 4; ++i) habit.note(std::chrono::seconds(9));
    EXPECT_LE(habit.nap(), std::chrono::milliseconds(50));
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

/// Scales a vector many times, at the end by `last`.
ggml_cgraph* scaling(ggml_context* context, ggml_tensor* node, float last) {
    ggml_cgraph* const graph = ggml_new_graph_custom(context, 64, false);
    for (int i = 0; i < 20; ++i) {
        node = ggml_scale_inplace(context, node, i < 19 ? 1 : last);
        ggml_backend_view_init(node);
    }
    ggml_build_forward_expand(graph, node);
    return graph;
}

TEST(Traffic, OfAGraphThatDiffersLittleIsWhatDiffers) {
    TestJob job(1);
    const ggml_context_ptr context(ggml_init({std::size_t{1} << 20, nullptr, true}));
    const auto x = vector_on(job, 0, context.get(), 64);
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    ggml_set_name(x.tensor, "x");
    const auto first = [&] {
        float value = 0;
        ggml_backend_tensor_get(x.tensor, &value, 0, sizeof value);
        return value;
    };
    const auto sent_by = [&](float last) {
        const std::vector<float> ones(64, 1.0F);
        ggml_backend_tensor_set(x.tensor, ones.data(), 0, 256);
        EXPECT_EQ(first(), 1) << "it is there, and nothing more is on its way";
        ggml_cgraph* const graph = scaling(context.get(), x.tensor, last);
        const std::size_t before = job.fabric.carried(0, 1);
        EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS);
        const std::size_t sent = job.fabric.carried(0, 1) - before;
        EXPECT_EQ(first(), last);
        return sent;
    };
    EXPECT_GT(sent_by(2), 2000U) << "the first one travels whole";
    EXPECT_LE(sent_by(3), 500U) << "a parameter, and whether the device can do it";
    EXPECT_LE(sent_by(5), 500U) << "against the one before";
    // Any of them is known by now.
    EXPECT_LE(sent_by(2), 200U);
}

TEST(Traffic, OfAMaskIsABitForEachElement) {
    TestJob job(1);
    const ggml_context_ptr context = small_context();
    const auto mask = vector_on(job, 0, context.get(), 1 << 20);
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    std::vector<float> values(1 << 20);
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -INFINITY;
    const std::size_t bytes = values.size() * sizeof(float);
    const auto sent_by = [&](const auto& write) {
        const std::size_t before = job.fabric.carried(0, 1);
        write();
        std::vector<float> found(values.size());
        ggml_backend_tensor_get(mask.tensor, found.data(), 0, bytes);
        EXPECT_EQ(found, values);
        return job.fabric.carried(0, 1) - before;
    };
    EXPECT_LT(sent_by([&] { ggml_backend_tensor_set(mask.tensor, values.data(), 0, bytes); }),
              bytes / 30);
    values[5] = -INFINITY;
    EXPECT_LT(sent_by([&] {
                  ggml_backend_tensor_set_async(stream.get(), mask.tensor, values.data(), 0, bytes);
                  ggml_backend_synchronize(stream.get());
              }),
              bytes / 30);
    std::iota(values.begin(), values.end(), 0.0F);
    EXPECT_GT(sent_by([&] { ggml_backend_tensor_set(mask.tensor, values.data(), 0, bytes); }),
              bytes);
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

/// The second graph, of either worker, ends only when another one has begun: the two are computed
/// at the same time, or the wait is given up. How fast the machine is does not matter.
struct Rendezvous {
    static inline std::mutex lock;
    static inline std::condition_variable other_begins;
    static inline int begun = 0;  ///< graphs
    static inline bool has_met = false;

    static void meet() {
        constexpr std::chrono::seconds kPatience{10};
        std::unique_lock guard(lock);
        const int number = ++begun;
        if (number == 2)
            has_met = other_begins.wait_for(guard, kPatience, [] { return begun > 2; });
        other_begins.notify_all();
    }
};

ggml_cgraph* halving(ggml_context* context, ggml_tensor* vector) {
    ggml_cgraph* const graph = ggml_new_graph_custom(context, 8, false);
    ggml_tensor* const node = ggml_scale_inplace(context, vector, 0.5F);
    ggml_backend_view_init(node);
    ggml_build_forward_expand(graph, node);
    return graph;
}

TEST(Pipelines, ComputeOnSeveralWorkersAtATime) {
    TestJob::Serving serving;
    serving.device = cpu_that_calls<Rendezvous::meet>();
    TestJob job(2, 1, {}, serving);
    const ggml_context_ptr context = small_context();
    const ggml_backend_ptr source(ggml_backend_dev_init(job.device(0), nullptr));
    const ggml_backend_ptr target(ggml_backend_dev_init(job.device(1), nullptr));
    constexpr std::int64_t kCount = 1000;
    std::vector<OnWorker> places;
    std::vector<std::pair<ggml_cgraph*, ggml_cgraph*>> stages;
    for (int slot = 0; slot < 4; ++slot) {
        for (const std::size_t worker : {0, 1}) {
            places.push_back(vector_on(job, worker, context.get(), kCount));
        }
        const std::vector<float> values(kCount, static_cast<float>(4 * (slot + 1)));
        ggml_backend_tensor_set(places[places.size() - 2].tensor, values.data(), 0,
                                values.size() * sizeof(float));
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
    EXPECT_EQ(Rendezvous::begun, 8);
    EXPECT_TRUE(Rendezvous::has_met) << "the second slot while the first goes on";
    for (std::size_t slot = 0; slot < stages.size(); ++slot) {
        std::vector<float> found(kCount);
        ggml_backend_tensor_get(places[2 * slot + 1].tensor, found.data(), 0,
                                found.size() * sizeof(float));
        EXPECT_EQ(found, std::vector<float>(kCount, static_cast<float>(slot + 1)));
    }
}

}  // namespace
}  // namespace heddle::mpi
