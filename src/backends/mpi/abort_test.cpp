// A program changes its mind: what workers do for it ends, and streams go on with what comes next.
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <deque>
#include <mutex>

#include "backends/mpi/test_support.hpp"
#include "ggml/ops_math.h"

namespace heddle::mpi {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr std::chrono::seconds kAgesAgo{20};  ///< nothing is waited for any longer than this

/// What a worker's device does, as far as tests decide it.
struct Device {
    std::atomic<int> graphs{0};        ///< begun so far
    std::atomic<int> nodes{0};         ///< computed so far, where the device asks
    std::atomic<int> stays_at{0};      ///< this node until it is told to stop
    std::atomic<bool> is_held{false};  ///< before each graph
    std::atomic<bool> is_deaf{false};  ///< it does not ask whether to stop
};
Device device;

template <class Done>
void wait_until(const Done& done) {
    const auto until = Clock::now() + kAgesAgo;
    while (!done() && Clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
}

/// What a worker wants to be asked for one of its streams.
struct Check {
    ggml_abort_callback callback = nullptr;
    void* data = nullptr;
};

/// What the CPU asks after each node.
bool after_node(void* check) {
    const auto says_stop = [&] {
        const Check& asked = *static_cast<Check*>(check);
        return asked.callback(asked.data);
    };
    if (++device.nodes == device.stays_at) wait_until(says_stop);
    return says_stop();
}

void set_abort(ggml_backend_t stream, ggml_abort_callback callback, void* data) {
    static std::mutex lock;
    static std::deque<Check> checks;
    const std::lock_guard guard(lock);
    ggml_backend_cpu_set_abort_callback(stream, after_node,
                                        &checks.emplace_back(Check{callback, data}));
}

void before_graph() {
    ++device.graphs;
    wait_until([] { return !device.is_held; });
}

/// The CPU, as `device` has it.
ggml_backend_dev_t watched_cpu() {
    static ggml_backend_reg registration = *ggml_backend_cpu_reg();
    registration.iface.get_proc_address = [](ggml_backend_reg_t, const char* name) -> void* {
        if (name != std::string_view("ggml_backend_set_abort_callback")) {
            return ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), name);
        }
        return device.is_deaf ? nullptr : reinterpret_cast<void*>(set_abort);
    };
    const ggml_backend_dev_t cpu = cpu_that_calls<before_graph>();
    cpu->reg = &registration;
    return cpu;
}

/// What a program wants: to go on, or to stop.
struct Wish {
    std::atomic<bool> stops{false};
    std::atomic<int> asked{0};
    std::function<void()> meanwhile{};  ///< what the program does when it is asked

    static bool ask(void* self) {
        auto& wish = *static_cast<Wish*>(self);
        ++wish.asked;
        if (wish.meanwhile) wish.meanwhile();
        return wish.stops;
    }
};

/// Workers with such devices, and on the first of them a stream and a graph that doubles a value
/// once with each node.
class AbortTest : public testing::Test {
protected:
    static constexpr int kNodes = 100;

