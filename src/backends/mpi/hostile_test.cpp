// Ranks that lie: what they say is refused in words, and nothing else breaks.
#include <gmock/gmock.h>

#include <functional>
#include <random>

#include "backends/mpi/test_support.hpp"

namespace heddle::mpi {
namespace {

using testing::HasSubstr;

Bytes message(const Header& header, const std::function<void(ByteWriter&)>& write = {}) {
    ByteWriter out = begin(header);
    if (write) write(out);
    return seal(std::move(out));
}

TEST(Worker, LeavesWhenItIsToldWhatCannotBe) {
    const std::vector<std::pair<Bytes, std::string>> lies{
        {Bytes(40, std::byte{0}), "a message that is not Heddle's"},
        {message({.kind = Kind::hello}), "which rank 0 does not send"},
        {message({.kind = Kind::free_buffer}, [](ByteWriter& out) { out.put(77U); }),
         "there is no buffer 77"},
        {message({.kind = Kind::run, .stream = 5}, [](ByteWriter& out) { out.put(1U); }),
         "there is no stream 5"},
        {message({.kind = Kind::abort, .stream = 5, .place = 1}), "there is no stream 5"},
        {message({.kind = Kind::join},
                 [](ByteWriter& out) {
                     out.put(1U);
                     out.put(1U);
                     out.put(std::uint8_t{1});
                 }),
         "which rank 0 does not send"},
        {message({.kind = Kind::group},
                 [](ByteWriter& out) {
                     for (const unsigned value : {1U, 7U, 2U, 1U, 9U}) out.put(value);
                 }),
         "rank 9 is in a group, or twice"},
        {message({.kind = Kind::group},
                 [](ByteWriter& out) {
                     for (const unsigned value : {1U, 7U, 70'000U}) out.put(value);
                 }),
         "a group that breaks off"},
        {message({.kind = Kind::ask_op},
                 [](ByteWriter& out) {
                     out.put(1U);
                     out.put(9U);
                 }),
         "device 9 of 1"},
        {message({.kind = Kind::allocate},
                 [](ByteWriter& out) {
                     for (int i = 0; i < 3; ++i) out.put(std::uint32_t{0});
                 }),
         "a request for memory that breaks off"},
        {message({.kind = Kind::graph_delta, .stream = 5},
                 [](ByteWriter& out) {
                     out.put(2U);
                     out.put(1U);
                 }),
         "stream 5 has no graph 1"},
        {message({.kind = Kind::cancel}, [](ByteWriter& out) { out.put(1U); }),
         "rank 1 is no other worker"},
    };
    for (const auto& [lie, sentence] : lies) {
        TestJob job(1);
        job.fabric.inject(0, 1, lie);
        EXPECT_THAT(loss_of(job, 1), HasSubstr(sentence));
        job.end();
        EXPECT_FALSE(job.outcomes[0]) << sentence;
    }
}

TEST(RankZero, LosesAWorkerThatSaysWhatCannotBe) {
    const std::vector<std::pair<Bytes, std::string>> lies{
        {Bytes(40, std::byte{0}), "a message that is not Heddle's"},
        {message({.kind = Kind::ping}), "it sent a message that workers do not send"},
        {message({.kind = Kind::answer}, [](ByteWriter& out) { out.put(99'999U); }),
         "it sent an answer to what it was not asked"},
        {message({.kind = Kind::beat}), "it sent a report of memory that breaks off"},
        {message({.kind = Kind::beat, .credit = std::uint64_t{1} << 60}),
         "it sent a receipt for more than it got"},
        {message({.kind = Kind::hello}), "it sent who it is, twice"},
    };
    for (const auto& [lie, sentence] : lies) {
        constexpr std::chrono::milliseconds kTimeout{2000};
        TestJob job(2, 1, kTimeout);
        job.fabric.inject(1, 0, lie);
        EXPECT_THAT(loss_of(job, 1), HasSubstr("MPI1: lost: "));
        EXPECT_THAT(loss_of(job, 1), HasSubstr(sentence));
        EXPECT_FALSE(job.cluster->loss(2)) << "the other one told the truth";
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        EXPECT_EQ(ggml_backend_dev_init(job.device(0), nullptr), nullptr);
        EXPECT_THAT(heddle_last_error(), HasSubstr(sentence));
        EXPECT_EQ(job.devices[0]->memory().total, 0U);
        EXPECT_NE(ggml_backend_ptr(ggml_backend_dev_init(job.device(1), nullptr)), nullptr);
        const auto before = Clock::now();
        job.end();
        EXPECT_LT(Clock::now() - before, 2 * kTimeout) << "told to leave; untold it waits for 3";
        ASSERT_FALSE(job.outcomes[0]);
        EXPECT_THAT(job.outcomes[0].error().message,
                    HasSubstr("rank 0 has given this worker up: "));
        EXPECT_TRUE(job.outcomes[1]);
    }
}

/// Two gigabytes, as much as MPI can say.
constexpr std::size_t kTooMuch = (std::size_t{1} << 31) - 1;

TEST(RankZero, TakesNoMemoryForWhatIsOnlyAnnounced) {
    TestJob job(2, 1, kShortTimeout);
    job.fabric.announce(1, 0, kTooMuch);
    EXPECT_THAT(loss_of(job, 1), HasSubstr("MPI1: lost: a message of 2147483647 bytes, more than"));
    EXPECT_FALSE(job.cluster->loss(2));
}

TEST(Worker, TakesNoMemoryForWhatIsOnlyAnnounced) {
    TestJob job(2, 1, kShortTimeout);
    job.fabric.announce(0, 1, kTooMuch);
    EXPECT_THAT(loss_of(job, 1), HasSubstr("a message of 2147483647 bytes, more than"));
    job.end();
    EXPECT_FALSE(job.outcomes[0]);
}

/// A tensor on each of two workers, copied from the first to the second. It is longer than what is
/// sent before the receiver says that it takes something.
struct LongCopy {
    explicit LongCopy(const TestJob& job) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        for (const std::size_t i : {0, 1}) {
            streams.emplace_back(ggml_backend_dev_init(job.device(i), nullptr));
            tensors.push_back(ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, kSize));
            buffers.emplace_back(
                ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(i)), kSize));
            ggml_backend_tensor_alloc(buffers[i].get(), tensors[i],
                                      ggml_backend_buffer_get_base(buffers[i].get()));
        }
        ggml_backend_tensor_copy_async(streams[0].get(), streams[1].get(), tensors[0], tensors[1]);
    }
    /// What went wrong in a stream.
    std::string failure_of(std::size_t stream) const {
        heddle_clear_error();
        ggml_backend_synchronize(streams[stream].get());
        return heddle_last_error();
    }

    static constexpr std::int64_t kSize = (kTransferWindow + 9) * kChunk;
    ggml_context_ptr context = small_context();
    std::vector<ggml_backend_ptr> streams;
    std::vector<ggml_backend_buffer_ptr> buffers;
    std::vector<ggml_tensor*> tensors;
};

TEST(Worker, HasNothingMoreToDoWithAnotherOneThatLies) {
    for (const bool lies : {true, false}) {  // or MPI does not carry what it says
        Settings settings;
        settings.graph_timeout = std::chrono::seconds(10);  // lost if it waits without end
        TestJob job(2, 1, settings, {});
        if (lies) job.fabric.announce(1, 2, kTooMuch);
        if (!lies) job.fabric.fail(1, 2);
        const LongCopy copy(job);
        EXPECT_THAT(copy.failure_of(1), HasSubstr("rank 1 is lost, and with it"));
        EXPECT_THAT(copy.failure_of(0), HasSubstr("rank 2 is lost, and with it"));
        EXPECT_FALSE(job.cluster->loss(1)) << "rank 0 has no quarrel with it";
        EXPECT_FALSE(job.cluster->loss(2));
    }
}

TEST(Worker, LeavesWhenACommandOfAStreamIsMissing) {
    TestJob job(1);
    const std::uint32_t number = job.cluster->next_number() + 1;
    const ggml_backend_ptr stream(ggml_backend_dev_init(job.device(0), nullptr));
    job.fabric.inject(0, 1, message({.kind = Kind::resume, .stream = number, .place = 2}));
    EXPECT_THAT(loss_of(job, 1), HasSubstr(text("command 2 of stream ", number, " behind ")));
}

TEST(Worker, LeavesWhenTooManyTensorsAreBegun) {
    constexpr std::size_t kSize = 64;
    TestJob job(1);
    const ggml_context_ptr context = small_context();
    ggml_tensor* const tensor = ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, kSize);
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(job.device(0)), kSize));
    ggml_backend_tensor_alloc(buffer.get(), tensor, ggml_backend_buffer_get_base(buffer.get()));
    const Record place = *remote_buffer(*tensor)->locate(*tensor, 0, kSize);
    const auto begin_tensor = [&](unsigned number) {
        return message({.kind = Kind::write_whole}, [&](ByteWriter& out) {
            out.put(number);
            put_record(out, place);
            out.put(std::uint64_t{kSize});
            out.put(std::uint8_t{1});  // and the rest never comes
        });
    };
    for (unsigned i = 0; i <= 1024; ++i) (void)job.cluster->post(1, begin_tensor(i));
    EXPECT_THAT(loss_of(job, 1), HasSubstr("more than 1024 tensors at a time"));
}

