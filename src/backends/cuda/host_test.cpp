// What the backend does on the host, over a runtime that does nothing (null_runtime.cpp): how often
// it launches, captures and replays while a client reads token after token.

#include <gtest/gtest.h>

#include <random>

#include "backends/cuda/null_runtime.hpp"
#include "backends/cuda/step_list.hpp"
#include "ggml-cuda.h"
#include "heddle/sched.h"
#include "token_client.hpp"

namespace heddle::cuda {
namespace {

using bench::TokenChange;

class HostTest : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_NE(device, nullptr);
        ggml_backend_t all[] = {device.get(), cpu.get()};
        sched.reset(ggml_backend_sched_new(all, nullptr, 2, 4096, false, true));
        ASSERT_NE(sched, nullptr);
    }

    /// What a token asks of the runtime.
    NullCounts read(bench::TokenGraph& token) {
        const NullCounts before = null_counts();
        token.build();
        ggml_backend_sched_reset(sched.get());
        EXPECT_TRUE(ggml_backend_sched_alloc_graph(sched.get(), token.graph));
        token.set_inputs();
        EXPECT_EQ(ggml_backend_sched_graph_compute(sched.get(), token.graph), GGML_STATUS_SUCCESS);
        const NullCounts after = null_counts();
        return {.launches = after.launches - before.launches,
                .attributes = after.attributes - before.attributes,
                .captures = after.captures - before.captures,
                .replays = after.replays - before.replays};
    }
    heddle_sched_counts counts() {
        heddle_sched_counts counts{};
        EXPECT_TRUE(heddle_sched_get_counts(sched.get(), &counts, sizeof counts));
        return counts;
    }

    const ggml_backend_ptr device{ggml_backend_cuda_init(0)}, cpu{ggml_backend_cpu_init()};
    const bench::TokenModel model{{.layers = 4,
                                   .width = 4096,
                                   .heads = 32,
                                   .kv_heads = 8,
                                   .hidden = 14336,
                                   .cached = 512,
                                   .words = 4096,
                                   .weights = GGML_TYPE_Q4_0,
                                   .cache = GGML_TYPE_F16,
                                   .has_words_on_host = true},
                                  ggml_backend_get_default_buffer_type(device.get())};
    ggml_backend_sched_ptr sched;
};

TEST_F(HostTest, ALayerOfOneTokenIsFiveLaunches) {
    bench::TokenGraph token(model);
    const NullCounts first = read(token);
    EXPECT_EQ(first.launches, 4u * 5 + 1);  // the logits are one more
    EXPECT_EQ(first.captures + first.replays, 0u);
}

TEST_F(HostTest, WhatIsMetAgainIsReplayed) {
    bench::TokenGraph token(model);
    read(token);
    const NullCounts second = read(token), third = read(token);
    EXPECT_EQ(second.captures, 1u);
    EXPECT_EQ(second.replays, 1u);
    EXPECT_EQ(third.captures + third.launches, 0u);
    EXPECT_EQ(third.replays, 1u);
}

TEST_F(HostTest, OtherNamesAreReplayedAndPlacedOnce) {
    bench::TokenGraph token(model, TokenChange::names);
    read(token);
    read(token);
    for (int i = 0; i < 5; ++i) {
        const NullCounts next = read(token);
        EXPECT_EQ(next.launches + next.captures, 0u);
        EXPECT_EQ(next.replays, 1u);
    }
    EXPECT_EQ(counts().placed, 1u);
}

TEST_F(HostTest, ALongerCacheIsLaunchedAndSeldomPlacedAnew) {
    for (const TokenChange change : {TokenChange::cache_size, TokenChange::cache_end}) {
        bench::TokenGraph token(model, change);
        const NullCounts first = read(token);
        const auto placed = counts().placed;
        for (int i = 0; i < 128; ++i) {
            const NullCounts next = read(token);
            EXPECT_EQ(next.launches, first.launches);
            EXPECT_EQ(next.captures + next.replays, 0u);
        }
        // The mask has a place of 32 bytes on the host: 16 tokens.
        EXPECT_LE(counts().placed - placed, 128u / 16 + 1);
    }
}

TEST(StepList, IsAsAVectorThatStepsAreErasedFrom) {
    std::array<Tensor, 200> nodes{};
    std::mt19937 random(1);
    for (int round = 0; round < 50; ++round) {
        std::vector<Step> steps;
        for (Tensor& node : nodes) steps.push_back({SingleNode{nullptr, &node}});
        std::vector<Step> expected = steps;
        const auto node_of = [](const Step& step) { return std::get<SingleNode>(step.work).node; };
        {
            StepList list(steps);
            for (int i = 0; i < 150; ++i) {
                const std::size_t at = random() % expected.size();
                expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at));
                list.take_out(at);
                ASSERT_EQ(list.size(), expected.size());
                const std::size_t seen = random() % expected.size();
                ASSERT_EQ(node_of(list[seen]), node_of(expected[seen]));
            }
        }
        ASSERT_EQ(steps.size(), expected.size());
        for (std::size_t i = 0; i < steps.size(); ++i) {
            ASSERT_EQ(node_of(steps[i]), node_of(expected[i]));
        }
    }
}

}  // namespace
}  // namespace heddle::cuda