    void start(int workers = 1, milliseconds timeout = std::chrono::seconds(10)) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
        device.graphs = device.nodes = device.stays_at = 0;
        device.is_held = false;
        TestJob::Serving serving;
        serving.device = watched_cpu();
        Settings settings;
        settings.timeout = timeout;
        job.emplace(workers, 1, settings, serving);
        stream = make_stream(0);
        x = make_tensor(0, 1);
        graph = ggml_new_graph_custom(context.get(), 2 * kNodes, false);
        ggml_tensor* node = x;
        for (int i = 0; i < kNodes; ++i) {
            node = ggml_scale_inplace(context.get(), node, 2.0F);
            ggml_backend_view_init(node);
        }
        ggml_build_forward_expand(graph, node);
        heddle_clear_error();
    }
    void TearDown() override {
        device.is_held = device.is_deaf = false;
        wish.stops = true;
    }

    ggml_tensor* make_tensor(std::size_t worker, std::int64_t count) {
        ggml_tensor* const made = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, count);
        const auto type = ggml_backend_dev_buffer_type(job->device(worker));
        buffers.emplace_back(ggml_backend_buft_alloc_buffer(type, ggml_nbytes(made)));
        ggml_backend_tensor_alloc(buffers.back().get(), made,
                                  ggml_backend_buffer_get_base(buffers.back().get()));
        return made;
    }

    /// Its number is `last_number` afterwards.
    ggml_backend_ptr make_stream(std::size_t worker) {
        last_number = job->cluster->next_number() + 1;
        return ggml_backend_ptr(ggml_backend_dev_init(job->device(worker), nullptr));
    }

    void set(ggml_backend_t of, Wish* asked) const {
        const auto set =
            reinterpret_cast<ggml_backend_set_abort_callback_t>(ggml_backend_reg_get_proc_address(
                ggml_backend_mpi_reg(), "ggml_backend_set_abort_callback"));
        ASSERT_NE(set, nullptr);
        set(of, asked != nullptr ? Wish::ask : nullptr, asked);
    }

    void reset_value() const {
        const float one = 1;
        ggml_backend_tensor_set(x, &one, 0, sizeof one);
    }
    /// Nodes that were computed since.
    int doublings() const {
        float value = 0;
        ggml_backend_tensor_get(x, &value, 0, sizeof value);
        return static_cast<int>(std::log2(value));
    }

    /// Until the worker has heard that the stream is to stop: it has answered what it was asked
    /// after that.
    void wait_for_stop(std::uint32_t number, std::size_t worker = 0) const {
        wait_until([&] { return !job->cluster->is_done(number, 0); });
        const ggml_backend_buffer_ptr asked(
            ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job->device(worker)), 64));
        EXPECT_NE(asked, nullptr);
    }

    /// The program wants to stop when so many nodes are computed.
    void stop_after(int nodes) {
        device.stays_at = nodes;
        wish.meanwhile = [this, nodes] { wish.stops = device.nodes >= nodes; };
        set(stream.get(), &wish);
    }

    Wish wish;
    std::optional<TestJob> job;
    ggml_context_ptr context{ggml_init({std::size_t{1} << 20, nullptr, true})};
    std::vector<ggml_backend_buffer_ptr> buffers;
    ggml_backend_ptr stream;
    std::uint32_t last_number = 0;
    ggml_tensor* x = nullptr;
    ggml_cgraph* graph = nullptr;
};

TEST_F(AbortTest, EndsAGraphInTheMiddleAndTheStreamGoesOn) {
    start();
    reset_value();
    stop_after(10);
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_ABORTED);
    EXPECT_THAT(heddle_last_error(), HasSubstr("asked to stop"));
    EXPECT_GE(doublings(), 10);
    EXPECT_LT(doublings(), kNodes / 2) << "the rest was left out";
    reset_value();
    wish.meanwhile = {};
    wish.stops = false;
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS);
    EXPECT_EQ(doublings(), kNodes);
    // No other is asked any more.
    set(stream.get(), nullptr);
    wish.stops = true;
    reset_value();
    const int asked = wish.asked;
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS);
    EXPECT_EQ(doublings(), kNodes);
    EXPECT_EQ(wish.asked, asked);
}

TEST_F(AbortTest, SkipsWhatIsQueuedWhereTheDeviceDoesNotAsk) {
    device.is_deaf = true;
    start();
    const std::uint32_t number = last_number;
    reset_value();
    wish.meanwhile = [&] { wish.stops = device.graphs > 0; };
    set(stream.get(), &wish);
    device.is_held = true;
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(ggml_backend_graph_compute_async(stream.get(), graph), GGML_STATUS_SUCCESS);
    }
    std::thread lets_go([&] {
        wait_for_stop(number);
        device.is_held = false;
    });
    ggml_backend_synchronize(stream.get());
    lets_go.join();
    EXPECT_THAT(heddle_last_error(), HasSubstr("asked to stop"));
    EXPECT_EQ(device.graphs, 1) << "the first one was begun before";
    EXPECT_EQ(doublings(), kNodes);
    // Waiting has no status, so the next graph has it; then the stream goes on.
    EXPECT_EQ(ggml_backend_graph_compute_async(stream.get(), graph), GGML_STATUS_ABORTED);
    reset_value();
    set(stream.get(), nullptr);
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS);
    EXPECT_EQ(device.graphs, 2);
    EXPECT_EQ(doublings(), kNodes);
}

