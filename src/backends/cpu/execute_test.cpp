#include "backends/cpu/execute.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "core/test_support.hpp"
#include "ggml/op_list.h"

namespace heddle::cpu {
namespace {

/// What the kernel of these tests does: whatever the node's `extra` says.
using Body = std::function<void(const Task&)>;

constexpr Kernel kCallsBody{
    .name = "calls_body",
    .op = GGML_OP_ADD,
    .objection = [](const Tensor&) { return std::string_view{}; },
    .run = [](const Tensor& node, const Task& task) { (*static_cast<Body*>(node.extra))(task); }};

/// A plan made by hand.
class ExecuteTest : public testing::Test {
protected:
    Tensor* step(int tasks, Body body) {
        bodies.push_back(std::make_unique<Body>(std::move(body)));
        Tensor* node = context.node({});
        node->extra = bodies.back().get();
        set_name(*node, "n" + std::to_string(bodies.size()));
        plan.steps.push_back({&kCallsBody, node, tasks});
        plan.tasks = std::max(plan.tasks, tasks);
        return node;
    }

    TestContext context;
    std::vector<std::unique_ptr<Body>> bodies;
    Plan plan;
};

TEST_F(ExecuteTest, RunsStepsInOrderAndSeesEarlierResults) {
    std::vector<int> order;
    std::vector<int> parts(4);
    for (int round = 0; round < 50; ++round) {
        step(1, [&, round](const Task& task) {
            EXPECT_EQ(task.count, 1);
            EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), 0), round * 4);
            order.push_back(round);
        });
        step(4, [&](const Task& task) { ++parts[static_cast<std::size_t>(task.index)]; });
    }
    ASSERT_TRUE(execute(plan, {}));
    EXPECT_EQ(order.size(), 50u);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(ExecuteTest, GivesEveryTaskItsIndexOnceAlsoWithMoreThreadsThanCpus) {
    for (const int tasks : {2, 3, 16, 40}) {
        plan = {};
        std::vector<std::atomic<int>> calls(static_cast<std::size_t>(tasks));
        step(tasks, [&](const Task& task) {
            EXPECT_EQ(task.count, tasks);
            ++calls[static_cast<std::size_t>(task.index)];
        });
        ASSERT_TRUE(execute(plan, {}));
        for (const auto& count : calls) EXPECT_EQ(count.load(), 1);
    }
}

TEST_F(ExecuteTest, TasksWaitForEachOtherAtEverySync) {
    for (const int tasks : {2, 5, 12}) {
        plan = {};
        std::atomic<int> arrivals{0};
        step(tasks, [&](const Task& task) {
            for (int round = 1; round <= 20; ++round) {
                ++arrivals;
                task.sync();
                EXPECT_EQ(arrivals.load(), round * task.count);
                task.sync();
            }
        });
        ASSERT_TRUE(execute(plan, {}));
    }
}

TEST_F(ExecuteTest, ChunksCountFromZeroInEveryStep) {
    for (int i = 0; i < 10; ++i) {
        const int tasks = 1 + i % 3;
        step(tasks, [](const Task& task) {
            static std::atomic<int> taken;
            task.sync();
            if (task.index == 0) taken = 0;
            task.sync();
            while (task.take() < 100) ++taken;
            task.sync();
            EXPECT_EQ(taken.load(), 100);
        });
    }
    ASSERT_TRUE(execute(plan, {}));
}

TEST_F(ExecuteTest, UnitsAreSharedOutOnceInEveryStep) {
    for (const int tasks : {1, 2, 3, 12}) {
        for (const int units : {0, 1, 2, 11, 12, 13, 1000}) {
            plan = {};
            std::vector<std::atomic<int>> calls(static_cast<std::size_t>(units));
            for (int i = 0; i < 3; ++i) {
                step(tasks, [&](const Task& task) {
                    task.share_out(
                        units, [&](std::int64_t unit) { ++calls[static_cast<std::size_t>(unit)]; });
                });
            }
            ASSERT_TRUE(execute(plan, {}));
            for (const auto& count : calls) EXPECT_EQ(count.load(), 3) << tasks << " tasks";
        }
    }
}

