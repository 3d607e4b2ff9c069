// Sums over workers: by the backend itself, and inside a joined device.
#include "backends/mpi/client/sums.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "backends/mpi/test_support.hpp"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"

namespace heddle::mpi {
namespace {

using testing::HasSubstr;
using Values = std::vector<float>;

/// Silence after which one is lost. The others are heard in time on a machine that stalls for a
/// second.
constexpr std::chrono::milliseconds kLostAfter{2000};

/// One timeout and a stall or two, but not the timeout of each of three workers in turn.
constexpr auto kKnownToAll = kLostAfter * 5 / 2;

/// A tensor on each worker, with values for which the order of addition matters.
class Addends {
public:
    Addends(const TestJob& job, std::int64_t count) : context_(small_context()) {
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        std::mt19937 random(7);
        std::normal_distribution<float> normal(0, 100);
        for (std::size_t i = 0; i < job.devices.size(); ++i) {
            streams_.emplace_back(ggml_backend_dev_init(job.device(i), nullptr));
            raw_.push_back(streams_.back().get());
            tensors.push_back(ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, count));
            tensors[i]->flags |= GGML_TENSOR_FLAG_COMPUTE;
            buffers_.emplace_back(ggml_backend_buft_alloc_buffer(
                ggml_backend_dev_buffer_type(job.device(i)), ggml_nbytes(tensors[i])));
            ggml_backend_tensor_alloc(buffers_[i].get(), tensors[i],
                                      ggml_backend_buffer_get_base(buffers_[i].get()));
            Values& own = values.emplace_back(static_cast<std::size_t>(count));
            for (float& value : own) value = normal(random);
            ggml_backend_tensor_set(tensors[i], own.data(), 0, ggml_nbytes(tensors[i]));
        }
    }

    std::unique_ptr<RemoteSums> sums() const { return RemoteSums::make(raw_); }

    /// In the order of devices, those that take part.
    Values expected() const {
        Values sum;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if ((tensors[i]->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) continue;
            if (sum.empty()) {
                sum = values[i];
                continue;
            }
            for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += values[i][j];
        }
        return sum;
    }

    ggml_backend_t stream(std::size_t i) const { return raw_[i]; }

    std::string synchronize(std::size_t i) const {
        heddle_clear_error();
        ggml_backend_synchronize(raw_[i]);
        return heddle_last_error();
    }

    Values read(std::size_t i) const {
        Values found(values[i].size());
        ggml_backend_tensor_get_async(raw_[i], tensors[i], found.data(), 0,
                                      ggml_nbytes(tensors[i]));
        EXPECT_EQ(synchronize(i), "");
        return found;
    }

