// Programs over two workers, with delays, deaths and failures, at random and one by one: results
// are right or refused, and nothing waits for ever.
#include <cstdlib>
#include <future>
#include <random>

#include "backends/mpi/test_support.hpp"
#include "ggml/ops_math.h"

namespace heddle::mpi {
namespace {

constexpr std::size_t kLength = 16;
constexpr std::size_t kTensors = 5, kStreams = 4;  ///< half of each on either worker

using Values = std::vector<float>;

/// Streams on two workers, and an event for each.
struct Streams {
    explicit Streams(const TestJob& job) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        for (std::size_t i = 0; i < kStreams; ++i) {
            streams.emplace_back(ggml_backend_dev_init(job.device(i % 2), nullptr));
            events.emplace_back(ggml_backend_event_new(job.device(i % 2)));
        }
    }

    std::vector<ggml_backend_event_ptr> events;
    std::vector<ggml_backend_ptr> streams;
};

/// Tensors on two workers, and what they should hold. `end` comes last: then no stream is to write
/// anything any more.
class Program {
public:
    Program(const TestJob& job, const Streams& streams, unsigned seed)
        : random_(seed),
          context_(small_context()),
          streams_(streams.streams),
          events_(streams.events) {
        for (const auto& stream : streams_) is_good_ = is_good_ && stream != nullptr;
        for (std::size_t i = 0; i < kTensors; ++i) {
            Slot& slot = slots_.emplace_back();
            slot.worker = i % 2;
            slot.tensor = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, kLength);
            slot.buffer.reset(ggml_backend_buft_alloc_buffer(
                ggml_backend_dev_buffer_type(job.device(i % 2)), 2 * kLength * sizeof(float)));
            is_good_ = is_good_ && slot.buffer != nullptr;
            if (slot.buffer == nullptr) continue;
            void* const base = ggml_backend_buffer_get_base(slot.buffer.get());
            ggml_backend_tensor_alloc(slot.buffer.get(), slot.tensor, base);
            slot.values.assign(kLength, 0);
            ggml_backend_buffer_clear(slot.buffer.get(), 0);
        }
    }

    /// False if something was refused: a worker is lost.
    bool is_good() const { return is_good_; }

    void step() {
        heddle_clear_error();
        switch (random_() % 5) {
            case 0:
                return write();
            case 1:
                return read();
            case 2:
                return copy();
            case 3:
                return finish(stream_for(pick()));
            default:
                return compute();
        }
    }

    /// All reads are compared.
    void end() {
        for (std::size_t i = 0; i < kStreams; ++i) finish(i);
        for (Slot& slot : slots_) {
            Values found(kLength);
            heddle_clear_error();
            if (slot.buffer == nullptr) continue;
            ggml_backend_tensor_get(slot.tensor, found.data(), 0, kLength * sizeof(float));
            note();
            if (is_good_) {
                EXPECT_EQ(found, slot.values);
            }
        }
    }

private:
    struct Slot {
        std::size_t worker = 0;
        ggml_tensor* tensor = nullptr;
        ggml_backend_buffer_ptr buffer;
        Values values;
        std::size_t last = kStreams;  ///< the stream that used it last
    };
    struct Read {
        Values expected;
        std::unique_ptr<Values> found;
        std::size_t stream = 0;
    };

    std::size_t pick() { return random_() % kTensors; }
    std::size_t stream_for(std::size_t tensor) {
        return slots_[tensor].worker + 2 * (random_() % 2);
    }

    void note() { is_good_ = is_good_ && *heddle_last_error() == '\0'; }

    /// `stream` comes after what was last done with a tensor.
    void use(std::size_t tensor, std::size_t stream) {
        const std::size_t last = std::exchange(slots_[tensor].last, stream);
        if (last == kStreams || last == stream) return;
        ggml_backend_event_record(events_[last].get(), streams_[last].get());
        ggml_backend_event_wait(streams_[stream].get(), events_[last].get());
        note();
    }

