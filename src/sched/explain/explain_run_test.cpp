// Schedules of real graphs, on the CPU and a simulated accelerator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backends/sim/test_support.hpp"
#include "ggml-cpu.h"
#include "ggml/ops_math.h"
#include "ggml/ops_nn.h"
#include "ggml/ops_reduce.h"
#include "heddle/cpu.h"
#include "heddle/sched.h"
#include "sched/explain/schedule.hpp"

namespace heddle::sched {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using SchedulerOwner =
    std::unique_ptr<ggml_backend_sched, sim::Release<ggml_backend_sched, ggml_backend_sched_free>>;

/// a = wg x, b = silu(a), d = wc b, e = silu(d), f = wg e: wg on the accelerator, wc on the host.
class ExplainRun : public testing::Test {
protected:
    void SetUp() override { start("devices=1"); }

    void start(const std::string& parameters, bool parallel = false, bool offload = false) {
        scheduler_.reset();
        bench_ = sim::Bench();
        ASSERT_TRUE(sim::configure(parameters));
        accelerator_.reset(ggml_backend_dev_init(sim::device(), nullptr));
        cpu_.reset(ggml_backend_cpu_init());
        ggml_backend_t streams[] = {accelerator_.get(), cpu_.get()};
        scheduler_.reset(ggml_backend_sched_new(streams, nullptr, 2, 64, parallel, offload));
        ASSERT_NE(scheduler_, nullptr);
        build();
    }

    Tensor* weight(ggml_backend_t where, const char* name) {
        Tensor* made = bench_.matrix(64, 64, ggml_backend_get_default_buffer_type(where));
        ggml_backend_buffer_set_usage(made->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        sim::write(made, sim::numbers(64 * 64));
        return ggml_set_name(made, name);
    }

    void build() {
        ggml_context* const context = bench_.context();
        Tensor* const wg = weight(accelerator_.get(), "wg");
        Tensor* const wc = weight(cpu_.get(), "wc");
        x_ = ggml_set_name(ggml_new_tensor_2d(context, GGML_TYPE_F32, 64, 8), "x");
        ggml_set_input(x_);
        Tensor* const a = ggml_set_name(ggml_mul_mat(context, wg, x_), "a");
        Tensor* const b = ggml_set_name(ggml_silu(context, a), "b");
        Tensor* const d = ggml_set_name(ggml_mul_mat(context, wc, b), "d");
        Tensor* const e = ggml_set_name(ggml_silu(context, d), "e");
        f_ = ggml_set_name(ggml_mul_mat(context, wg, e), "f");
        graph_ = bench_.graph({f_});
    }

    void compute() {
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(scheduler_.get(), graph_));
        sim::write(x_, sim::numbers(64 * 8));
        ASSERT_EQ(ggml_backend_sched_graph_compute(scheduler_.get(), graph_), GGML_STATUS_SUCCESS);
    }

    Schedule schedule() {
        auto made = explain(*scheduler_);
        EXPECT_TRUE(made) << made.error().message;
        return made ? *std::move(made) : Schedule{};
    }

    sim::Bench bench_;
    sim::Stream accelerator_, cpu_;
    SchedulerOwner scheduler_;
    Tensor *x_ = nullptr, *f_ = nullptr;
    ggml_cgraph* graph_ = nullptr;
};

std::vector<std::string> names_of(const Schedule& schedule, const std::vector<int>& nodes) {
    std::vector<std::string> names;
    for (const int i : nodes) names.push_back(schedule.nodes.at(static_cast<std::size_t>(i)).name);
    return names;
}

const Schedule::Node& find(const Schedule& schedule, const std::string& name) {
    return *std::find_if(schedule.nodes.begin(), schedule.nodes.end(),
                         [&](const auto& node) { return node.name == name; });
}

TEST_F(ExplainRun, WithoutAGraphThereIsNothingToExplain) {
    const auto made = explain(*scheduler_);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message, HasSubstr("no graph"));
    EXPECT_EQ(heddle_sched_explain(scheduler_.get(), HEDDLE_EXPLAIN_JSON), nullptr);
}

