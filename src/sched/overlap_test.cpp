// Graphs that differ from run to run, as the parts of a long prompt do: one device works on the
// next while another is still at the last one.

#include <map>
#include <random>

#include "ggml/ops_layout.h"
#include "sched/test_support.hpp"

namespace heddle::sched {
namespace {

constexpr std::int64_t kWide = 64, kMostColumns = 64;
constexpr float kMemory = 0.25F;  ///< less than 1: rounding errors do not pile up

/// A product of 64 columns takes 16 us, a copy of its result to another device as long.
constexpr const char* kBalanced = ",link=1G,flops=32G,membw=10T,latency=100ns,trace=1";

/// Stages that each multiply what comes by a weight, add what they have kept, and keep a part of
/// the sum for the next run of the same group.
class Stages {
public:
    explicit Stages(const std::vector<ggml_backend_buffer_type_t>& types, std::size_t groups) {
        for (const auto type : types) {
            const auto seed = static_cast<unsigned>(stages_.size() + 1);
            Stage& stage = stages_.emplace_back();
            stage.weight = matrix("w", kWide, type);
            ggml_backend_buffer_set_usage(stage.weight->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
            stage.values = sim::numbers(kWide * kWide, seed);
            for (float& value : stage.values) value *= 0.1F;
            sim::write(stage.weight, stage.values);
            for (std::size_t group = 0; group < groups; ++group) {
                stage.kept.push_back(matrix("kept", kMostColumns, type));
                stage.expected.emplace_back(kWide * kMostColumns);
                sim::write(stage.kept.back(), stage.expected.back());
            }
        }
    }

    struct Net : Sketch {
        Tensor *x = nullptr, *y = nullptr;
    };
    Net build(std::size_t group, std::int64_t columns) const {
        Net net;
        ggml_context* const c = net.context();
        net.x = ggml_new_tensor_2d(c, GGML_TYPE_F32, kWide, columns);
        ggml_set_input(ggml_set_name(net.x, "x"));
        net.y = net.x;
        for (const Stage& stage : stages_) {
            Tensor* const kept = stage.kept[group];
            const auto part = [&] { return ggml_view_2d(c, kept, kWide, columns, kept->nb[1], 0); };
            net.y = ggml_add(c, ggml_mul_mat(c, stage.weight, net.y), part());
            ggml_build_forward_expand(net.graph(), net.y);
            ggml_build_forward_expand(net.graph(),
                                      ggml_cpy(c, ggml_scale(c, net.y, kMemory), part()));
        }
        ggml_set_output(net.y);
        return net;
    }

    /// What a run gives; the next one of the group sees that there was this one.
    Values expect(std::size_t group, Values y) {
        const std::size_t columns = y.size() / kWide;
        for (Stage& stage : stages_) {
            Values next(y.size());
            for (std::size_t c = 0; c < columns; ++c) {
                for (std::size_t r = 0; r < kWide; ++r) {
                    next[c * kWide + r] = std::inner_product(
                        stage.values.data() + r * kWide, stage.values.data() + (r + 1) * kWide,
                        &y[c * kWide], stage.expected[group][c * kWide + r]);
                }
            }
            std::ranges::transform(next, stage.expected[group].begin(),
                                   [](float value) { return kMemory * value; });
            y = std::move(next);
        }
        return y;
    }

private:
    struct Stage {
        Tensor* weight = nullptr;
        Values values;
        std::vector<Tensor*> kept;
        std::vector<Values> expected;
    };

    Tensor* matrix(const char* name, std::int64_t columns, ggml_backend_buffer_type_t type) {
        return ggml_set_name(bench_.matrix(kWide, columns, type), name);
    }

    sim::Bench bench_;
    std::vector<Stage> stages_;
};

class OverlapTest : public testing::Test {
protected:
    struct Step {
        std::size_t group;
        std::int64_t columns;
        bool waits = false;  ///< for the run to end
    };