    void write() {
        const std::size_t tensor = pick(), stream = stream_for(tensor);
        use(tensor, stream);
        Values& values = slots_[tensor].values;
        for (float& value : values) value = static_cast<float>(random_() % 64);
        ggml_backend_tensor_set_async(streams_[stream].get(), slots_[tensor].tensor, values.data(),
                                      0, kLength * sizeof(float));
        note();
    }

    void read() {
        const std::size_t tensor = pick(), stream = stream_for(tensor);
        use(tensor, stream);
        Read read{slots_[tensor].values, std::make_unique<Values>(kLength), stream};
        ggml_backend_tensor_get_async(streams_[stream].get(), slots_[tensor].tensor,
                                      read.found->data(), 0, kLength * sizeof(float));
        note();
        reads_.push_back(std::move(read));
    }

    void copy() {
        const std::size_t from = pick(), to = pick();
        if (from == to) return;
        const std::size_t source = stream_for(from), target = stream_for(to);
        use(from, source);
        use(to, target);
        ggml_backend_tensor_copy_async(streams_[source].get(), streams_[target].get(),
                                       slots_[from].tensor, slots_[to].tensor);
        note();
        slots_[to].values = slots_[from].values;
        // The copy reads in the target's turn if both are on one worker.
        slots_[from].last = source;
    }

    void compute() {
        const std::size_t tensor = pick(), stream = stream_for(tensor);
        use(tensor, stream);
        const ggml_context_ptr context = small_context();
        ggml_tensor* const node = ggml_scale_inplace(context.get(), slots_[tensor].tensor, 0.5F);
        ggml_cgraph* const graph = ggml_new_graph_custom(context.get(), 8, false);
        ggml_build_forward_expand(graph, node);
        if (node->buffer == nullptr) ggml_backend_view_init(node);
        const auto status = ggml_backend_graph_compute_async(streams_[stream].get(), graph);
        is_good_ = is_good_ && status == GGML_STATUS_SUCCESS;
        for (float& value : slots_[tensor].values) value *= 0.5F;
    }

    void finish(std::size_t stream) {
        heddle_clear_error();
        ggml_backend_synchronize(streams_[stream].get());
        note();
        for (const Read& read : reads_) {
            if (read.stream == stream && is_good_) {
                EXPECT_EQ(*read.found, read.expected);
            }
        }
        std::erase_if(reads_, [&](const Read& read) { return read.stream == stream; });
    }

    std::mt19937 random_;
    ggml_context_ptr context_;
    std::vector<Slot> slots_;
    std::vector<Read> reads_;
    const std::vector<ggml_backend_ptr>& streams_;
    const std::vector<ggml_backend_event_ptr>& events_;
    bool is_good_ = true;
};

int schedule_count() {
    const char* const asked = std::getenv("HEDDLE_MPI_SCHEDULES");
#ifdef HEDDLE_SANITIZED
    constexpr int kUsual = 1000;
#else
    constexpr int kUsual = 10'000;
#endif
    return asked != nullptr ? std::atoi(asked) : kUsual;
}

TEST(Schedules, GiveTheRightValuesWhateverTheDelays) {
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    const int count = schedule_count();
    TestJob job(2);
    std::unique_ptr<Streams> streams;
    for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
        // Delays cost time; every tenth has them.
        job.fabric.set_delay(i % 10 == 0 ? std::chrono::microseconds(100)
                                         : std::chrono::microseconds(0));
        // A stream is a thread of its worker: each serves some schedules.
        if (i % 8 == 0) streams = std::make_unique<Streams>(job);
        Program program(job, *streams, static_cast<unsigned>(i));
        for (int step = 0; step < 12; ++step) program.step();
        program.end();
        EXPECT_TRUE(program.is_good()) << "schedule " << i << ": " << heddle_last_error();
    }
}

