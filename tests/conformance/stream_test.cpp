#include <algorithm>

#include "heddle/heddle.h"
#include "test_support.hpp"

namespace heddle::conformance {
namespace {

/// Work that is queued: order, events, copies between streams.
class Stream : public Device {
protected:
    void SetUp() override {
        Device::SetUp();
        first_ = new_stream();
        second_ = new_stream();
        ASSERT_TRUE(first_ != nullptr && second_ != nullptr) << heddle_last_error();
    }

    ggml_status queue(const ggml_backend_ptr& stream, const Chain& chain) const {
        return ggml_backend_graph_compute_async(stream.get(), chain.graph());
    }

    ggml_backend_event_ptr new_event() const {
        return ggml_backend_event_ptr(ggml_backend_event_new(device()));
    }

    ggml_backend_ptr first_, second_;
};

void queue_write(const ggml_backend_ptr& stream, ggml_tensor* tensor,
                 const std::vector<float>& from) {
    ggml_backend_tensor_set_async(stream.get(), tensor, from.data(), 0,
                                  from.size() * sizeof(float));
}

void queue_read(const ggml_backend_ptr& stream, const ggml_tensor* tensor, std::vector<float>& to) {
    ggml_backend_tensor_get_async(stream.get(), tensor, to.data(), 0, to.size() * sizeof(float));
}

TEST_P(Stream, SynchronizingWithNothingQueuedReturns) {
    ggml_backend_synchronize(first_.get());
    ggml_backend_synchronize(first_.get());
}

TEST_P(Stream, TransfersAndGraphsKeepTheirOrder) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const Chain chain(doubling, buffer_type(), 3);
    std::vector<std::vector<float>> inputs, results;
    for (int i = 0; i < 8; ++i) {
        inputs.push_back(counting(kSquare, float(10 * i)));
        results.emplace_back(kSquare);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        queue_write(first_, chain.input(), inputs[i]);
        ASSERT_EQ(queue(first_, chain), GGML_STATUS_SUCCESS) << heddle_last_error();
        queue_read(first_, chain.output(), results[i]);
    }
    ggml_backend_synchronize(first_.get());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_EQ(results[i], chain.expected(float(10 * i))) << "round " << i;
    }
}

TEST_P(Stream, RowsCanBeQueuedWithStrides) {
    Workspace workspace;
    ggml_tensor* tensor = workspace.floats(4, 3);
    ASSERT_TRUE(workspace.place(buffer_type()));
    write(tensor, std::vector<float>(12));
    const std::vector<float> host = counting(9, 1);
    std::vector<float> back(9);
    constexpr std::size_t f = sizeof(float);
    ggml_backend_tensor_set_2d_async(first_.get(), tensor, host.data(), f, 2 * f, 3, 4 * f, 3 * f);
    ggml_backend_tensor_get_2d_async(first_.get(), tensor, back.data(), f, 2 * f, 3, 4 * f, 3 * f);
    ggml_backend_synchronize(first_.get());
    EXPECT_EQ(back, (std::vector<float>{1, 2, 0, 4, 5, 0, 7, 8, 0}));
}

TEST_P(Stream, CopiesFromAnotherStreamComeAfterItsWorkAndBeforeLaterWork) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const Chain source(doubling, buffer_type(), 4), target(doubling, buffer_type(), 2);
    for (const float start : {0.0f, 3.0f, 11.0f}) {
        const std::vector<float> input = counting(kSquare, start);
        const std::vector<float> other = counting(kSquare, 5000);
        queue_write(first_, source.input(), input);
        ASSERT_EQ(queue(first_, source), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_copy_async(first_.get(), second_.get(), source.output(),
                                       target.input());
        // What the source stream does next must not reach the copy.
        queue_write(first_, source.output(), other);
        ASSERT_EQ(queue(second_, target), GGML_STATUS_SUCCESS);
        ggml_backend_synchronize(second_.get());
        EXPECT_EQ(read(target.output()), doubled(input, 6));
        ggml_backend_synchronize(first_.get());
    }
}

TEST_P(Stream, CopiesFromTheHostStreamArrive) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const ggml_backend_ptr host(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    if (host == nullptr) GTEST_SKIP() << "there is no CPU device";
    const Chain chain(doubling, buffer_type());
    Workspace workspace;
    ggml_tensor* from = workspace.floats(Doubling::kSide, Doubling::kSide);
    ASSERT_TRUE(workspace.place(ggml_backend_cpu_buffer_type()));
    write(from, counting(kSquare, 4));
    ggml_backend_tensor_copy_async(host.get(), first_.get(), from, chain.input());
    ASSERT_EQ(queue(first_, chain), GGML_STATUS_SUCCESS);
    ggml_backend_synchronize(first_.get());
    EXPECT_EQ(read(chain.output()), chain.expected(4));
}

TEST_P(Stream, EventsExistWhereTheDeviceSaysSo) {
    EXPECT_EQ(new_event() != nullptr, props().caps.events);
}

TEST_P(Stream, AnEventThatWasNeverRecordedCountsAsComplete) {
    const ggml_backend_event_ptr event = new_event();
    if (event == nullptr) GTEST_SKIP() << "has no events";
    ggml_backend_event_synchronize(event.get());
    ggml_backend_event_wait(first_.get(), event.get());
    ggml_backend_synchronize(first_.get());
}