TEST_F(ExplainRun, SplitsCopiesAndReasonsAreThoseOfTheWorkedExample) {
    compute();
    const Schedule made = schedule();
    ASSERT_EQ(made.splits.size(), 3u);
    EXPECT_THAT(names_of(made, made.splits[0].nodes), ElementsAre("a", "b"));
    EXPECT_THAT(names_of(made, made.splits[1].nodes), ElementsAre("d"));
    EXPECT_THAT(names_of(made, made.splits[2].nodes), ElementsAre("e", "f"));
    ASSERT_EQ(made.copies.size(), 3u);
    EXPECT_EQ(made.copies[0].tensor, "x");
    EXPECT_EQ(made.copies[0].kind, "input");
    EXPECT_EQ(made.copies[1].tensor, "b");
    EXPECT_EQ(made.copies[1].from, 0);
    EXPECT_EQ(made.copies[1].to, 1);
    EXPECT_EQ(made.copies[1].bytes, 64u * 8 * sizeof(float));
    EXPECT_THAT(made.copies[2].name, HasSubstr("#d#0"));
    EXPECT_EQ(find(made, "a").why, "weight 'wg' is there");
    EXPECT_EQ(find(made, "b").rule, "spread_down");
    EXPECT_EQ(find(made, "d").why, "weight 'wc' is there");
    EXPECT_EQ(find(made, "e").rule, "spread_up");
    EXPECT_THAT(made.hazards, IsEmpty());
}

bool set_fusion(ggml_backend_t stream, heddle_cpu_fusion fusion) {
    const auto set = reinterpret_cast<heddle_cpu_set_fusion_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(), "heddle_cpu_set_fusion"));
    return set != nullptr && set(stream, fusion);
}

TEST_F(ExplainRun, NodesThatAreComputedTogetherSayWithWhom) {
    ASSERT_TRUE(set_fusion(cpu_.get(), HEDDLE_CPU_FUSION_ALWAYS));
    ggml_backend_t streams[] = {cpu_.get()};
    const SchedulerOwner alone(ggml_backend_sched_new(streams, nullptr, 1, 64, false, false));
    ggml_context* const context = bench_.context();
    Tensor* const even = ggml_set_name(ggml_rms_norm(context, x_, 1e-6f), "even");
    Tensor* const active = ggml_set_name(ggml_silu(context, even), "active");
    Tensor* const shares = ggml_set_name(ggml_soft_max(context, active), "shares");
    ggml_cgraph* const graph = bench_.graph({shares});
    for (const bool has_memory : {false, true}) {
        if (has_memory) {
            ASSERT_TRUE(ggml_backend_sched_alloc_graph(alone.get(), graph));
        } else {
            ggml_backend_sched_split_graph(alone.get(), graph);
        }
        const auto made = explain(*alone);
        ASSERT_TRUE(made) << made.error().message;
        EXPECT_EQ(find(*made, "even").with, 0);
        EXPECT_EQ(find(*made, "active").with, 0);
        EXPECT_EQ(find(*made, "shares").with, -1);
        EXPECT_THAT(to_text(*made), HasSubstr("; 2 nodes computed with others\n"));
        EXPECT_THAT(to_json(*made), HasSubstr("\"split\":0,\"with\":0,"));
        EXPECT_THAT(nodes_to_text(*made), HasSubstr(" 0  even  "));
    }
}