/// A worker falls silent in the middle of a schedule.
void lose_one_in(int number) {
    const auto seed = static_cast<unsigned>(number);
    const int last = number % 12, dies = 1 + number % 2;
    TestJob job(2, seed, kShortTimeout);
    if (number % 3 == 0) job.fabric.set_delay(std::chrono::microseconds(200));
    const Streams streams(job);
    Program program(job, streams, seed);
    for (int step = 0; step < last; ++step) program.step();
    job.fabric.silence(dies);
    const auto begin = Clock::now();
    for (int step = last; step < 12; ++step) program.step();
    program.end();
    // One timeout to notice, as long again on a machine that is busy.
    EXPECT_LT(Clock::now() - begin, kShortTimeout + std::chrono::seconds(2))
        << "schedule " << number;
    const auto lost = job.cluster->loss(dies);
    ASSERT_TRUE(lost) << "schedule " << number;
    EXPECT_NE(lost->message.find("lost: nothing was heard of rank"), std::string::npos);
    EXPECT_FALSE(job.cluster->loss(3 - dies)) << "the other one lives";
}

TEST(Schedules, EndInTimeWhenAWorkerDies) {
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    // Most of each is waiting: some at a time.
    constexpr int kAtATime = 8;
    const int count = std::max(schedule_count() / 100, 12);
    std::vector<std::thread> threads;
    for (int first = 0; first < kAtATime; ++first) {
        threads.emplace_back([first, count] {
            for (int i = first; i < count && !testing::Test::HasFailure(); i += kAtATime) {
                lose_one_in(i);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

// ---- one by one --------------------------------------------------------------------------------

/// A tensor on each of two workers, and a stream.
struct Pair {
    explicit Pair(const TestJob& job, std::int64_t count = 4) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        for (const std::size_t i : {0, 1}) {
            streams.emplace_back(ggml_backend_dev_init(job.device(i), nullptr));
            tensors.push_back(ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, count));
            buffers.emplace_back(ggml_backend_buft_alloc_buffer(
                ggml_backend_dev_buffer_type(job.device(i)), ggml_nbytes(tensors[i])));
            ggml_backend_tensor_alloc(buffers[i].get(), tensors[i],
                                      ggml_backend_buffer_get_base(buffers[i].get()));
            ggml_backend_buffer_clear(buffers[i].get(), 1);
        }
    }
    /// What the stream that takes the copy says.
    std::string copy_from(std::size_t i) {
        heddle_clear_error();
        ggml_backend_tensor_copy_async(streams[i].get(), streams[1 - i].get(), tensors[i],
                                       tensors[1 - i]);
        ggml_backend_synchronize(streams[1 - i].get());
        return heddle_last_error();
    }

    ggml_context_ptr context = small_context();
    std::vector<ggml_backend_ptr> streams;
    std::vector<ggml_backend_buffer_ptr> buffers;
    std::vector<ggml_tensor*> tensors;
};

TEST(RankZero, TellsAWorkerThatAnotherOneHasGivenItUp) {
    TestJob job(2);
    Pair pair(job);
    EXPECT_EQ(pair.copy_from(1), "");
    job.fabric.inject(2, 0, given_up(1));
    std::string said;
    for (int i = 0; i < 5000 && said.empty(); ++i) said = pair.copy_from(1);
    EXPECT_NE(said.find("rank 2 is lost, and with it"), std::string::npos) << said;
    EXPECT_FALSE(job.cluster->loss(1) || job.cluster->loss(2)) << "both serve the program";
}

TEST(RankZero, LosesAWorkerThatGivesUpWhatIsNoOtherWorker) {
    for (const int rank : {0, 1, 3, -1}) {
        TestJob job(2);
        job.fabric.inject(1, 0, given_up(rank));
        EXPECT_EQ(loss_of(job, 1), "MPI1: lost: it sent that it gives up what is no other worker");
    }
}

TEST(RankZero, LosesAWorkerWhoseMessageDoesNotComeThrough) {
    TestJob job(2);
    job.fabric.fail(1, 0);
    EXPECT_EQ(loss_of(job, 1), "MPI1: lost: a message that did not come through");
    EXPECT_FALSE(job.cluster->loss(2));
}

TEST(RankZero, GoesOnWhenThereWasNoMemoryToLookForMessages) {
    TestJob job(2);
    Pair pair(job);
    std::atomic<int> looks{0};
    job.fabric.set_before_looks(0, [&] {
        if (++looks % 3 == 0) throw std::bad_alloc();
    });
    for (const int before = looks; looks < before + 20;) {  // on the thread of the cluster
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    job.fabric.set_delay(std::chrono::milliseconds(5));  // so that this thread looks, too
    job.fabric.set_before_looks(0, [self = std::this_thread::get_id(), throws = true]() mutable {
        if (std::this_thread::get_id() == self && std::exchange(throws, false)) {
            throw std::bad_alloc();
        }
    });
    EXPECT_EQ(pair.copy_from(0), "");
}

TEST(RankZero, PutsNothingWhereACallThatFailedWantedIt) {
    TestJob job(2);
    constexpr std::int64_t kCount = 1 << 20;
    const Pair pair(job, kCount);
    job.fabric.set_delay(std::chrono::milliseconds(20));
    job.fabric.set_before_looks(0, [self = std::this_thread::get_id()] {
        if (std::this_thread::get_id() == self) throw std::bad_alloc();
    });
    std::vector<float> found(kCount);
    heddle_clear_error();
    ggml_backend_tensor_get(pair.tensors[0], found.data(), 0, ggml_nbytes(pair.tensors[0]));
    EXPECT_STRNE(heddle_last_error(), "") << "it waits for the data";
    job.fabric.set_before_looks(0, [] {});
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until all has come
    EXPECT_EQ(found, std::vector<float>(kCount));
    EXPECT_FALSE(job.cluster->loss(1)) << "its answer was asked for";
    job.fabric.set_delay(std::chrono::milliseconds(0));
    heddle_clear_error();
    ggml_backend_tensor_get(pair.tensors[0], found.data(), 0, ggml_nbytes(pair.tensors[0]));
    EXPECT_STREQ(heddle_last_error(), "");
    EXPECT_NE(found[7], 0);
}

/// Whether a log callback could ask for the memory of a device.
struct AsksFromTheLog {
    ggml_backend_dev_t device = nullptr;
    std::atomic<int> asked{0}, answered{0};
    std::mutex turn;
    std::future<void> last;

    static void log(ggml_log_level, const char*, void* user) {
        auto& self = *static_cast<AsksFromTheLog*>(user);
        const std::lock_guard guard(self.turn);
        self.last = std::async(std::launch::async, [device = self.device] {
            std::size_t free = 0, total = 0;
            ggml_backend_dev_memory(device, &free, &total);
        });
        const bool is_there =
            self.last.wait_for(std::chrono::seconds(2)) == std::future_status::ready;
        self.answered += is_there ? 1 : 0;
        ++self.asked;
    }
};

TEST(RankZero, TellsOfALossWhereTheLogMayAskForOtherDevices) {
    for (const bool waits : {false, true}) {
        AsksFromTheLog asks;
        TestJob job(2, 1, kShortTimeout);
        Pair pair(job);
        asks.device = job.device(1);
        ggml_log_set(AsksFromTheLog::log, &asks);
        job.fabric.silence(1);
        if (waits) pair.copy_from(1);
        loss_of(job, 1);
        for (int i = 0; i < 3000 && asks.asked == 0; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
        EXPECT_GT(asks.asked, 0);
        EXPECT_EQ(asks.answered, asks.asked) << (waits ? "a thread waits" : "none waits");
    }
}

}  // namespace
}  // namespace heddle::mpi
