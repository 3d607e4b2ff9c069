#include "sched/scheduler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ggml-cpp.h"
#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "sched/test_support.hpp"

namespace heddle::sched {
namespace {

using testing::HasSubstr;

class SchedulerTest : public RigTest {
protected:
    Scheduler& scheduler() { return *rig->sched(); }

    Sandwich build(void* memory = nullptr) { return Sandwich(w1, w2, memory); }

    /// Resets, allocates, writes, computes, and compares.
    void check(Sandwich& net, unsigned seed) {
        ggml_backend_sched_reset(sched());
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph())) << heddle_last_error();
        check_allocated(net, seed);
    }
    void check_allocated(Sandwich& net, unsigned seed) {
        const Values x = sim::numbers(static_cast<std::size_t>(ggml_nelements(net.x)), seed);
        sim::write(net.x, x);
        ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_SUCCESS)
            << heddle_last_error();
        expect_near(sim::read(net.f), Sandwich::result(values1, values2, x));
    }
};

// ---- the life of a graph -----------------------------------------------------------------------

TEST_F(SchedulerTest, AGraphOverTwoDevicesIsComputedRight) {
    Sandwich net = build();
    check(net, 1);
    EXPECT_EQ(ggml_backend_sched_get_n_splits(sched()), 3);
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.a), rig->stream(0));
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.d), rig->cpu());
}

TEST_F(SchedulerTest, ComputeAllocatesByItself) {
    Sandwich net = build();
    net.x->flags |= GGML_TENSOR_FLAG_OUTPUT;  // its memory is its own between runs
    EXPECT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_SUCCESS);
    check_allocated(net, 2);
}

TEST_F(SchedulerTest, AnAllocatedGraphRunsAnyNumberOfTimes) {
    Sandwich net = build();
    check(net, 1);
    for (unsigned run = 2; run < 6; ++run) check_allocated(net, run);
    EXPECT_EQ(rig->counts().placed, 1u);
    EXPECT_EQ(rig->counts().runs, 5u);
}

TEST_F(SchedulerTest, TheAllocatedGraphRunsWhicheverIsGiven) {
    Sandwich net = build(), other = build();
    check(net, 1);
    const Values x = sim::numbers(kWidth * kColumns, 7);
    sim::write(net.x, x);
    EXPECT_EQ(ggml_backend_sched_graph_compute(sched(), other.graph()), GGML_STATUS_SUCCESS);
    expect_near(sim::read(net.f), Sandwich::result(values1, values2, x));
    EXPECT_EQ(other.f->buffer, nullptr);
}

TEST_F(SchedulerTest, ASecondGraphNeedsAReset) {
    Sandwich net = build(), other = build();
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph()));
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(sched(), other.graph()));
    EXPECT_THAT(heddle_last_error(), HasSubstr("allocated already"));
    check_allocated(net, 3);
    check(other, 4);
}

TEST_F(SchedulerTest, SplittingSaysWhoComputesWhatWithoutMemory) {
    Sandwich net = build();
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.a), nullptr);
    ggml_backend_sched_split_graph(sched(), net.graph());
    EXPECT_EQ(ggml_backend_sched_get_n_splits(sched()), 3);
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.a), rig->stream(0));
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.x), rig->cpu());
    EXPECT_EQ(net.a->buffer, nullptr);
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), rig->stream(0)), 0u);
    ggml_backend_sched_reset(sched());
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.a), nullptr);
    check(net, 1);
}

TEST_F(SchedulerTest, TheCallersGraphStaysAsItWas) {
    Sandwich net = build();
    const std::vector<Tensor*> nodes(net.graph()->nodes, net.graph()->nodes + 5);
    const int flags = net.f->flags;
    check(net, 1);
    EXPECT_EQ(net.a->src[0], w1);
    EXPECT_EQ(net.d->src[0], w2);
    EXPECT_EQ(net.d->src[1], net.b);
    EXPECT_EQ(net.f->flags, flags);
    EXPECT_EQ(std::vector<Tensor*>(net.graph()->nodes, net.graph()->nodes + 5), nodes);
}