TEST_P(Stream, AnEventIsReachedOnlyAfterWhatWasQueuedBefore) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const ggml_backend_event_ptr event = new_event();
    if (event == nullptr) GTEST_SKIP() << "has no events";
    const Chain chain(doubling, buffer_type(), 6);
    for (const float start : {0.0f, 1.0f, 2.0f}) {  // recording again moves the mark
        const std::vector<float> input = counting(kSquare, start);
        std::vector<float> result(kSquare);
        queue_write(first_, chain.input(), input);
        ASSERT_EQ(queue(first_, chain), GGML_STATUS_SUCCESS);
        queue_read(first_, chain.output(), result);
        ggml_backend_event_record(event.get(), first_.get());
        ggml_backend_event_synchronize(event.get());
        EXPECT_EQ(result, chain.expected(start));
    }
}

TEST_P(Stream, OneStreamWaitsForTheEventOfAnother) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const ggml_backend_event_ptr event = new_event();
    if (event == nullptr) GTEST_SKIP() << "has no events";
    const Chain chain(doubling, buffer_type(), 6);
    for (int i = 0; i < 10; ++i) {
        const std::vector<float> input = counting(kSquare, float(i));
        std::vector<float> result(kSquare);
        queue_write(first_, chain.input(), input);
        ASSERT_EQ(queue(first_, chain), GGML_STATUS_SUCCESS);
        ggml_backend_event_record(event.get(), first_.get());
        ggml_backend_event_wait(second_.get(), event.get());
        queue_read(second_, chain.output(), result);
        ggml_backend_synchronize(second_.get());
        EXPECT_EQ(result, chain.expected(float(i))) << "round " << i;
    }
    ggml_backend_synchronize(first_.get());
}

TEST_P(Stream, RecordingAgainDoesNotDisturbAWaitThatIsQueued) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const ggml_backend_event_ptr event = new_event();
    if (event == nullptr) GTEST_SKIP() << "has no events";
    const Chain chain(doubling, buffer_type(), 3);
    const std::vector<float> input = counting(kSquare);
    std::vector<float> result(kSquare);
    queue_write(first_, chain.input(), input);
    ASSERT_EQ(queue(first_, chain), GGML_STATUS_SUCCESS);
    ggml_backend_event_record(event.get(), first_.get());
    ggml_backend_event_wait(second_.get(), event.get());
    ggml_backend_event_record(event.get(), second_.get());  // would wait for itself if it did
    queue_read(second_, chain.output(), result);
    ggml_backend_synchronize(second_.get());
    ggml_backend_synchronize(first_.get());
    EXPECT_EQ(result, chain.expected(0));
}

TEST_P(Stream, MayBeFreedWithWorkStillQueued) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const Chain chain(doubling, buffer_type(), 8);
    write(chain.input(), counting(kSquare));
    for (int i = 0; i < 5; ++i) {
        const ggml_backend_ptr stream = new_stream();
        ASSERT_EQ(queue(stream, chain), GGML_STATUS_SUCCESS);
    }
}

/// In turns with the processor, several runs without waiting, each for a graph that is built where
/// the last one was: what a stream was given to compute must be as it was when it comes to it.
TEST_P(Stream, NodesOfASchedulerStayAsTheyWereGivenUntilTheStreamIsSynchronized) {
    HEDDLE_NEEDS_DOUBLING(doubling);
    const ggml_backend_ptr cpu(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    ASSERT_NE(cpu, nullptr) << heddle_last_error();
    ggml_backend_t streams[] = {first_.get(), cpu.get()};
    for (const bool parallel : {false, true}) {
        const ggml_backend_sched_ptr sched(
            ggml_backend_sched_new(streams, nullptr, 2, 64, parallel, false));
        ASSERT_NE(sched, nullptr) << heddle_last_error();
        std::vector<char> memory(std::size_t{1} << 16);
        constexpr int kRuns = 6, kTurns = 3;
        std::vector<std::vector<float>> results(kRuns, std::vector<float>(kSquare));
        for (int run = 0; run < kRuns; ++run) {
            ggml_backend_sched_reset(sched.get());
            std::fill(memory.begin(), memory.end(), '\x5a');
            const ggml_context_ptr context(ggml_init(
                {.mem_size = memory.size(), .mem_buffer = memory.data(), .no_alloc = true}));
            ggml_cgraph* const graph = ggml_new_graph_custom(context.get(), 64, false);
            const auto input = [&] {
                ggml_tensor* const made = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32,
                                                             Doubling::kSide, Doubling::kSide);
                ggml_set_input(made);
                return made;
            };
            ggml_tensor *const x = input(), *const two = input();
            ggml_tensor* y = x;
            for (int turn = 0; turn < kTurns; ++turn) {
                y = doubling.twice(context.get(), y, two);
                ggml_backend_sched_set_tensor_backend(sched.get(), y, first_.get());
                y = ggml_scale(context.get(), y, 0.5F);
                ggml_backend_sched_set_tensor_backend(sched.get(), y, cpu.get());
            }
            y = doubling.twice(context.get(), y, two);
            ggml_backend_sched_set_tensor_backend(sched.get(), y, first_.get());
            ggml_build_forward_expand(graph, y);
            ggml_build_forward_expand(graph, two);
            ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched.get(), graph)) << heddle_last_error();
            write(x, counting(kSquare, float(run)));
            Doubling::fill_two(two);
            ASSERT_EQ(ggml_backend_sched_graph_compute_async(sched.get(), graph),
                      GGML_STATUS_SUCCESS)
                << heddle_last_error();
            queue_read(first_, y, results[std::size_t(run)]);
        }
        ggml_backend_sched_synchronize(sched.get());
        for (int run = 0; run < kRuns; ++run) {
            EXPECT_EQ(results[std::size_t(run)], doubled(counting(kSquare, float(run))))
                << "run " << run << (parallel ? ", several at a time" : "");
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Every, Stream, testing::ValuesIn(all_subjects()), label_of);

}  // namespace
}  // namespace heddle::conformance
