// Times of a run, as schedules tell them, against the clock on the wall.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/sim/test_support.hpp"
#include "ggml-cpu.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "heddle/sched.h"
#include "sched/explain/schedule.hpp"
#include "tests/conformance/late_device.hpp"

namespace heddle::sched {
namespace {

using OwnedSched =
    std::unique_ptr<ggml_backend_sched, sim::Release<ggml_backend_sched, ggml_backend_sched_free>>;

/// A run with its times, and how long it took for the one who waited for it.
struct Measured {
    Schedule schedule;
    double wall = 0;
};

bool was_done(const Schedule::ActionInfo& action) { return action.measured && !action.skipped; }
double length(const Schedule::ActionInfo& action) {
    return action.measured_end - action.measured_start;
}

/// Seconds in which at least one device did something.
double busy(const Schedule& schedule) {
    std::vector<std::pair<double, double>> spans;
    for (const auto& action : schedule.actions) {
        if (was_done(action)) spans.emplace_back(action.measured_start, action.measured_end);
    }
    std::ranges::sort(spans);
    double sum = 0, covered = 0;
    for (const auto& [start, end] : spans) {
        sum += std::max(0.0, end - std::max(start, covered));
        covered = std::max(covered, end);
    }
    return sum;
}

/// A queue does one thing at a time, what waits begins after what it waits for, and all of it lies
/// within the run.
void expect_possible(const Measured& run) {
    const auto& actions = run.schedule.actions;
    std::map<std::pair<int, std::string>, double> sums, ends;
    for (const auto& action : actions) {
        ASSERT_TRUE(action.measured) << action.kind << " " << action.index;
        if (action.skipped) continue;
        const std::pair queue(action.device, action.queue);
        EXPECT_GE(action.measured_start, ends[queue]) << action.kind << " " << action.index;
        EXPECT_GE(action.measured_end, action.measured_start);
        ends[queue] = action.measured_end;
        sums[queue] += length(action);
        for (const int wait : action.waits) {
            const auto& other = actions[static_cast<std::size_t>(wait)];
            EXPECT_GE(action.measured_start, other.measured_end) << action.kind << action.index;
        }
    }
    for (const auto& [queue, sum] : sums) EXPECT_LE(sum, run.wall) << queue.second;
    EXPECT_LE(run.schedule.measured_seconds, run.wall);
}

/// Of several runs the largest: a machine with other things to do leaves gaps in some.
double best_share(const std::vector<Measured>& runs) {
    double best = 0;
    for (const Measured& run : runs) best = std::max(best, busy(run.schedule) / run.wall);
    return best;
}

std::vector<double> lengths(const std::vector<Measured>& runs, const std::string& kind) {
    std::vector<double> all;
    for (const Measured& run : runs) {
        for (const auto& action : run.schedule.actions) {
            if (action.kind == kind && was_done(action)) all.push_back(length(action));
        }
    }
    std::ranges::sort(all);
    return all;
}

constexpr int kRuns = 9;
/// What lies between two actions is calls of the scheduler: microseconds beside milliseconds.
constexpr double kLeastShare = 0.5;

class MeasuredTimes : public testing::Test {
protected:
    void TearDown() override {
        scheduler_.reset();
        conformance::LateQueue::waits_to_be_asked = true;
    }

    void use(std::vector<sim::Stream> streams) {
        streams_ = std::move(streams);
        std::vector<ggml_backend_t> all;
        for (const sim::Stream& each : streams_) all.push_back(each.get());
        scheduler_.reset(ggml_backend_sched_new(all.data(), nullptr, static_cast<int>(all.size()),
                                                1024, false, false));
        ASSERT_NE(scheduler_, nullptr) << heddle_last_error();
    }