TEST_F(SchedulerTest, ResultsAreThereAfterAReset) {
    Sandwich net = build();
    check(net, 5);
    const Values before = sim::read(net.f);
    ggml_backend_sched_reset(sched());
    EXPECT_EQ(sim::read(net.f), before);
}

// ---- memory ------------------------------------------------------------------------------------

TEST_F(SchedulerTest, WhatWasReservedIsEnough) {
    Sandwich large(w1, w2, nullptr, 64);
    ASSERT_TRUE(ggml_backend_sched_reserve(sched(), large.graph()));
    EXPECT_EQ(large.x->buffer, nullptr);
    EXPECT_EQ(ggml_backend_sched_get_n_splits(sched()), 3);
    const std::size_t sizes[] = {ggml_backend_sched_get_buffer_size(sched(), rig->stream(0)),
                                 ggml_backend_sched_get_buffer_size(sched(), rig->cpu())};
    EXPECT_GT(sizes[0], 0u);
    Sandwich small = build();
    check(small, 1);
    check(large, 2);
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), rig->stream(0)), sizes[0]);
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), rig->cpu()), sizes[1]);
}

TEST_F(SchedulerTest, MeasuringTellsWhatReservingTakes) {
    Sandwich net(w1, w2, nullptr, 50);
    std::size_t sizes[2] = {};
    ggml_backend_sched_reserve_size(sched(), net.graph(), sizes);
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), rig->stream(0)), 0u);
    ASSERT_TRUE(ggml_backend_sched_reserve(sched(), net.graph()));
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), rig->stream(0)), sizes[0]);
    EXPECT_EQ(ggml_backend_sched_get_buffer_size(sched(), rig->cpu()), sizes[1]);
}

TEST_F(SchedulerTest, WithoutMemoryItSaysSoAndGoesOn) {
    start("devices=1,mem=64K");
    Sandwich large(w1, w2, nullptr, 4096), small = build();
    EXPECT_FALSE(ggml_backend_sched_reserve(sched(), large.graph()));
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(sched(), large.graph()));
    EXPECT_EQ(large.a->buffer, nullptr);
    EXPECT_EQ(ggml_backend_sched_graph_compute(sched(), large.graph()), GGML_STATUS_ALLOC_FAILED);
    check(small, 1);
    ggml_backend_sched_reset(sched());
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(sched(), large.graph()));
    check(small, 2);
}

TEST_F(SchedulerTest, AGraphFromBeforeMemoryGrewMayBeAllocatedAgain) {
    Sandwich small = build(), large(w1, w2, nullptr, 4096);
    check(small, 1);
    check(large, 2);
    check(small, 3);
}

TEST_F(SchedulerTest, ResultsWhoseMemoryIsGoneAreNotRead) {
    Sandwich small = build(), large(w1, w2, nullptr, 4096);
    check(small, 1);
    check(large, 2);
    heddle_clear_error();
    heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
    sim::read(small.f);
    heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
    EXPECT_STRNE(heddle_last_error(), "");
}

// ---- the same graph again ----------------------------------------------------------------------

TEST_F(SchedulerTest, AGraphBuiltAnewElsewhereIsTheSameGraph) {
    for (unsigned run = 1; run < 5; ++run) {
        Sandwich net = build();
        check(net, run);
    }
    EXPECT_EQ(rig->counts().placed, 1u);
    EXPECT_EQ(rig->counts().reused, 3u);
}

TEST_F(SchedulerTest, AGraphBuiltAnewAtTheSameAddressesIsTheSameGraph) {
    alignas(16) static std::byte memory[1 << 18];
    for (unsigned run = 1; run < 5; ++run) {
        Sandwich net = build(memory);
        check(net, run);
    }
    EXPECT_EQ(rig->counts().placed, 1u);
}

