#include "sched/submit/submit.hpp"

#include <map>

#include "ggml/ops.h"
#include "sched/submit/test_support.hpp"

namespace heddle::sched {
namespace {

using testing::HasSubstr;

// ---- results -----------------------------------------------------------------------------------

TEST_F(SubmitTest, AGraphOverTwoDevicesAndTheCpuGivesItsResultEveryTime) {
    start("devices=2");
    Chain chain({memory_of(0), memory_of(2), memory_of(1), memory_of(0)}, 3);
    load(chain.graph());
    EXPECT_EQ(splits.splits.size(), 4u);
    for (unsigned seed = 1; seed <= 5; ++seed) {
        const Values x = chain.numbers(seed);
        sim::write(chain.x, x);
        const auto done = compute();
        ASSERT_TRUE(done) << done.error().message;
        expect_near(sim::read(chain.y), chain.result(x));
    }
    EXPECT_EQ(chain.y->src[1]->op, GGML_OP_MUL_MAT) << "the graph has its own sources again";
}

TEST_F(SubmitTest, TheCallerMayWriteItsInputsWhenTheCallReturns) {
    start("devices=2");
    Chain chain({memory_of(0), memory_of(1)}, 3);
    load(chain.graph());
    const Values x = chain.numbers(7);
    for (int i = 0; i < 20; ++i) {
        sim::write(chain.x, x);
        ASSERT_TRUE(run());
        std::fill_n(static_cast<float*>(chain.x->data), x.size(), NAN);
        ASSERT_TRUE(submitter->synchronize());
        expect_near(sim::read(chain.y), chain.result(x));
    }
}

// ---- overlap, in virtual time ------------------------------------------------------------------

/// A product of 64 columns takes as long as its weight takes over the link: 16 us.
constexpr const char* kBalanced = "link=1G,flops=32G,membw=10T,latency=100ns,offload=1";

TEST_F(SubmitTest, WeightsStreamWhileTheDeviceComputes) {
    start(kBalanced, true);
    constants->set_budgets({{Budget::Kind::bytes, 80000}});  // for results alone
    Chain chain(std::vector<ggml_backend_buffer_type_t>(16, memory_of(1)), 64);
    load(chain.graph());
    const Values x = chain.numbers(1);
    sim::write(chain.x, x);
    const double overlapped = seconds([&] { ASSERT_TRUE(run()); });
    expect_near(sim::read(chain.y), chain.result(x));
    sim::write(chain.x, x);
    const double one_by_one = seconds([&] { ASSERT_TRUE(run({.synchronous = true})); });
    expect_near(sim::read(chain.y), chain.result(x));
    const double link = 17 * 16.4e-6;  // 16 weights and x, which is as large
    EXPECT_LT(overlapped, 1.2 * link);
    EXPECT_GT(one_by_one, 1.8 * link);
}

TEST_F(SubmitTest, TwoDevicesWorkOnDifferentRunsAtATime) {
    start(std::string("devices=2,") + kBalanced, false, 4);
    std::vector<ggml_backend_buffer_type_t> types(8, memory_of(0));
    std::fill_n(types.begin() + 4, 4, memory_of(1));
    Chain chain(types, 64);
    load(chain.graph());
    ASSERT_TRUE(program.overlaps_runs);
    const auto several = [&](bool synchronous) {
        for (unsigned i = 0; i < 16; ++i) {
            sim::write(chain.x, chain.numbers(i));
            const auto done = run({.slot = static_cast<int>(i) % 4, .synchronous = synchronous});
            ASSERT_TRUE(done) << done.error().message;
        }
    };
    const double overlapped = seconds([&] { several(false); });
    expect_near(sim::read(chain.y), chain.result(chain.numbers(15)));
    const double one_by_one = seconds([&] { several(true); });
    expect_near(sim::read(chain.y), chain.result(chain.numbers(15)));
    const double half = 4 * 16.6e-6;  // of a run, on one device
    EXPECT_LT(overlapped, 1.25 * 17 * half);
    EXPECT_GT(one_by_one, 1.9 * 16 * half);
}

// ---- constants ---------------------------------------------------------------------------------

std::size_t bytes_written(ggml_backend_dev_t device) {
    std::size_t bytes = 0;
    for (const heddle_sim_item& item : sim::trace_of(device)) {
        if (item.kind == HEDDLE_SIM_WRITE) bytes += item.bytes;
    }
    return bytes;
}

TEST_F(SubmitTest, AWeightIsCopiedOnceAndAgainWhenItWasWritten) {
    start(kBalanced, true);
    Chain chain({memory_of(1), memory_of(1)}, 4);
    load(chain.graph());
    const std::size_t input = ggml_nbytes(chain.x), weight = ggml_nbytes(chain.factors[0]);
    const auto cost = [&] {
        const std::size_t before = bytes_written(sim::device());
        sim::write(chain.x, chain.numbers(3));
        EXPECT_TRUE(compute());
        expect_near(sim::read(chain.y), chain.result(chain.numbers(3)));
        return bytes_written(sim::device()) - before;
    };
    EXPECT_EQ(cost(), input + 2 * weight);
    EXPECT_EQ(cost(), input);
    EXPECT_EQ(submitter->copies_skipped(), 2u);
    chain.values[1][5] = 3;
    sim::write(chain.factors[1], chain.values[1]);
    EXPECT_EQ(cost(), input + weight);
    EXPECT_EQ(cost(), input);
}

TEST_F(SubmitTest, ConstantsAreCopiedAnewAfterAFailure) {
    start(kBalanced, true);
    Chain chain({memory_of(1)}, 4);
    load(chain.graph());
    sim::write(chain.x, chain.numbers(3));
    ASSERT_TRUE(compute());
    ASSERT_TRUE(sim::set_faults(sim::device(), "node=1"));
    ASSERT_FALSE(compute());
    sim::write(chain.x, chain.numbers(3));
    const std::size_t before = bytes_written(sim::device());
    ASSERT_TRUE(compute());
    EXPECT_EQ(bytes_written(sim::device()) - before,
              ggml_nbytes(chain.x) + ggml_nbytes(chain.factors[0]));
    expect_near(sim::read(chain.y), chain.result(chain.numbers(3)));
}

// ---- experts -----------------------------------------------------------------------------------

class ExpertTest : public SubmitTest {
protected:
    static constexpr std::int64_t n = 32, experts = 8, used = 2;
    static constexpr std::size_t expert_bytes = n * n * 4;