TEST_F(ExplainRun, WhatIsComputedTogetherIsThereForOtherDevices) {
    ggml_context* const context = bench_.context();
    Tensor* const even = ggml_set_name(ggml_rms_norm(context, x_, 1e-6f), "even");
    Tensor* const active = ggml_set_name(ggml_silu(context, even), "active");
    // The accelerator reads what lies between the two.
    Tensor* const other = ggml_mul_mat(context, f_->src[0], even);
    Tensor* const sum = ggml_add(context, active, other);
    ggml_cgraph* const graph = bench_.graph({sum});
    std::vector<std::vector<float>> results;
    for (const auto fusion : {HEDDLE_CPU_FUSION_OFF, HEDDLE_CPU_FUSION_ALWAYS}) {
        ggml_backend_sched_reset(scheduler_.get());
        for (Tensor* node : {even, active}) {
            ggml_backend_sched_set_tensor_backend(scheduler_.get(), node, cpu_.get());
        }
        ASSERT_TRUE(set_fusion(cpu_.get(), fusion));
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(scheduler_.get(), graph));
        sim::write(x_, sim::numbers(64 * 8));
        ASSERT_EQ(ggml_backend_sched_graph_compute(scheduler_.get(), graph), GGML_STATUS_SUCCESS);
        results.push_back(sim::read(sum));
        const bool together = fusion == HEDDLE_CPU_FUSION_ALWAYS;
        EXPECT_EQ(find(schedule(), "active").with >= 0, together);
    }
    EXPECT_EQ(results[0], results[1]);
}

TEST_F(ExplainRun, DevicesSayWhyTheyDecline) {
    start("devices=1,ops=all,-SILU");
    compute();
    const Schedule made = schedule();
    ASSERT_EQ(find(made, "b").declined.size(), 1u);
    EXPECT_EQ(find(made, "b").declined[0].device, 0);
    EXPECT_FALSE(find(made, "b").declined[0].reason.empty());
    EXPECT_THAT(find(made, "a").declined, IsEmpty());
    const auto quiet = explain(*scheduler_, false);
    ASSERT_TRUE(quiet);
    EXPECT_THAT(find(*quiet, "b").declined, IsEmpty());
}

TEST_F(ExplainRun, ActionsKeepTheirOrderInThePrediction) {
    compute();
    const Schedule made = schedule();
    EXPECT_EQ(made.cost_origin, "assumed");
    EXPECT_EQ(made.steps, 5 + 3);  // nodes and copies
    double end = 0;
    for (const auto& action : made.actions) {
        EXPECT_LT(action.predicted_start, action.predicted_end);
        for (const int wait : action.waits) {
            EXPECT_LE(made.actions.at(static_cast<std::size_t>(wait)).predicted_end,
                      action.predicted_start);
        }
        end = std::max(end, action.predicted_end);
    }
    EXPECT_DOUBLE_EQ(end, made.predicted_seconds);
    for (const auto& node : made.nodes) {
        const auto& split = made.splits.at(static_cast<std::size_t>(node.split));
        const auto action = std::find_if(made.actions.begin(), made.actions.end(), [&](auto& a) {
            return a.kind == "compute" && &made.splits[static_cast<std::size_t>(a.index)] == &split;
        });
        ASSERT_NE(action, made.actions.end());
        EXPECT_GE(node.predicted_start, action->predicted_start);
        EXPECT_LE(node.predicted_end, action->predicted_end * (1 + 1e-9));
    }
}

void expect_blocks_apart(const Schedule& schedule) {
    ASSERT_FALSE(schedule.memory.empty());
    for (std::size_t i = 0; i < schedule.memory.size(); ++i) {
        const auto& a = schedule.memory[i];
        EXPECT_LE(a.first, a.last);
        EXPECT_LT(a.last, schedule.steps);
        EXPECT_LE(a.offset + a.size,
                  schedule.devices.at(static_cast<std::size_t>(a.device)).planned);
        for (std::size_t j = 0; j < i; ++j) {
            const auto& b = schedule.memory[j];
            if (a.device != b.device || a.chunk != b.chunk) continue;
            const bool apart = a.offset + a.size <= b.offset || b.offset + b.size <= a.offset;
            EXPECT_TRUE(apart || a.last < b.first || b.last < a.first)
                << a.tensors << " and " << b.tensors;
        }
    }
}

TEST_F(ExplainRun, NoTwoBlocksHaveTheSameBytesAtTheSameTime) {
    compute();
    expect_blocks_apart(schedule());
}