TEST_F(SchedulerTest, AnotherGraphAtTheSameAddressesIsAnotherGraph) {
    alignas(16) static std::byte memory[1 << 18];
    {
        Sandwich net = build(memory);
        check(net, 1);
    }
    const Values x = sim::numbers(kWidth * kColumns, 2);
    Sketch rewired(memory);
    Tensor* const in = rewired.input();
    Tensor* const a = rewired.add("a", ggml_mul_mat(rewired.context(), w1, in));
    Tensor* const b = rewired.add("b", ggml_silu(rewired.context(), a));
    Tensor* const d = rewired.add("d", ggml_mul_mat(rewired.context(), w2, b));
    rewired.add("e", ggml_silu(rewired.context(), d));
    Tensor* const f = rewired.add("f", ggml_mul_mat(rewired.context(), w1, d));  // not e
    ggml_backend_sched_reset(sched());
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), rewired.graph()));
    sim::write(in, x);
    ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), rewired.graph()), GGML_STATUS_SUCCESS);
    expect_near(sim::read(f), product(values1, product(values2, silu(product(values1, x)))));
    EXPECT_EQ(rig->counts().placed, 2u);
}

TEST_F(SchedulerTest, AGraphThatDiffersInTheEndAndCannotBePlannedIsAsItCame) {
    Sandwich net = build();
    check(net, 1);
    Sandwich other = build();
    for (Sandwich* each : {&net, &other}) {
        const auto places = [&] {
            std::vector<std::pair<Buffer*, void*>> all;
            for (const Tensor* tensor : {each->x, each->a, each->b, each->d, each->e, each->f}) {
                all.emplace_back(tensor->buffer, tensor->data);
            }
            return all;
        };
        const auto before = places();
        each->f->type = GGML_TYPE_I64;  // no device can multiply into that
        ggml_backend_sched_reset(sched());
        EXPECT_FALSE(ggml_backend_sched_alloc_graph(sched(), each->graph()));
        EXPECT_EQ(places(), before);
    }
    Sandwich fresh = build();
    check(fresh, 2);
}

/// Squares of so many numbers, which an allocator of the caller's places.
struct Squares {
    explicit Squares(std::int64_t count) {
        Tensor* const x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, count);
        graph = ggml_new_graph(context.get());
        ggml_build_forward_expand(graph, ggml_sqr(context.get(), x));
    }
    ggml_context_ptr context{ggml_init({std::size_t{1} << 20, nullptr, true})};
    Graph* graph = nullptr;
};

TEST_F(SchedulerTest, AGraphWhoseMemoryWasGivenUpIsRefusedAlsoIfItIsKnown) {
    const ggml_gallocr_ptr allocator(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
    Squares few(8), many(1 << 16);
    ASSERT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), few.graph));
    ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), few.graph), GGML_STATUS_SUCCESS)
        << heddle_last_error();
    ASSERT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), many.graph));
    EXPECT_NE(ggml_backend_sched_graph_compute(sched(), few.graph), GGML_STATUS_SUCCESS);
    EXPECT_THAT(heddle_last_error(),
                HasSubstr("the memory that it had was given up when a larger graph was planned"));
    Sandwich net = build();
    check(net, 1);  // it goes on with others
}

TEST_F(SchedulerTest, AGraphThatIsRefusedWhenItRunsLeavesNothingUnderWay) {
    const ggml_gallocr_ptr allocator(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
    Squares few(8), many(1 << 16);
    ASSERT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), few.graph));
    Sandwich net = build();
    check(net, 1);
    ASSERT_EQ(ggml_backend_sched_graph_compute_async(sched(), net.graph()), GGML_STATUS_SUCCESS);
    ASSERT_LT(sim::clock_of(nullptr), sim::clock_of(rig->device(0)));
    ASSERT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), many.graph));
    ggml_backend_sched_reset(sched());
    EXPECT_NE(ggml_backend_sched_graph_compute_async(sched(), few.graph), GGML_STATUS_SUCCESS);
    EXPECT_THAT(heddle_last_error(), HasSubstr("the memory that it had was given up"));
    EXPECT_GE(sim::clock_of(nullptr), sim::clock_of(rig->device(0)));
}

