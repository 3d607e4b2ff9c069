// How long things last at a worker, and what a rank may take of another.
#include <gmock/gmock.h>

#include <atomic>

#include "backends/mpi/test_support.hpp"
#include "ggml/ops_math.h"
#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// A tensor of a worker with a graph that halves it.
struct Halving {
    Halving(const TestJob& job, std::int64_t n) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        ggml_tensor* const x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, n);
        buffer.reset(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(0)),
                                                    ggml_nbytes(x)));
        ggml_backend_tensor_alloc(buffer.get(), x, ggml_backend_buffer_get_base(buffer.get()));
        ggml_backend_buffer_clear(buffer.get(), 0);
        node = ggml_scale_inplace(context.get(), x, 0.5F);
        ggml_backend_view_init(node);
        graph = ggml_new_graph_custom(context.get(), 8, false);
        ggml_build_forward_expand(graph, node);
    }

    ggml_context_ptr context = small_context();
    ggml_backend_buffer_ptr buffer;
    ggml_tensor* node = nullptr;
    ggml_cgraph* graph = nullptr;
};

TEST(Streams, ThatADeviceDoesNotStartCostAnErrorNotTheWorker) {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    ggml_backend_device stubborn = *ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    stubborn.iface.init_backend = [](ggml_backend_dev_t, const char*) -> ggml_backend_t {
        return nullptr;
    };
    TestJob::Serving serving;
    serving.device = &stubborn;
    TestJob job(1, 1, {}, serving);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(ggml_backend_dev_init(job.device(0), nullptr), nullptr);
    }
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(0)), 64));
    EXPECT_NE(buffer, nullptr) << "the worker still answers";
    EXPECT_FALSE(job.cluster->loss(1));
    job.end();
    EXPECT_TRUE(job.outcomes[0]) << job.outcomes[0].error().message;
}

TEST(Graphs, GoWithTheirStreamAndRunOnNoOther) {
    Graphs graphs;
    ByteWriter empty;
    put_graph(empty, {});
    for (std::uint32_t number = 1; number <= kMostGraphs; ++number) {
        const auto whole = graphs.add_part({number, 7}, empty.size(), empty.view());
        ASSERT_TRUE(whole && *whole);
        graphs.keep({number, 7}, **whole, failure(Errc::device, "a reason"));
    }
    EXPECT_EQ(graphs.add_part({100, 7}, empty.size(), empty.view()).error().message,
              "more than 64 graphs of a stream");
    EXPECT_FALSE(*graphs.add_part({100, 8}, empty.size(), empty.view().first(2))) << "not all yet";
    EXPECT_FALSE(graphs.add_part({100, 9}, empty.size(), empty.view())) << "of another stream";
    for (std::uint32_t number = 101; number < 100 + kMostGraphs; ++number) {
        EXPECT_TRUE(graphs.add_part({number, 8}, empty.size(), empty.view().first(2)));
    }
    EXPECT_EQ(graphs.add_part({200, 8}, empty.size(), empty.view().first(2)).error().message,
              "more than 64 graphs of a stream");
    EXPECT_FALSE(*graphs.add_part({100, 8}, empty.size(), empty.view().first(0))) << "it has begun";
    EXPECT_TRUE(graphs.find({1, 7}));
    EXPECT_EQ(graphs.find({1, 8}).error().message, "stream 8 has no graph 1");
    EXPECT_FALSE(graphs.drop({1, 8}));
    EXPECT_TRUE(graphs.drop({1, 7}));
    graphs.drop_all(8);
    EXPECT_EQ(graphs.size(), kMostGraphs - 1);
    graphs.drop_all(7);
    EXPECT_EQ(graphs.size(), 0U);
}

TEST(Graphs, MayBeFreedWithTheirStreamWhileTheyWait) {
    TestJob job(1);
    const Halving half(job, 1 << 12);
    for (int i = 0; i < 20; ++i) {
        const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
        for (int run = 0; run < 5; ++run) {
            EXPECT_EQ(ggml_backend_graph_compute_async(stream.get(), half.graph),
                      GGML_STATUS_SUCCESS);
        }
    }
    float first = 1;
    ggml_backend_tensor_get(half.node, &first, 0, sizeof first);
    EXPECT_EQ(first, 0);
    EXPECT_FALSE(job.cluster->loss(1));
}