TEST(RankZero, RefusesAWorkerOfAnotherVersion) {
    ThreadFabric fabric(2);
    WorkerFacts facts = own_facts();
    facts.version = "0.0.1";
    ByteWriter hello = begin({.kind = Kind::hello});
    put_facts(hello, facts);
    fabric.inject(1, 0, seal(std::move(hello)));
    const auto started = Cluster::start(fabric.join(0), {});
    ASSERT_FALSE(started);
    EXPECT_THAT(started.error().message, HasSubstr("MPI1: refused: it has Heddle 0.0.1 with op"));
}

TEST(RankZero, DoesWithoutAWorkerThatDoesNotCome) {
    ThreadFabric fabric(2);
    const auto started =
        Cluster::start(fabric.join(0), {std::chrono::seconds(1), std::chrono::milliseconds(100)});
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().message, "MPI1: lost: no worker is there after 0.1 s");
}

TEST(Worker, SurvivesAnyBodyOfAnyMessage) {
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    std::mt19937 random(5);
    auto job = std::make_unique<TestJob>(1);
    const auto below = [&](std::uint32_t limit) {
        return static_cast<std::uint32_t>(random() % limit);
    };
    for (int i = 0; i < 3000; ++i) {
        const auto kind =
            static_cast<Kind>(1 + random() % (static_cast<unsigned>(Kind::count) - 1));
        if (kind == Kind::goodbye) continue;
        const Bytes lie =
            message({.kind = kind, .stream = below(3), .place = below(5)}, [&](ByteWriter& out) {
                for (std::size_t n = random() % 200; n > 0; --n) {
                    out.put(static_cast<std::uint8_t>(random() % 4 == 0 ? random() : 0));
                }
            });
        job->fabric.inject(0, 1, lie);
        if (i % 10 != 9) continue;
        // It left, or it took them for something; then it still answers.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (job->cluster->loss(1)) job = std::make_unique<TestJob>(1);
    }
}

}  // namespace
}  // namespace heddle::mpi