TEST_F(ExecuteTest, EachTaskBeginsWithItsOwnUnitsInOrder) {
    step(2, [](const Task& task) {
        std::int64_t expected = task.share(100).begin;
        task.share_out(100, [&](std::int64_t unit) {
            EXPECT_EQ(unit, expected++);
            task.sync();  // neither is done before the other
        });
    });
    ASSERT_TRUE(execute(plan, {}));
}

TEST_F(ExecuteTest, WhoIsDoneTakesUnitsOfOthers) {
    std::atomic<int> done{0};
    std::atomic<bool> is_busy{false};
    step(2, [&](const Task& task) {
        task.share_out(10, [&](std::int64_t) {
            if (task.index == 1) {
                is_busy = true;
                while (done < 9) relax();  // its first unit takes until all others are done
            } else {
                while (!is_busy) relax();
            }
            ++done;
        });
    });
    ASSERT_TRUE(execute(plan, {}));
    EXPECT_EQ(done, 10);
}

TEST_F(ExecuteTest, UsesTheCallersPool) {
    const auto pool = *ThreadPool::make(ggml_threadpool_params_default(3));
    step(3, [&](const Task&) { EXPECT_FALSE(pool->try_enter()) << "in use"; });
    ASSERT_TRUE(execute(plan, {.pool = pool.get()}));
    EXPECT_TRUE(pool->try_enter());
}

TEST_F(ExecuteTest, AStepMayComputeAnotherPlanWithTheSamePool) {
    const auto pool = *ThreadPool::make(ggml_threadpool_params_default(2));
    std::atomic<int> inner_calls{0};
    Plan inner;
    step(2, [&](const Task&) { ++inner_calls; });
    std::swap(inner, plan);
    step(2, [&](const Task&) { EXPECT_TRUE(execute(inner, {.pool = pool.get()})); });
    ASSERT_TRUE(execute(plan, {.pool = pool.get()}));
    EXPECT_EQ(inner_calls.load(), 4);
}

TEST_F(ExecuteTest, HandsOutScratchAndMode) {
    std::byte memory[64];
    step(2, [&](const Task& task) {
        EXPECT_EQ(task.scratch, memory);
        EXPECT_TRUE(task.plain);
    });
    ASSERT_TRUE(execute(plan, {.scratch = memory, .plain = true}));
}

TEST_F(ExecuteTest, AFailureEndsTheRunAfterItsNode) {
    bool later = false;
    Tensor* bad = step(3, [](const Task& task) {
        task.fail([] { return "row 7 of 5"; });
        task.sync();
    });
    step(1, [&](const Task&) { later = true; });
    const auto result = execute(plan, {});
    EXPECT_EQ(result.error().message, "node " + describe(*bad) + ", ADD: row 7 of 5");
    EXPECT_FALSE(later);
}

TEST_F(ExecuteTest, AsksAfterEveryNodeWhetherToStop) {
    int nodes = 0;
    for (int i = 0; i < 4; ++i) {
        step(i % 2 + 1, [&](const Task& task) {
            if (task.index == 0) ++nodes;
        });
    }
    plan.steps.push_back({nullptr, plan.steps[0].node, 1});  // an empty result
    int asked = 0;
    const AbortCheck never{[](void* asked) {
                               ++*static_cast<int*>(asked);
                               return false;
                           },
                           &asked};
    ASSERT_TRUE(execute(plan, {.abort = never}));
    EXPECT_EQ(asked, 5);
    EXPECT_EQ(nodes, 4);
}

TEST_F(ExecuteTest, StopsWhenToldToAlsoAfterTheLastNode) {
    for (const int stop_after : {1, 2, 3}) {
        plan = {};
        int nodes = 0;
        for (int i = 0; i < 3; ++i) step(1, [&](const Task&) { ++nodes; });
        int left = stop_after;
        const AbortCheck check{[](void* left) { return --*static_cast<int*>(left) == 0; }, &left};
        const auto result = execute(plan, {.abort = check});
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code, Errc::aborted);
        EXPECT_EQ(nodes, stop_after);
    }
}

TEST_F(ExecuteTest, DifferentThreadsMayRunPlansAtTheSameTime) {
    std::atomic<int> calls{0};
    for (int i = 0; i < 20; ++i) step(3, [&](const Task&) { ++calls; });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE(execute(plan, {})); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(calls.load(), 4 * 20 * 3);
}

}  // namespace
}  // namespace heddle::cpu