TEST_F(AbortTest, AsksNothingWhereNothingRunsAndLetsTheProgramDoAnything) {
    start();
    reset_value();
    set(stream.get(), &wish);
    ggml_backend_synchronize(stream.get());
    EXPECT_EQ(wish.asked, 0);
    // The program may use workers, also this stream, and change its mind for good.
    const ggml_backend_ptr other = make_stream(0);
    wish.meanwhile = [&] {
        EXPECT_NE(ggml_backend_buffer_ptr(ggml_backend_buft_alloc_buffer(
                      ggml_backend_dev_buffer_type(job->device(0)), 64)),
                  nullptr);
        ggml_backend_synchronize(other.get());
        set(stream.get(), nullptr);
        device.is_held = false;
        ggml_backend_synchronize(stream.get());
    };
    device.is_held = true;
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS);
    EXPECT_EQ(wish.asked, 1);
    EXPECT_EQ(doublings(), kNodes);
}

TEST_F(AbortTest, IsAskedForByWhatWaitsForAnEvent) {
    start();
    reset_value();
    stop_after(10);
    const ggml_backend_event_ptr event(ggml_backend_event_new(job->device(0)));
    EXPECT_EQ(ggml_backend_graph_compute_async(stream.get(), graph), GGML_STATUS_SUCCESS);
    ggml_backend_event_record(event.get(), stream.get());
    for (int i = 0; i < 3; ++i) ggml_backend_graph_compute_async(stream.get(), graph);
    ggml_backend_event_synchronize(event.get());
    EXPECT_EQ(ggml_backend_graph_compute_async(stream.get(), graph), GGML_STATUS_ABORTED);
    ggml_backend_synchronize(stream.get());
    EXPECT_EQ(device.graphs, 1);
    EXPECT_LT(doublings(), kNodes / 2);
}

TEST_F(AbortTest, LeavesOtherStreamsAloneAndMayBeTheLastThingAStreamHears) {
    start();
    const std::uint32_t number = last_number;
    reset_value();
    wish.stops = true;
    set(stream.get(), &wish);
    device.is_held = true;
    for (int i = 0; i < 5; ++i) ggml_backend_graph_compute_async(stream.get(), graph);
    std::thread waits([&] {
        heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN);
        ggml_backend_synchronize(stream.get());
    });
    wait_for_stop(number);
    device.is_held = false;
    waits.join();
    stream.reset();
    const ggml_backend_ptr other = make_stream(0);
    reset_value();
    EXPECT_EQ(ggml_backend_graph_compute(other.get(), graph), GGML_STATUS_SUCCESS);
    EXPECT_EQ(doublings(), kNodes);
    EXPECT_FALSE(job->cluster->loss(1));
}

TEST_F(AbortTest, DoesNotWaitForAWorkerThatFallsSilent) {
    start(1, std::chrono::seconds(2));  // it is there to begin with, also on a machine that stalls
    wish.stops = true;
    wish.meanwhile = [&] { job->fabric.silence(1); };
    set(stream.get(), &wish);
    device.is_held = true;
    const auto begin = Clock::now();
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_FAILED);
    EXPECT_THAT(heddle_last_error(), HasSubstr("MPI1: lost: nothing was heard"));
    EXPECT_LT(Clock::now() - begin, kAgesAgo / 2) << "its graph is held longer";
    device.is_held = false;
}