TEST_F(SchedulerTest, TwoGraphsMayTakeTurns) {
    heddle_sched_set_hazard_check(sched(), false);  // or the plan of the larger one serves both
    for (unsigned run = 1; run < 8; ++run) {
        Sandwich net(w1, w2, nullptr, run % 2 == 0 ? 5 : 17);
        check(net, run);
    }
    EXPECT_EQ(rig->counts().reused, 0u);
}

TEST_F(SchedulerTest, AGraphMayBeAllocatedAgain) {
    Sandwich net = build();
    check(net, 1);
    check(net, 2);
    check(net, 3);
    EXPECT_EQ(rig->counts().placed, 1u);
}

TEST_F(SchedulerTest, OtherWeightsOfTheSameKindAreRead) {
    rig->renew(false, true);
    Sandwich net = build();
    check(net, 1);
    const Values values = sim::numbers(kWidth * kWidth, 77);
    Tensor* const other = weights.add("other", ggml_backend_cpu_buffer_type(), values);
    Sandwich again(w1, other);
    ggml_backend_sched_reset(sched());
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), again.graph()));
    const Values x = sim::numbers(kWidth * kColumns, 3);
    sim::write(again.x, x);
    ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), again.graph()), GGML_STATUS_SUCCESS);
    expect_near(sim::read(again.f), Sandwich::result(values1, values, x));
}

// ---- pins --------------------------------------------------------------------------------------

TEST_F(SchedulerTest, PinsHoldUntilTheNextReset) {
    Sandwich net = build();
    ggml_backend_sched_set_tensor_backend(sched(), net.e, rig->cpu());
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.e), rig->cpu());
    std::size_t sizes[2];
    ggml_backend_sched_reserve_size(sched(), net.graph(), sizes);
    ggml_backend_sched_split_graph(sched(), net.graph());
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.e), rig->cpu());
    ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_SUCCESS);
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.e), rig->cpu());
    check(net, 1);
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.e), rig->stream(0));
}

TEST_F(SchedulerTest, ReservingForgetsPins) {
    Sandwich net = build();
    ggml_backend_sched_set_tensor_backend(sched(), net.e, rig->cpu());
    ASSERT_TRUE(ggml_backend_sched_reserve(sched(), net.graph()));
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.e), nullptr);
}

TEST_F(SchedulerTest, AGraphWithOtherPinsIsAnotherGraph) {
    const auto run = [&](bool is_pinned) {
        Sandwich net = build();
        ggml_backend_sched_reset(sched());
        if (is_pinned) ggml_backend_sched_set_tensor_backend(sched(), net.e, rig->cpu());
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph()));
        EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.e),
                  is_pinned ? rig->cpu() : rig->stream(0));
        check_allocated(net, 9);
    };
    run(false);
    run(true);
    run(true);
    run(false);
    EXPECT_EQ(rig->counts().placed, 3u);
    EXPECT_EQ(rig->counts().reused, 1u);
}

TEST_F(SchedulerTest, AStreamOfAnotherSchedulerIsNotTaken) {
    Sandwich net = build();
    const sim::Stream stranger(ggml_backend_cpu_init());
    EXPECT_THAT(scheduler().pin(*net.a, stranger.get()).error().message, HasSubstr("none of its"));
}

// ---- observers ---------------------------------------------------------------------------------

struct Watch {
    std::vector<std::string> asked, seen;
    std::string wanted, last;  ///< `last`: the node after which it wants no more
};

bool watch(Tensor* node, bool ask, void* data) {
    auto& watch = *static_cast<Watch*>(data);
    (ask ? watch.asked : watch.seen).push_back(node->name);
    return ask ? watch.wanted.find(node->name) != std::string::npos : watch.last != node->name;
}