TEST(Worker, LeavesWithoutDoingWhatIsInItsQueues) {
    TestJob job(1);
    const Halving half(job, 1 << 20);
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    const auto begin = Clock::now();
    constexpr int kFew = 20, kMany = 2000;
    for (int i = 0; i < kFew; ++i) ggml_backend_graph_compute(stream.get(), half.graph);
    const auto few = Clock::now() - begin;
    for (int i = 0; i < kMany; ++i) ggml_backend_graph_compute_async(stream.get(), half.graph);
    const auto before = Clock::now();
    job.end();
    EXPECT_LT(Clock::now() - before, few * (kMany / kFew) / 2);
}

std::atomic<bool> takes_for_ever{true};

/// A graph takes as long as a test wants.
void take_for_ever() {
    while (takes_for_ever) std::this_thread::sleep_for(milliseconds(1));
}

TEST(Worker, IsLostWhenAGraphTakesLongerThanAnyMay) {
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    TestJob::Serving serving;
    serving.device = cpu_that_calls<take_for_ever>();
    Settings settings;
    settings.graph_timeout = milliseconds(200);
    TestJob job(1, 1, settings, serving);
    const Halving half(job, 64);
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    std::this_thread::sleep_for(milliseconds(300));
    EXPECT_FALSE(job.cluster->loss(1)) << "it has nothing to do";
    EXPECT_NE(ggml_backend_graph_compute(stream.get(), half.graph), GGML_STATUS_SUCCESS);
    EXPECT_THAT(heddle_last_error(), HasSubstr("MPI1: lost: a graph, with what it waits for, takes "
                                               "longer than the 0.2 s of "
                                               "HEDDLE_MPI_GRAPH_TIMEOUT"));
    takes_for_ever = false;
}

TEST(Memory, OfAWorkerIsNoMoreThanItsBudget) {
    constexpr std::size_t kBudget = 1 << 20;
    TestJob::Serving serving;
    serving.options.budgets = {kBudget};
    TestJob job(1, 1, {}, serving);
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    EXPECT_EQ(job.devices[0]->memory().total, kBudget);
    const auto allocate = [&](std::size_t size) {
        return ggml_backend_buffer_ptr(
            ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(0)), size));
    };
    EXPECT_EQ(allocate(kBudget + 1), nullptr);
    EXPECT_THAT(heddle_last_error(),
                HasSubstr("CPU: 1048577 bytes are more than is left of its budget of 1048576"));
    auto first = allocate(kBudget - 1000);
    ASSERT_NE(first, nullptr);
    EXPECT_LE(job.devices[0]->memory().free, 1000U);
    EXPECT_EQ(allocate(2000), nullptr);
    first.reset();
    EXPECT_NE(allocate(kBudget), nullptr) << "what was freed can be had again";
}

TEST(Addresses, AreAlignedAsThoseOfTheDevice) {
    for (const std::size_t alignment : {std::size_t{1}, std::size_t{64}, std::size_t{1} << 20}) {
        const auto range = AddressRange::reserve(100, alignment);
        ASSERT_TRUE(range);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range->base()) % alignment, 0U);
    }
    EXPECT_FALSE(AddressRange::reserve(SIZE_MAX - 10, 64));
}

/// Vectors on two workers, and streams of them.
struct Vectors {
    explicit Vectors(const TestJob& job) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        for (const std::size_t i : {0, 1, 1, 1}) {
            streams.emplace_back(ggml_backend_dev_init(job.device(i), nullptr));
            tensors.push_back(ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 4));
            buffers.emplace_back(ggml_backend_buft_alloc_buffer(
                ggml_backend_dev_buffer_type(job.device(i)), ggml_nbytes(tensors.back())));
            ggml_backend_tensor_alloc(buffers.back().get(), tensors.back(),
                                      ggml_backend_buffer_get_base(buffers.back().get()));
        }
        heddle_clear_error();
    }
    void copy(std::size_t from, std::size_t to) const {
        ggml_backend_tensor_copy_async(streams[from].get(), streams[to].get(), tensors[from],
                                       tensors[to]);
    }
    /// What went wrong in a stream.
    std::string failure_of(std::size_t stream) const {
        heddle_clear_error();
        ggml_backend_synchronize(streams[stream].get());
        return heddle_last_error();
    }

    ggml_context_ptr context = small_context();
    std::vector<ggml_backend_buffer_ptr> buffers;
    std::vector<ggml_tensor*> tensors;
    std::vector<ggml_backend_ptr> streams;
};