TEST_F(AbortTest, OfAReceiverDoesNotHoldUpTheSender) {
    start(2);
    constexpr std::int64_t kCount = std::int64_t{(kTransferWindow + 9) * kChunk / sizeof(float)};
    const ggml_backend_ptr receiver = make_stream(1);
    const std::uint32_t number = last_number;
    ggml_tensor *const here = make_tensor(0, kCount), *const there = make_tensor(1, kCount);
    const auto copy = [&] {
        ggml_backend_tensor_copy_async(stream.get(), receiver.get(), here, there);
    };
    // The receiver waits for the sender, which is held at a graph, and is told to stop.
    device.is_held = true;
    ggml_backend_graph_compute_async(stream.get(), graph);
    copy();
    copy();
    wish.stops = true;
    set(receiver.get(), &wish);
    std::thread lets_go([&] {
        wait_for_stop(number, 1);
        device.is_held = false;
    });
    ggml_backend_synchronize(receiver.get());
    lets_go.join();
    EXPECT_THAT(heddle_last_error(), HasSubstr("asked to stop"));
    heddle_clear_error();
    ggml_backend_synchronize(stream.get());
    EXPECT_STREQ(heddle_last_error(), "") << "the sender has sent all";
    copy();  // the receiver still skips what it is told
    ggml_backend_synchronize(stream.get());
    EXPECT_STREQ(heddle_last_error(), "");
    EXPECT_FALSE(job->cluster->loss(1) || job->cluster->loss(2));
}

TEST_F(AbortTest, OfAReceiverStopsTheSenderIfItWouldSayTheSame) {
    start(2);
    const ggml_backend_ptr receiver = make_stream(1);
    ggml_tensor* const copied = make_tensor(1, 1);
    reset_value();
    stop_after(10);
    set(receiver.get(), &wish);
    ggml_backend_graph_compute_async(stream.get(), graph);
    ggml_backend_tensor_copy_async(stream.get(), receiver.get(), x, copied);
    ggml_backend_synchronize(receiver.get());
    EXPECT_THAT(heddle_last_error(), HasSubstr("asked to stop"));
    ggml_backend_synchronize(stream.get());
    EXPECT_GE(doublings(), 10);
    EXPECT_LT(doublings(), kNodes / 2);
}

TEST_F(AbortTest, IsNoReasonForASchedulerToLeaveADeviceOut) {
    start(2);
    constexpr int kHalf = 10;
    const ggml_backend_ptr second = make_stream(1), cpu(ggml_backend_cpu_init());
    ggml_backend_t streams[] = {stream.get(), second.get(), cpu.get()};
    const ggml_backend_sched_ptr sched(
        ggml_backend_sched_new(streams, nullptr, 3, GGML_DEFAULT_GRAPH_SIZE, true, true));
    const ggml_context_ptr own = small_context();
    ggml_tensor* const in = ggml_new_tensor_1d(own.get(), GGML_TYPE_F32, 4);
    ggml_set_input(in);
    ggml_tensor* node = in;
    for (int i = 0; i <= 2 * kHalf; ++i) {
        node = ggml_scale(own.get(), node, 2.0F);
        ggml_backend_sched_set_tensor_backend(sched.get(), node, streams[i / kHalf]);
    }
    ggml_set_output(node);
    ggml_cgraph* const work = ggml_new_graph_custom(own.get(), 64, false);
    ggml_build_forward_expand(work, node);
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched.get(), work));
    const auto run = [&](float value) {
        const std::vector<float> values(4, value);
        ggml_backend_tensor_set(in, values.data(), 0, ggml_nbytes(in));
        return ggml_backend_sched_graph_compute(sched.get(), work);
    };
    device.nodes = 0;
    stop_after(5);
    set(second.get(), &wish);
    EXPECT_EQ(run(1), GGML_STATUS_ABORTED);
    set(stream.get(), nullptr);
    set(second.get(), nullptr);
    for (const float value : {3.0F, 5.0F}) {
        const int before = device.nodes;
        EXPECT_EQ(run(value), GGML_STATUS_SUCCESS) << heddle_last_error();
        EXPECT_EQ(device.nodes, before + 2 * kHalf) << "both workers take part";
        float found = 0;
        ggml_backend_tensor_get(node, &found, 0, sizeof found);
        EXPECT_EQ(found, value * (1 << (2 * kHalf + 1)));
    }
}

}  // namespace
}  // namespace heddle::mpi