TEST_F(SchedulerTest, ACallbackSeesTheNodesItWants) {
    Sandwich net = build();
    Watch watched{.asked = {}, .seen = {}, .wanted = "be", .last = ""};
    ggml_backend_sched_set_eval_callback(sched(), watch, &watched);
    check(net, 1);
    EXPECT_EQ(watched.asked, (std::vector<std::string>{"a", "b", "d", "e", "f"}));
    EXPECT_EQ(watched.seen, (std::vector<std::string>{"b", "e"}));
    ggml_backend_sched_set_eval_callback(sched(), nullptr, nullptr);
    check(net, 2);
    EXPECT_EQ(watched.asked.size(), 5u);
}

TEST_F(SchedulerTest, ACallbackThatSaysNoEndsTheWholeRun) {
    Sandwich net = build();
    check(net, 1);
    Watch watched{.asked = {}, .seen = {}, .wanted = "abdef", .last = "b"};
    ggml_backend_sched_set_eval_callback(sched(), watch, &watched);
    EXPECT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_ABORTED);
    EXPECT_EQ(watched.seen, (std::vector<std::string>{"a", "b"}));
    ggml_backend_sched_set_eval_callback(sched(), nullptr, nullptr);
    check_allocated(net, 2);
    EXPECT_EQ(rig->counts().placed, 1u);
}

// ---- several runs at a time --------------------------------------------------------------------

TEST_F(SchedulerTest, RunsFollowEachOtherWithoutWaiting) {
    for (const int slots : {1, 2, 4}) {
        ASSERT_TRUE(heddle_sched_set_n_copies(sched(), slots));
        Sandwich net = build();
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph()));
        std::vector<Values> results(9, Values(kWidth * kColumns));
        for (unsigned run = 0; run < results.size(); ++run) {
            sim::write(net.x, sim::numbers(kWidth * kColumns, run));
            ASSERT_EQ(ggml_backend_sched_graph_compute_async(sched(), net.graph()),
                      GGML_STATUS_SUCCESS);
            ggml_backend_t const where = ggml_backend_sched_get_tensor_backend(sched(), net.f);
            ggml_backend_tensor_get_async(where, net.f, results[run].data(), 0, ggml_nbytes(net.f));
        }
        ggml_backend_sched_synchronize(sched());
        for (unsigned run = 0; run < results.size(); ++run) {
            const Values x = sim::numbers(kWidth * kColumns, run);
            expect_near(results[run], Sandwich::result(values1, values2, x));
        }
    }
}

TEST_F(SchedulerTest, GraphsOfDifferentSizesFollowEachOtherWithoutWaiting) {
    start("devices=1", true);
    EXPECT_EQ(ggml_backend_sched_get_n_copies(sched()), 4);
    std::vector<std::unique_ptr<Sandwich>> nets;
    std::vector<Values> results;
    for (int run = 0; run < 12; ++run) {
        const int columns = 1 + run * 5 % 7;
        nets.push_back(std::make_unique<Sandwich>(w1, w2, nullptr, columns));
        Sandwich& net = *nets.back();
        ggml_backend_sched_reset(sched());
        ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph()));
        sim::write(net.x, sim::numbers(static_cast<std::size_t>(kWidth * columns), 3));
        ASSERT_EQ(ggml_backend_sched_graph_compute_async(sched(), net.graph()),
                  GGML_STATUS_SUCCESS);
        results.emplace_back(kWidth * columns);
    }
    ggml_backend_sched_synchronize(sched());
    Sandwich& last = *nets.back();
    const Values x = sim::numbers(static_cast<std::size_t>(ggml_nelements(last.x)), 3);
    expect_near(sim::read(last.f), Sandwich::result(values1, values2, x));
}

TEST_F(SchedulerTest, NumbersOfCopiesThatMakeNoSenseAreRefused) {
    EXPECT_FALSE(heddle_sched_set_n_copies(sched(), 0));
    EXPECT_FALSE(heddle_sched_set_n_copies(sched(), 65));
    EXPECT_EQ(ggml_backend_sched_get_n_copies(sched()), 1);
}