TEST(Failures, OfAStreamAreThoseOfStreamsThatWaitForIt) {
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    TestJob job(2, 1, kShortTimeout);
    const Vectors all(job);
    job.fabric.silence(1);
    all.copy(0, 1);  // never comes
    all.copy(1, 2);
    EXPECT_THAT(all.failure_of(2), HasSubstr("rank 1 is lost")) << "not what was there before";
    all.copy(2, 3);  // rank 0 knows of the failure by now, and was not asked about it
    EXPECT_THAT(all.failure_of(3), HasSubstr("rank 1 is lost"));
    EXPECT_THAT(all.failure_of(1), HasSubstr("rank 1 is lost"));
}

/// Memory of a worker's device. While it is broken nothing can be written to it; the first time
/// that turns out when a test lets it.
struct Memory {
    static inline std::atomic<bool> is_broken{false}, is_held{false};
    static inline std::atomic<int> writes{0};

    static void fail_to_write() {
        const int number = ++writes;
        while (number == 1 && is_held) std::this_thread::sleep_for(milliseconds(1));
        plugin::report(failure(Errc::device, "write ", number, " failed"));
    }
};

ggml_backend_dev_t cpu_that_breaks() {
    static ggml_backend_device device = *ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    static ggml_backend_buffer_type type = *ggml_backend_cpu_buffer_type();
    type.device = &device;
    type.iface.alloc_buffer = [](ggml_backend_buffer_type_t, std::size_t size) {
        const ggml_backend_buffer_t buffer =
            ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
        buffer->buft = &type;
        buffer->iface.set_tensor = [](ggml_backend_buffer_t, ggml_tensor*, const void*, std::size_t,
                                      std::size_t) {
            if (Memory::is_broken) Memory::fail_to_write();
        };
        return buffer;
    };
    device.iface.get_buffer_type = [](ggml_backend_dev_t) { return &type; };
    return &device;
}

TEST(Failures, OfWritesAreToldByTheNextGraphThatIsNotSkipped) {
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    TestJob::Serving serving;
    serving.device = cpu_that_breaks();
    TestJob job(1, 1, {}, serving);
    const Halving half(job, 4);
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    const auto failure_of_graph = [&] {
        heddle_clear_error();
        (void)ggml_backend_graph_compute(stream.get(), half.graph);
        return std::string(heddle_last_error());
    };
    const std::vector<float> values(4);
    Memory::is_broken = Memory::is_held = true;
    ggml_backend_tensor_set_async(stream.get(), half.node, values.data(), 0, 16);
    for (int i = 0; i < 5000 && Memory::writes < 1; ++i) {
        std::this_thread::sleep_for(milliseconds(1));
    }
    ggml_backend_tensor_set(half.node, values.data(), 0, 16);
    ggml_backend_graph_compute_async(stream.get(), half.graph);  // rank 0 knows of no failure yet
    EXPECT_NE(ggml_backend_ptr(ggml_backend_dev_init(job.device(0), nullptr)), nullptr)
        << "the worker has heard all of it";
    Memory::is_held = false;
    ggml_backend_synchronize(stream.get());
    Memory::is_broken = false;
    EXPECT_THAT(failure_of_graph(), HasSubstr("write 1 failed"));
    EXPECT_THAT(failure_of_graph(), HasSubstr("write 2 failed"));
    EXPECT_EQ(failure_of_graph(), "");
}

/// A worker that is played by the test.
struct Played {
    Played() : fabric(2), seat(fabric.join(1)) {
        WorkerFacts facts = own_facts();
        facts.devices = {{"CPU", "", "", 1 << 20, 1 << 20, {{"CPU", 64, 1 << 20}}}};
        ByteWriter hello = begin({.kind = Kind::hello});
        put_facts(hello, facts);
        seat->send(0, seal(std::move(hello)));
        auto started = Cluster::start(fabric.join(0), {});
        if (started) cluster = *std::move(started);
    }
    void say(const Header& header, const Result<>& outcome) {
        ByteWriter out = begin(header);
        put_outcome(out, outcome);
        seat->send(0, seal(std::move(out)));
    }
    /// Until rank 0 knows.
    void wait_for(std::uint32_t stream, std::uint64_t place) const {
        for (int i = 0; i < 5000 && !cluster->is_done(stream, place); ++i) {
            std::this_thread::sleep_for(milliseconds(1));
        }
    }