TEST_F(ExplainRun, WithSlotsEveryCopyHasItsPlacesAllTheTime) {
    start("devices=1", true);
    compute();
    const Schedule made = schedule();
    EXPECT_EQ(made.slots, 4);
    EXPECT_TRUE(made.overlaps_runs);
    expect_blocks_apart(made);
    const auto places = std::count_if(made.memory.begin(), made.memory.end(), [&](auto& block) {
        return block.tensors.find("#d#") != std::string::npos && block.first == 0 &&
               block.last == made.steps - 1;
    });
    EXPECT_EQ(places, 4);
}

TEST_F(ExplainRun, AWeightThatIsKeptIsCopiedOnce) {
    start("devices=1,offload=1", false, true);
    heddle_sched_set_tracing(scheduler_.get(), true);
    compute();
    const auto copy_of_weight = [](const Schedule& made) {
        const auto copy = std::find_if(made.copies.begin(), made.copies.end(),
                                       [](const auto& info) { return info.tensor == "wc"; });
        EXPECT_NE(copy, made.copies.end());
        EXPECT_TRUE(copy->kept);
        EXPECT_EQ(copy->kind, "constant");
        const int index = static_cast<int>(copy - made.copies.begin());
        return *std::find_if(made.actions.begin(), made.actions.end(), [&](const auto& action) {
            return action.kind == "copy" && action.index == index;
        });
    };
    const Schedule first = schedule();
    EXPECT_EQ(find(first, "d").why, "weight 'wc' is on the host, and the device asks for it");
    EXPECT_FALSE(copy_of_weight(first).skipped);
    ASSERT_EQ(ggml_backend_sched_graph_compute(scheduler_.get(), graph_), GGML_STATUS_SUCCESS);
    EXPECT_TRUE(copy_of_weight(schedule()).skipped);
    EXPECT_THAT(to_text(schedule()), HasSubstr("up to date"));
}

TEST_F(ExplainRun, TimesAreMeasuredOnlyIfAskedFor) {
    compute();
    EXPECT_EQ(schedule().measured_seconds, 0);
    heddle_sched_set_tracing(scheduler_.get(), true);
    ASSERT_EQ(ggml_backend_sched_graph_compute(scheduler_.get(), graph_), GGML_STATUS_SUCCESS);
    const Schedule made = schedule();
    EXPECT_GT(made.measured_seconds, 0);
    for (const auto& action : made.actions) {
        EXPECT_TRUE(action.measured) << action.kind << " " << action.index;
        EXPECT_LE(action.measured_start, action.measured_end);
        EXPECT_LE(action.measured_end, made.measured_seconds);
    }
}

TEST_F(ExplainRun, AGraphThatIsOnlySplitHasPredictedTimesAndNoMemory) {
    ggml_backend_sched_split_graph(scheduler_.get(), graph_);
    const Schedule made = schedule();
    EXPECT_EQ(made.splits.size(), 3u);
    EXPECT_THAT(made.actions, IsEmpty());
    EXPECT_THAT(made.memory, IsEmpty());
    EXPECT_GT(made.predicted_seconds, 0);
    EXPECT_GT(find(made, "f").predicted_end, find(made, "a").predicted_end);
}

TEST_F(ExplainRun, EveryFormatCanBeHadThroughC) {
    compute();
    const auto text = [&](heddle_explain_format format) {
        const char* const made = heddle_sched_explain(scheduler_.get(), format);
        return made != nullptr ? std::string(made) : std::string();
    };
    EXPECT_THAT(text(HEDDLE_EXPLAIN_JSON), HasSubstr("\"heddle-schedule\""));
    EXPECT_THAT(text(HEDDLE_EXPLAIN_TEXT), HasSubstr("5 nodes in 3 splits on 2 devices"));
    EXPECT_THAT(text(HEDDLE_EXPLAIN_DOT), HasSubstr("digraph"));
    EXPECT_THAT(text(HEDDLE_EXPLAIN_TRACE), HasSubstr("traceEvents"));
    EXPECT_THAT(text(HEDDLE_EXPLAIN_HTML), HasSubstr("</html>"));
}

}  // namespace
}  // namespace heddle::sched