    void build(std::int64_t tokens) {
        start(std::string("mem=60K,") + kBalanced, true);  // too small to keep the weight
        ggml_context* const context = net.context();
        w = ggml_new_tensor_3d(weights.bench().context(), GGML_TYPE_F32, n, n, experts);
        weights.bench().place(ggml_set_name(w, "w"), memory_of(1));
        ggml_backend_buffer_set_usage(w->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        sim::write(w, values);
        x = ggml_set_name(ggml_new_tensor_3d(context, GGML_TYPE_F32, n, 1, tokens), "x");
        ids = ggml_set_name(ggml_new_tensor_2d(context, GGML_TYPE_I32, used, tokens), "ids");
        ggml_set_input(x);
        ggml_set_input(ids);
        y = net.add("y", ggml_mul_mat_id(context, w, x, ids));
        load(net.graph());
    }

    void check(const std::vector<std::int32_t>& chosen, std::size_t expected_bytes) {
        const std::size_t before = bytes_written(sim::device());
        const Values in = sim::numbers(static_cast<std::size_t>(ggml_nelements(x)), 5);
        sim::write(x, in);
        ggml_backend_tensor_set(ids, chosen.data(), 0, chosen.size() * 4);
        const auto done = compute();
        ASSERT_TRUE(done) << done.error().message;
        const Values out = sim::read(y);
        for (std::size_t k = 0; k < chosen.size(); ++k) {
            const float* const weight = &values[static_cast<std::size_t>(chosen[k]) * n * n];
            const float* const token = &in[k / used * n];
            for (std::size_t r = 0; r < n; ++r) {
                const float sum =
                    std::inner_product(weight + r * n, weight + (r + 1) * n, token, 0.0F);
                ASSERT_NEAR(out[k * n + r], sum, 1e-4);
            }
        }
        EXPECT_EQ(bytes_written(sim::device()) - before,
                  expected_bytes + ggml_nbytes(x) + ggml_nbytes(ids));
    }

    Sketch net;
    Tensor *w = nullptr, *x = nullptr, *ids = nullptr, *y = nullptr;
    const Values values = sim::numbers(n * n * experts, 9);
};

TEST_F(ExpertTest, OnlyChosenExpertsAreCopiedWithALittleMoreBehindThem) {
    build(2);
    check({1, 2, 5, 2}, 3 * expert_bytes + 2 * 512);
    check({7, 6, 7, 6}, 2 * expert_bytes);
    check({0, 7, 3, 4}, 4 * expert_bytes + 2 * 512);
}

TEST_F(ExpertTest, AnExpertThatDoesNotExistIsAFailureThatNamesIt) {
    build(1);
    const std::int32_t chosen[] = {1, 8};
    sim::write(x, sim::numbers(n, 5));
    ggml_backend_tensor_set(ids, chosen, 0, sizeof chosen);
    const auto done = compute();
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("chooses expert 8 for token 0, and there are 8"));
    EXPECT_EQ(submitter->failed(), kNoRunner);
    check({1, 2}, 2 * expert_bytes + 512);
}

// ---- times -------------------------------------------------------------------------------------

TEST_F(SubmitTest, EveryActionHasTimesInTheOrderOfItsQueue) {
    start("devices=2");
    Chain chain({memory_of(0), memory_of(2), memory_of(1), memory_of(0)}, 3);
    load(chain.graph());
    sim::write(chain.x, chain.numbers(1));
    std::vector<Timing> timings;
    ASSERT_TRUE(run({.timings = &timings}));
    ASSERT_EQ(timings.size(), program.actions.size());
    std::map<std::pair<int, int>, double> ends;
    for (std::size_t i = 0; i < timings.size(); ++i) {
        const Timing& timing = timings[i];
        const Action& action = program.actions[i];
        EXPECT_EQ(timing.action, static_cast<int>(i));
        EXPECT_LE(timing.submitted, timing.start);
        EXPECT_LE(timing.start, timing.end);
        EXPECT_GT(timing.end, 0);
        double& last = ends[{action.runner, static_cast<int>(action.queue)}];
        EXPECT_GE(timing.end, last);
        last = timing.end;
        for (std::uint32_t w = action.first_wait; w < action.last_wait; ++w) {
            const auto other = static_cast<std::size_t>(program.waits[w]);
            EXPECT_GE(timing.start, timings[other].end);
        }
    }
    ASSERT_TRUE(submitter->synchronize());
    expect_near(sim::read(chain.y), chain.result(chain.numbers(1)));
}

// ---- nodes that are computed elsewhere ---------------------------------------------------------

TEST_F(SubmitTest, ANodeInMemoryWhereItCannotRunIsComputedElsewhereAndCopiedBack) {
    start("ops=all,-SQR");
    Sketch net;
    Tensor* const x = net.input("x");
    Tensor* const y = weights.bench().place(ggml_sqr(net.context(), x), memory_of(0));
    net.add("y", y);
    load(net.graph());
    EXPECT_EQ(splits.detours.size(), 1u);
    for (unsigned seed = 1; seed < 4; ++seed) {
        Values values = sim::numbers(kWidth * kColumns, seed);
        sim::write(x, values);
        const std::uint64_t writes = write_generation(*y->buffer);
        const auto done = compute();
        ASSERT_TRUE(done) << done.error().message;
        for (float& value : values) value *= value;
        expect_near(sim::read(y), values);
        EXPECT_GT(write_generation(*y->buffer), writes) << "others may have copies of it";
    }
}

TEST_F(SubmitTest, WhatSuchANodeDoesNotWriteStaysAsItWas) {
    start("ops=all,-SET_ROWS");
    Sketch net;
    Tensor* const rows = ggml_new_tensor_1d(net.context(), GGML_TYPE_I64, 2);
    ggml_set_input(ggml_set_name(rows, "rows"));
    Tensor* const x = net.input("x", 2);
    Tensor* const cache = weights.bench().matrix(kWidth, 6, memory_of(0));
    net.add("store", ggml_set_rows(net.context(), cache, x, rows));
    Tensor* const sum = net.add("sum", ggml_scale(net.context(), cache, 2));
    load(net.graph());
    Values expected = sim::numbers(kWidth * 6, 1);
    sim::write(cache, expected);
    const Values values = sim::numbers(kWidth * 2, 2);
    const std::int64_t where[] = {4, 1};
    sim::write(x, values);
    ggml_backend_tensor_set(rows, where, 0, sizeof where);
    const auto done = compute();
    ASSERT_TRUE(done) << done.error().message;
    std::copy_n(values.begin(), kWidth, expected.begin() + 4 * kWidth);
    std::copy_n(values.begin() + kWidth, kWidth, expected.begin() + kWidth);
    expect_near(sim::read(cache), expected);
    for (float& value : expected) value *= 2;
    expect_near(sim::read(sum), expected);
}

// ---- between runs ------------------------------------------------------------------------------

TEST_F(SubmitTest, WhatTheCallerQueuesOnAStreamIsDoneBeforeTheNextRunCopiesIt) {
    for (const int slots : {1, 4}) {
        streams.clear();
        start("devices=1,latency=1us", false, slots);
        Sketch net;
        Tensor* const x = weights.bench().matrix(kWidth, kColumns, memory_of(0));
        const Values values = sim::numbers(kWidth * kWidth, 3);
        Tensor* const w = weights.add("w", ggml_backend_cpu_buffer_type(), values);
        Tensor* const y = net.add("y", ggml_mul_mat(net.context(), w, x));
        load(net.graph());
        for (unsigned i = 0; i < 20; ++i) {
            const Values in = sim::numbers(kWidth * kColumns, i);
            ggml_backend_tensor_set_async(streams[0].get(), x, in.data(), 0, ggml_nbytes(x));
            ASSERT_TRUE(run({.slot = static_cast<int>(i) % slots}));
            ASSERT_TRUE(submitter->synchronize());
            expect_near(sim::read(y), product(values, in));
        }
        submitter.reset();
    }
}

}  // namespace
}  // namespace heddle::sched