    ThreadFabric fabric;
    std::unique_ptr<Fabric> seat;
    std::unique_ptr<Cluster> cluster;
};

TEST(RankZero, KnowsThatWhatCameBehindAFailureWasSkipped) {
    Played played;
    ASSERT_TRUE(played.cluster);
    Cluster& cluster = *played.cluster;
    const std::uint32_t stream = cluster.add_stream(1);
    cluster.begin_stream(stream);
    const auto command = [&](Kind kind) { return seal(begin({.kind = kind, .stream = stream})); };
    ASSERT_TRUE(cluster.issue(stream, command(Kind::run)));
    std::array<std::byte, 8> bytes{};
    const Landing landing{bytes.data(), bytes.size(), bytes.size(), bytes.size()};
    ASSERT_TRUE(cluster.issue_read(stream, command(Kind::stream_read), 1000, landing));
    played.say({.kind = Kind::done, .stream = stream, .place = 1}, failure(Errc::device, "oh"));
    std::optional<Error> failed;
    for (int i = 0; i < 5000 && !failed; ++i) {
        failed = cluster.take_failure(stream);
        std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->message, "oh");
    // The worker has skipped the read, and was then told to go on.
    played.say({.kind = Kind::done, .stream = stream, .place = 3}, ok());
    played.wait_for(stream, 3);
    EXPECT_FALSE(cluster.loss(1));
    // From then on nothing may be missing.
    ASSERT_TRUE(cluster.issue_read(stream, command(Kind::stream_read), 1001, landing));
    played.say({.kind = Kind::done, .stream = stream, .place = 4}, ok());
    for (int i = 0; i < 5000 && !cluster.loss(1); ++i) std::this_thread::sleep_for(milliseconds(1));
    ASSERT_TRUE(cluster.loss(1));
    EXPECT_THAT(cluster.loss(1)->message, HasSubstr("it sent less than it was asked for"));
    EXPECT_THAT(cluster.ping_pong(0, 1, 64, 1).error().message, HasSubstr("less than it was"))
        << "no ping-pong with what is lost";
}

TEST(RankZero, DoesNotFreeWhatTheWorkerNeverHad) {
    Played played;
    ASSERT_TRUE(played.cluster);
    const std::uint32_t never = played.cluster->add_stream(1),
                        there = played.cluster->add_stream(1);
    played.cluster->begin_stream(there);
    played.cluster->remove_stream(never);
    played.cluster->remove_stream(there);
    const Bytes freed = next_of(*played.seat, Kind::free_stream);
    const Message message{0, freed};
    ASSERT_TRUE(open(message));
    EXPECT_EQ(open(message)->header.stream, there);
}

TEST(Worker, TakesOnlySoMuchFromAnotherThatItWasNotToldOf) {
    TestJob job(2, 1, milliseconds(2000));
    const auto chunk = [](std::uint32_t tag) {
        ByteWriter out = begin({.kind = Kind::chunk}, kChunk + 64);
        out.put(tag);
        put_outcome(out, ok());
        out.put(std::uint64_t{0});
        out.extend(kChunk);
        return seal(std::move(out));
    };
    for (std::uint32_t i = 0; i <= kMostUnasked / kChunk; ++i) {
        job.fabric.inject(1, 2, chunk(1'000'000 + i));
    }
    // It has nothing more to do with that one, and goes on with rank 0.
    const Vectors all(job);
    all.copy(0, 1);
    EXPECT_THAT(all.failure_of(1), HasSubstr("rank 1 is lost, and with it"));
    EXPECT_FALSE(job.cluster->loss(2));
}

TEST(Worker, RunsNoGraphOfAnotherStream) {
    TestJob job(1);
    const Halving half(job, 64);
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    const ggml_backend_ptr other(ggml_backend_dev_init(job.device(0), nullptr));
    const std::uint32_t before = job.cluster->next_number();
    EXPECT_EQ(ggml_backend_graph_compute(stream.get(), half.graph), GGML_STATUS_SUCCESS);
    const std::uint32_t graph = job.cluster->next_number() - 1;  // the last number that was given
    ASSERT_GT(graph, before);
    ByteWriter out = begin({.kind = Kind::run, .stream = before - 2, .place = 1});
    out.put(graph);
    job.fabric.inject(0, 1, seal(std::move(out)));
    EXPECT_THAT(loss_of(job, 1), HasSubstr(text("has no graph ", graph)));
}

}  // namespace
}  // namespace heddle::mpi