    /// `count` nodes, each of the last one and a weight in memory of stream `where`.
    Tensor* chain(Tensor* x, std::size_t where, int count,
                  const std::function<Tensor*(Tensor* weight, Tensor* x)>& node, std::int64_t rows,
                  std::int64_t columns) {
        Tensor* const weight = bench_.matrix(
            rows, columns, ggml_backend_get_default_buffer_type(streams_[where].get()));
        ggml_backend_buffer_set_usage(weight->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        std::vector<float> values = sim::numbers(static_cast<std::size_t>(rows * columns));
        for (float& value : values) value /= static_cast<float>(rows);
        sim::write(weight, values);
        for (int i = 0; i < count; ++i) x = node(weight, x);
        return x;
    }

    std::vector<Measured> run(Tensor* x, Tensor* y) {
        ggml_cgraph* const graph = ggml_new_graph_custom(bench_.context(), 1024, false);
        ggml_set_output(y);
        ggml_build_forward_expand(graph, y);
        EXPECT_TRUE(ggml_backend_sched_alloc_graph(scheduler_.get(), graph)) << heddle_last_error();
        heddle_sched_set_tracing(scheduler_.get(), true);
        std::vector<Measured> runs;
        for (int i = 0; i <= kRuns; ++i) {
            sim::write(x, sim::numbers(static_cast<std::size_t>(ggml_nelements(x))));
            const auto began = std::chrono::steady_clock::now();
            EXPECT_EQ(ggml_backend_sched_graph_compute(scheduler_.get(), graph),
                      GGML_STATUS_SUCCESS)
                << heddle_last_error();
            const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
            if (i == 0) continue;  // threads begin, and streams for copies
            auto made = explain(*scheduler_, false);
            EXPECT_TRUE(made) << made.error().message;
            if (made) runs.push_back({*std::move(made), wall.count()});
        }
        return runs;
    }

    Tensor* input(std::int64_t rows, std::int64_t columns = 1) {
        Tensor* const x = ggml_new_tensor_2d(bench_.context(), GGML_TYPE_F32, rows, columns);
        ggml_set_input(x);
        return x;
    }

    static sim::Stream processor() {
        sim::Stream stream(ggml_backend_cpu_init());
        ggml_backend_cpu_set_n_threads(stream.get(), 1);
        return stream;
    }

    std::vector<sim::Stream> streams_;
    OwnedSched scheduler_;
    sim::Bench bench_;
};

constexpr std::int64_t kWidth = 256;  // a column is 1 KiB

TEST_F(MeasuredTimes, OfTheProcessorAloneFillTheRun) {
    std::vector<sim::Stream> streams;
    streams.push_back(processor());
    use(std::move(streams));
    Tensor* const x = input(kWidth, 64);
    const auto product = [&](Tensor* w, Tensor* last) {
        return ggml_mul_mat(bench_.context(), w, last);
    };
    const auto runs = run(x, chain(x, 0, 60, product, kWidth, kWidth));
    ASSERT_EQ(runs.size(), std::size_t{kRuns});
    for (const Measured& each : runs) expect_possible(each);
    EXPECT_GE(best_share(runs), kLeastShare);
}

/// Splits of 120 nodes and copies of 1 KiB between them.
TEST_F(MeasuredTimes, OfDevicesInTheBackgroundAreThoseOfTheirQueues) {
    ASSERT_TRUE(sim::configure("devices=2"));
    std::vector<sim::Stream> streams;
    for (std::size_t i = 0; i < 2; ++i) {
        streams.emplace_back(ggml_backend_dev_init(sim::device(i), nullptr));
    }
    streams.push_back(processor());
    use(std::move(streams));
    Tensor* const x = input(kWidth);
    const auto product = [&](Tensor* w, Tensor* last) {
        return ggml_mul_mat(bench_.context(), w, last);
    };
    Tensor* y = x;
    for (const std::size_t where : {0, 1, 0, 1}) y = chain(y, where, 120, product, kWidth, kWidth);
    const auto runs = run(x, y);
    ASSERT_EQ(runs.size(), std::size_t{kRuns});
    for (const Measured& each : runs) {
        ASSERT_EQ(each.schedule.splits.size(), 4u);
        expect_possible(each);
    }
    EXPECT_GE(best_share(runs), kLeastShare);
    const auto splits = lengths(runs, "compute"), copies = lengths(runs, "copy");
    ASSERT_GE(copies.size(), std::size_t{4 * kRuns});
    EXPECT_LT(copies[copies.size() / 2], splits.front()) << "1 KiB against 120 products";
}

/// A device that nobody can ask is waited for, whenever it begins with what it was given.
TEST_F(MeasuredTimes, OfADeviceThatNotesNothingAreTrueAsWell) {
    for (const bool waits_to_be_asked : {false, true}) {
        conformance::LateQueue::waits_to_be_asked = waits_to_be_asked;
        std::vector<sim::Stream> streams;
        streams.emplace_back(ggml_backend_dev_init(conformance::late_device(), nullptr));
        streams.push_back(processor());
        scheduler_.reset();
        use(std::move(streams));
        const auto sum = [&](Tensor* w, Tensor* last) {
            return ggml_add(bench_.context(), last, w);
        };
        Tensor* const x = input(kWidth, kWidth);
        Tensor* y = chain(x, 0, 20, sum, kWidth, kWidth);
        y = ggml_sqr(bench_.context(), y);  // on the processor
        const auto runs = run(x, chain(y, 0, 20, sum, kWidth, kWidth));
        ASSERT_EQ(runs.size(), std::size_t{kRuns});
        for (const Measured& each : runs) {
            ASSERT_GE(each.schedule.splits.size(), 3u);
            expect_possible(each);
        }
        EXPECT_GE(best_share(runs), kLeastShare);
    }
}

}  // namespace
}  // namespace heddle::sched