    std::vector<ggml_tensor*> tensors;
    std::vector<Values> values;

private:
    ggml_context_ptr context_;
    std::vector<ggml_backend_ptr> streams_;
    std::vector<ggml_backend_t> raw_;
    std::vector<ggml_backend_buffer_ptr> buffers_;
};

TEST(SumsOverWorkers, HaveTheBitsOfOneMachineThatAddsInOrder) {
    // One value; all to all; a part each, also where parts are uneven; more than one message.
    for (const std::int64_t count : {1, 8192, 40'003, 700'001}) {
        for (const int workers : {2, 3, 4}) {
            TestJob job(workers);
            job.fabric.set_delay(std::chrono::microseconds(200));
            Addends addends(job, count);
            const auto sums = addends.sums();
            ASSERT_NE(sums, nullptr);
            const std::size_t past_rank_zero = job.fabric.carried(1, 0);
            ASSERT_TRUE(sums->add_up(addends.tensors));
            for (std::size_t i = 0; i < job.devices.size(); ++i) {
                EXPECT_EQ(addends.synchronize(i), "");
            }
            EXPECT_LT(job.fabric.carried(1, 0) - past_rank_zero, 4096U) << "nothing passes rank 0";
            const Values expected = addends.expected();
            for (std::size_t i = 0; i < job.devices.size(); ++i) {
                EXPECT_EQ(addends.read(i), expected) << count << " values, worker " << i + 1;
            }
        }
    }
}

TEST(SumsOverWorkers, GoToThoseThatAddNothing) {
    for (const std::int64_t count : {100, 100'000}) {
        TestJob job(3);
        Addends addends(job, count);
        const auto sums = addends.sums();
        addends.tensors[0]->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
        ASSERT_TRUE(sums->add_up(addends.tensors));
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(addends.read(i), addends.expected());
        addends.tensors[1]->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
        const Values before = addends.read(2);
        ASSERT_TRUE(sums->add_up(addends.tensors)) << "of one";
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(addends.read(i), before);
        addends.tensors[2]->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
        EXPECT_FALSE(sums->add_up(addends.tensors)) << "of none";
    }
}

TEST(SumsOverWorkers, OfOtherTensorsAreLeftToOthers) {
    TestJob job(2);
    Addends addends(job, 64);
    const auto sums = addends.sums();
    addends.tensors[1]->ne[0] = 32;
    EXPECT_FALSE(sums->add_up(addends.tensors)) << "they have different lengths";
    const ggml_backend_ptr one(ggml_backend_dev_init(job.device(0), nullptr));
    const ggml_backend_ptr two(ggml_backend_dev_init(job.device(0), nullptr));
    EXPECT_EQ(RemoteSums::make(std::vector{one.get(), two.get()}), nullptr) << "of one worker";
    const ggml_backend_ptr cpu(ggml_backend_cpu_init());
    EXPECT_EQ(RemoteSums::make(std::vector{one.get(), cpu.get()}), nullptr) << "not a worker's";
}

TEST(SumsOverWorkers, FailForAllWhenOneIsLost) {
    TestJob job(3, 1, kLostAfter);
    Addends addends(job, 100'000);
    const auto sums = addends.sums();
    job.fabric.silence(2);
    const auto begin = Clock::now();
    sums->add_up(addends.tensors);
    EXPECT_THAT(addends.synchronize(0), HasSubstr("rank 2 is lost"));
    EXPECT_THAT(addends.synchronize(1), HasSubstr("MPI2: lost: nothing was heard"));
    EXPECT_THAT(addends.synchronize(2), HasSubstr("rank 2 is lost"));
    EXPECT_LT(Clock::now() - begin, kKnownToAll);
}

/// Workers that add up by MPI, or what the fabric has in its place.
TestJob::Serving plain() { return {}; }
Settings by_mpi(std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    Settings settings;
    settings.timeout = timeout;
    settings.sums = SumsBy::mpi;
    return settings;
}

/// In any order of addition.
void expect_near(const Values& found, const Addends& addends) {
    const Values expected = addends.expected();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        // A rounding for each addend, of values whose size is about 100.
        EXPECT_NEAR(found[i], expected[i], 4e-4) << i;
    }
}

TEST(SumsByMpi, AreTheSameOnAllWorkers) {
    for (const std::int64_t count : {1, 8192, 700'001}) {
        TestJob job(3, 1, by_mpi(), plain());
        job.fabric.set_delay(std::chrono::microseconds(200));
        Addends addends(job, count);
        const auto sums = addends.sums();
        const std::size_t before = job.fabric.carried(1, 2);
        addends.tensors[1]->flags &= ~GGML_TENSOR_FLAG_COMPUTE;
        ASSERT_TRUE(sums->add_up(addends.tensors));
        const Values first = addends.read(0);
        expect_near(first, addends);
        EXPECT_EQ(addends.read(1), first);
        EXPECT_EQ(addends.read(2), first);
        EXPECT_EQ(job.fabric.carried(1, 2), before) << "nothing travels as messages";
    }
}

TEST(SumsByMpi, OfSeveralStreamsAndGroupsDoNotGetMixedUp) {
    TestJob job(3, 1, by_mpi(), plain());
    job.fabric.set_delay(std::chrono::microseconds(100));
    std::vector<std::unique_ptr<Addends>> all;
    for (int i = 0; i < 4; ++i) all.push_back(std::make_unique<Addends>(job, 1000 + i));
    std::vector<std::thread> threads;
    for (const auto& each : all) {
        threads.emplace_back([&each] {
            heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN);
            const auto sums = each->sums();
            for (int round = 0; round < 20; ++round) {
                // Once the sum, then three times as much each time.
                EXPECT_TRUE(sums->add_up(each->tensors));
                if (round > 0) continue;
                for (std::size_t i = 0; i < 3; ++i) expect_near(each->read(i), *each);
            }
            const Values first = each->read(0);
            EXPECT_EQ(each->read(1), first);
            EXPECT_EQ(each->read(2), first);
            EXPECT_NEAR(first[0] / (each->expected()[0] * std::pow(3.0F, 19.0F)), 1, 1e-4);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST(SumsByMpi, FailForAllWhenOneIsLost) {
    TestJob job(3, 1, by_mpi(kLostAfter), plain());
    Addends addends(job, 100'000);
    const auto sums = addends.sums();
    job.fabric.silence(2);
    const auto begin = Clock::now();
    sums->add_up(addends.tensors);
    EXPECT_THAT(addends.synchronize(0), HasSubstr("rank 2 is lost"));
    EXPECT_THAT(addends.synchronize(1), HasSubstr("MPI2: lost: nothing was heard"));
    EXPECT_THAT(addends.synchronize(2), HasSubstr("rank 2 is lost"));
    EXPECT_LT(Clock::now() - begin, kKnownToAll);
    // Those that are left form a group of their own.
    const std::vector<ggml_backend_t> two{addends.stream(0), addends.stream(2)};
    const std::vector<ggml_tensor*> tensors{addends.tensors[0], addends.tensors[2]};
    ggml_cgraph nothing{};
    for (const ggml_backend_t stream : two) ggml_backend_graph_compute_async(stream, &nothing);
    const auto others = RemoteSums::make(two);
    ASSERT_TRUE(others->add_up(tensors));
    EXPECT_EQ(addends.read(0)[5], addends.values[0][5] + addends.values[2][5]);
    EXPECT_EQ(addends.read(2), addends.read(0));
}

TEST(SumsByMpi, FailForAllWhenOneCannotTakePartAndThenGoOn) {
    TestJob job(3, 1, by_mpi(kLostAfter), plain());
    Addends addends(job, 400'000);
    const std::vector<ggml_backend_t> two{addends.stream(0), addends.stream(1)};
    const std::vector<ggml_tensor*> tensors{addends.tensors[0], addends.tensors[1]};
    const auto sums = RemoteSums::make(two);
    job.fabric.silence(3);
    // The first one's stream fails with a copy that never comes.
    ggml_backend_tensor_copy_async(addends.stream(2), two[0], addends.tensors[2], tensors[0]);
    ASSERT_TRUE(sums->add_up(tensors));
    EXPECT_THAT(addends.synchronize(1), HasSubstr("another rank of a sum could not take part"));
    EXPECT_THAT(addends.synchronize(0), HasSubstr("rank 3 is lost"));
    ggml_cgraph nothing{};
    for (const ggml_backend_t stream : two) {
        EXPECT_NE(ggml_backend_graph_compute_async(stream, &nothing), GGML_STATUS_SUCCESS);
        EXPECT_EQ(ggml_backend_graph_compute_async(stream, &nothing), GGML_STATUS_SUCCESS);
    }
    const Values a = addends.read(0), b = addends.read(1);
    ASSERT_TRUE(sums->add_up(tensors));
    const Values sum = addends.read(0);
    EXPECT_EQ(addends.read(1), sum);
    EXPECT_EQ(sum[7], a[7] + b[7]);
}

TEST(SumsByMpi, FailForAllWhenOneDropsOut) {
    for (const bool throws : {false, true}) {
        TestJob job(3, 1, by_mpi(), plain());
        Addends addends(job, 400'000);
        const auto sums = addends.sums();
        job.fabric.set_before_sums(2, [throws]() -> Result<> {
            if (throws) throw std::bad_alloc();
            return failure(Errc::device, "MPI does not want to");
        });
        const auto begin = Clock::now();
        for (int i = 0; i < 2; ++i) ASSERT_TRUE(sums->add_up(addends.tensors));
        EXPECT_THAT(addends.synchronize(0), HasSubstr("rank 2 is lost"));
        EXPECT_THAT(addends.synchronize(1), HasSubstr("MPI2: lost: "));
        EXPECT_THAT(addends.synchronize(2), HasSubstr("rank 2 is lost"));
        EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2)) << "sooner than by silence";
        EXPECT_FALSE(job.cluster->loss(1) || job.cluster->loss(3));
        job.end();
        ASSERT_FALSE(job.outcomes[1]);
        if (!throws) {
            EXPECT_EQ(job.outcomes[1].error().message, "MPI does not want to");
        }
    }
}

TEST(SumsByMpi, FailForAllWhenMpiFailsInTheMiddle) {
    TestJob job(3, 1, by_mpi(), plain());
    Addends addends(job, 400'000);
    const auto sums = addends.sums();
    job.fabric.fail_sums(2);
    const auto begin = Clock::now();
    ASSERT_TRUE(sums->add_up(addends.tensors));
    EXPECT_THAT(addends.synchronize(0), HasSubstr("rank 2 is lost"));
    EXPECT_THAT(addends.synchronize(1), HasSubstr("MPI gives up a sum"));
    EXPECT_THAT(addends.synchronize(2), HasSubstr("rank 2 is lost"));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2)) << "sooner than by silence";
    EXPECT_FALSE(job.cluster->loss(1) || job.cluster->loss(3));
}

TEST(SumsByMpi, LoseAWorkerThatGivesAnotherUp) {
    TestJob job(3, 1, by_mpi(), plain());
    job.fabric.inject(2, 0, given_up(1));
    EXPECT_EQ(
        loss_of(job, 2),
        "MPI2: lost: it has nothing more to do with rank 1, with which it may have to add up");
    EXPECT_FALSE(job.cluster->loss(1) || job.cluster->loss(3));
}

TEST(SumsOverWorkers, AreToldToAllOrToNone) {
    TestJob job(2);
    const Addends addends(job, 100);
    std::vector<std::uint32_t> streams;
    for (const std::size_t i : {0, 1})
        streams.push_back(remote_stream(addends.stream(i))->number());
    const std::uint64_t before = job.cluster->issued(streams[0]);
    const auto breaks_off = [&](std::size_t i) -> Bytes {
        if (i == 1) throw std::bad_alloc();
        return seal(begin({.kind = Kind::resume, .stream = streams[i]}));
    };
    EXPECT_THROW(static_cast<void>(job.cluster->issue_to_all(streams, breaks_off)), std::bad_alloc);
    EXPECT_EQ(job.cluster->issued(streams[0]), before);
}

/// Two products, the second cut so that its results are addends: what a layer of a joined device
/// does.
Values run_joined(std::vector<ggml_backend_dev_t> devices) {
    const auto split = [](const ggml_tensor* tensor, void*) {
        ggml_backend_meta_split_state state{};
        const std::string name = ggml_get_name(tensor);
        state.axis = name == "up"     ? GGML_BACKEND_SPLIT_AXIS_1
                     : name == "down" ? GGML_BACKEND_SPLIT_AXIS_0
                                      : GGML_BACKEND_SPLIT_AXIS_MIRRORED;
        state.n_segments = 1;
        state.nr[0] = 1;
        for (int i = 0; i < 2; ++i) state.ne[i] = 32;
        return state;
    };
    const ggml_backend_dev_t joined =
        ggml_backend_meta_device(devices.data(), devices.size(), split, nullptr);
    EXPECT_NE(joined, nullptr) << heddle_last_error();
    const ggml_backend_ptr stream(ggml_backend_dev_init(joined, nullptr));
    const ggml_context_ptr context = small_context();
    ggml_tensor* const up = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 48, 64);
    ggml_tensor* const down = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 64, 48);
    ggml_tensor* const x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 48, 3);
    ggml_set_name(up, "up");
    ggml_set_name(down, "down");
    ggml_set_name(x, "x");
    ggml_tensor* const hidden = ggml_silu(context.get(), ggml_mul_mat(context.get(), up, x));
    ggml_tensor* const sum = ggml_mul_mat(context.get(), down, hidden);
    ggml_tensor* const out = ggml_scale(context.get(), ggml_add(context.get(), sum, x), 0.5F);
    ggml_cgraph* const graph = ggml_new_graph_custom(context.get(), 64, false);
    ggml_build_forward_expand(graph, out);
    const ggml_backend_buffer_ptr buffer(
        ggml_backend_alloc_ctx_tensors(context.get(), stream.get()));
    EXPECT_NE(buffer, nullptr) << heddle_last_error();
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (ggml_tensor* tensor : {up, down, x}) {
        Values values(static_cast<std::size_t>(ggml_nelements(tensor)));
        for (float& value : values) value = normal(random);
        ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    }
    for (int run = 0; run < 3; ++run) {
        EXPECT_EQ(ggml_backend_graph_compute(stream.get(), graph), GGML_STATUS_SUCCESS)
            << heddle_last_error();
    }
    Values values(static_cast<std::size_t>(ggml_nelements(out)));
    ggml_backend_tensor_get(out, values.data(), 0, ggml_nbytes(out));
    return values;
}

TEST(SumsOverWorkers, GiveAJoinedDeviceTheBitsOfLocalOnes) {
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    const ggml_backend_dev_t cpu = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    TestJob job(2);
    const std::size_t before = job.fabric.carried(1, 2);
    const Values remote = run_joined({job.device(0), job.device(1)});
    EXPECT_GT(job.fabric.carried(1, 2) - before, 3 * 48 * 3 * sizeof(float)) << "addends travel";
    EXPECT_EQ(remote, run_joined({cpu, cpu}));
}

}  // namespace
}  // namespace heddle::mpi