// ---- failures ----------------------------------------------------------------------------------

TEST_F(SchedulerTest, AfterADeviceHasFailedTheNextRunDoesWithoutIt) {
    w1 = weights.add("w1 on the host", ggml_backend_cpu_buffer_type(), values1);
    rig->renew(false, false);
    Sandwich net = build();
    const auto pin = [&] {
        for (Tensor* node : {net.a, net.f}) {
            ggml_backend_sched_set_tensor_backend(sched(), node, rig->stream(0));
        }
    };
    pin();
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph()));
    check_allocated(net, 1);
    ASSERT_TRUE(sim::set_faults(rig->device(0), "node=1"));
    EXPECT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_FAILED);
    EXPECT_THAT(heddle_last_error(), HasSubstr("SIM0"));

    check_allocated(net, 2);
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.a), rig->cpu());

    // It answers again, so it is part of the next graph's plan.
    ggml_backend_sched_reset(sched());
    pin();
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph()));
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), net.a), rig->stream(0));
    check_allocated(net, 3);
}

TEST_F(SchedulerTest, WhatTheCallerHasWrittenOutlivesAFailure) {
    w1 = weights.add("w1 on the host", ggml_backend_cpu_buffer_type(), values1);
    Sandwich net = build();
    net.x->flags |= GGML_TENSOR_FLAG_OUTPUT;
    ggml_backend_sched_set_tensor_backend(sched(), net.a, rig->stream(0));
    ASSERT_TRUE(ggml_backend_sched_alloc_graph(sched(), net.graph()));
    const Values x = sim::numbers(kWidth * kColumns, 4);
    sim::write(net.x, x);
    ASSERT_TRUE(sim::set_faults(rig->device(0), "node=1"));
    ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_FAILED);
    ASSERT_EQ(ggml_backend_sched_graph_compute(sched(), net.graph()), GGML_STATUS_SUCCESS);
    expect_near(sim::read(net.f), Sandwich::result(values1, values2, x));
}

// ---- arguments ---------------------------------------------------------------------------------

TEST_F(SchedulerTest, SchedulersThatCannotBeAreRefused) {
    ggml_backend_t streams[] = {rig->cpu(), rig->stream(0)};
    EXPECT_EQ(ggml_backend_sched_new(nullptr, nullptr, 1, 64, false, false), nullptr);
    EXPECT_EQ(ggml_backend_sched_new(streams, nullptr, 0, 64, false, false), nullptr);
    EXPECT_EQ(ggml_backend_sched_new(streams, nullptr, 2, 64, false, false), nullptr)
        << "the last one is no CPU";
    ggml_backend_sched_free(nullptr);
}

TEST_F(SchedulerTest, NothingIsDoneWithoutASchedulerOrAGraph) {
    Sandwich net = build();
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(nullptr, net.graph()));
    EXPECT_FALSE(ggml_backend_sched_alloc_graph(sched(), nullptr));
    EXPECT_FALSE(ggml_backend_sched_reserve(sched(), nullptr));
    EXPECT_EQ(ggml_backend_sched_graph_compute(sched(), nullptr), GGML_STATUS_FAILED);
    EXPECT_EQ(ggml_backend_sched_graph_compute_async(nullptr, net.graph()), GGML_STATUS_FAILED);
    EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched(), nullptr), nullptr);
    EXPECT_FALSE(heddle_sched_get_counts(sched(), nullptr, 0));
    EXPECT_FALSE(heddle_sched_is_left_out(nullptr, rig->cpu()));
    EXPECT_FALSE(heddle_sched_is_left_out(sched(), nullptr));
    EXPECT_EQ(heddle_sched_explain(sched(), HEDDLE_EXPLAIN_TEXT), nullptr);
    check(net, 1);
}

}  // namespace
}  // namespace heddle::sched