    /// `devices` of them with two stages each.
    void start(int devices, std::size_t groups) {
        rig = std::make_unique<Rig>("devices=" + std::to_string(devices) + kBalanced, true);
        std::vector<ggml_backend_buffer_type_t> types;
        for (std::size_t i = 0; i < rig->device_count(); ++i) {
            types.insert(types.end(), 2, rig->memory(i));
        }
        stages = std::make_unique<Stages>(types, groups);
        Stages::Net largest = stages->build(0, kMostColumns);
        ASSERT_TRUE(ggml_backend_sched_reserve(rig->sched(), largest.graph()));
    }

    /// Virtual seconds that all steps take.
    double run(const std::vector<Step>& steps, bool one_by_one = false) {
        const double began = latest();
        std::vector<Values> results, expected;
        results.reserve(steps.size());
        for (std::size_t i = 0; i < steps.size(); ++i) {
            const auto [group, columns, waits] = steps[i];
            Stages::Net net = stages->build(group, columns);
            ggml_backend_sched_reset(rig->sched());
            if (!ggml_backend_sched_alloc_graph(rig->sched(), net.graph())) {
                ADD_FAILURE() << heddle_last_error();
                return 0;
            }
            const Values x =
                sim::numbers(static_cast<std::size_t>(kWide * columns), static_cast<unsigned>(i));
            sim::write(net.x, x);
            expected.push_back(stages->expect(group, x));
            EXPECT_EQ(ggml_backend_sched_graph_compute_async(rig->sched(), net.graph()),
                      GGML_STATUS_SUCCESS);
            Values& result = results.emplace_back(x.size());
            ggml_backend_tensor_get_async(
                ggml_backend_sched_get_tensor_backend(rig->sched(), net.y), net.y, result.data(), 0,
                ggml_nbytes(net.y));
            if (one_by_one || waits) ggml_backend_sched_synchronize(rig->sched());
        }
        ggml_backend_sched_synchronize(rig->sched());
        for (std::size_t i = 0; i < steps.size(); ++i) {
            SCOPED_TRACE("step " + std::to_string(i));
            expect_near(results[i], expected[i]);
        }
        return latest() - began;
    }

    double latest() {
        double time = sim::clock_of(nullptr);
        for (std::size_t i = 0; i < rig->device_count(); ++i) {
            time = std::max(time, sim::clock_of(rig->device(i)));
        }
        return time;
    }

    std::unique_ptr<Rig> rig;
    std::unique_ptr<Stages> stages;
};

TEST_F(OverlapTest, GraphsThatGrow) {
    start(4, 1);
    std::vector<Step> steps;
    for (std::int64_t columns = 33; columns <= kMostColumns; ++columns) {
        steps.push_back({0, columns});
    }
    const double overlapped = run(steps);
    const double one_by_one = run(steps, true);
    // Four at a time, less the copies that nothing hides, and the beginning.
    EXPECT_LT(overlapped, one_by_one / 2);
    std::printf("%.2f of the time one by one\n", overlapped / one_by_one);
}

TEST_F(OverlapTest, GraphsWithOtherMemoryOfTheCallers) {
    start(4, 4);
    std::vector<Step> steps;
    for (std::size_t i = 0; i < 32; ++i) steps.push_back({i % 4, kMostColumns});
    const double overlapped = run(steps);
    const double one_by_one = run(steps, true);
    EXPECT_LT(overlapped, one_by_one / 2);
    std::printf("%.2f of the time one by one\n", overlapped / one_by_one);
}

TEST_F(OverlapTest, AnyOrderOfSizesAndGroupsGivesTheSameResults) {
    start(3, 3);
    std::mt19937 random(7);
    std::vector<Step> steps;
    for (int i = 0; i < 200; ++i) {
        const bool again = i > 0 && random() % 3 == 0;
        const auto columns = static_cast<std::int64_t>(1 + random() % kMostColumns);
        steps.push_back(again ? steps.back() : Step{random() % 3, columns});
        steps.back().waits = random() % 5 == 0;
    }
    run(steps);
}

TEST_F(OverlapTest, GraphsLikeTheOneThatWasReservedTakeItsPlan) {
    start(2, 1);
    Stages::Net largest = stages->build(0, kMostColumns), smaller = stages->build(0, 40);
    ASSERT_TRUE(ggml_backend_sched_reserve(rig->sched(), largest.graph())) << heddle_last_error();
    for (const Tensor* tensor : {largest.x, largest.y}) {
        EXPECT_EQ(tensor->buffer, nullptr);
        EXPECT_EQ(tensor->data, nullptr);
    }
    const heddle_sched_counts before = rig->counts();
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(rig->sched(), smaller.graph()))
        << heddle_last_error();
    EXPECT_EQ(rig->counts().placed, before.placed);
    EXPECT_EQ(rig->counts().reused, before.reused + 1);
}

TEST_F(OverlapTest, WhatCallersQueueMeanwhileIsWaitedFor) {
    start(1, 1);
    const auto begin = [&](Stages::Net& net) {
        ggml_backend_sched_reset(rig->sched());
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(rig->sched(), net.graph()));
        sim::write(net.x, sim::numbers(static_cast<std::size_t>(ggml_nelements(net.x)), 1));
        EXPECT_EQ(ggml_backend_sched_graph_compute_async(rig->sched(), net.graph()),
                  GGML_STATUS_SUCCESS);
    };
    Stages::Net first = stages->build(0, kMostColumns / 2), second = stages->build(0, kMostColumns);
    // Another graph, so that another plan is made.
    ggml_build_forward_expand(second.graph(), ggml_silu(second.context(), second.y));
    begin(first);
    ggml_backend_sched_synchronize(rig->sched());
    Values result(static_cast<std::size_t>(ggml_nelements(first.y)));
    ggml_backend_tensor_get_async(rig->stream(0), first.y, result.data(), 0, ggml_nbytes(first.y));
    begin(second);
    ggml_backend_sched_synchronize(rig->sched());
    double read = 0, written = 0;
    for (const heddle_sim_item& item : sim::trace_of(rig->device(0))) {
        if (item.kind == HEDDLE_SIM_READ) read = item.end;
        if (item.kind == HEDDLE_SIM_WRITE) written = item.start;
    }
    EXPECT_GT(read, 0);
    EXPECT_GE(written, read) << "the copy of x may lie over the first result";
}

TEST_F(OverlapTest, AFailureIsToldWhenTheNextGraphHasToWait) {
    start(2, 1);
    sim::Bench bench;
    Sketch net;
    Tensor* const table = bench.matrix(kWide, 4, rig->memory(1));
    sim::write(table, sim::numbers(kWide * 4, 1));
    Tensor* const row = ggml_set_name(ggml_new_tensor_1d(net.context(), GGML_TYPE_I32, 1), "row");
    ggml_set_input(row);
    net.add("taken", ggml_get_rows(net.context(), table, row));
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(rig->sched(), net.graph())) << heddle_last_error();
    const std::int32_t beyond = 4;
    ggml_backend_tensor_set(row, &beyond, 0, sizeof beyond);
    ASSERT_EQ(ggml_backend_sched_graph_compute_async(rig->sched(), net.graph()),
              GGML_STATUS_SUCCESS);

    // More columns than were reserved: memory that the run may still use has to grow.
    Stages::Net larger = stages->build(0, kMostColumns);
    Tensor* const more = ggml_repeat_4d(larger.context(), larger.y, kWide, 4 * kMostColumns, 1, 1);
    ggml_build_forward_expand(larger.graph(), more);
    ggml_backend_sched_reset(rig->sched());
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(rig->sched(), larger.graph()));
    EXPECT_NE(std::string(heddle_last_error()).find("SIM1"), std::string::npos)
        << heddle_last_error();
    EXPECT_TRUE(ggml_backend_sched_alloc_graph(rig->sched(), larger.graph()))
        << heddle_last_error();
}

}  // namespace
}  // namespace heddle::sched
