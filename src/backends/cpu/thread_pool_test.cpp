#include "backends/cpu/thread_pool.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "backends/cpu/pool_cache.hpp"
#include "backends/cpu/topology.hpp"

namespace heddle::cpu {
namespace {

/// A pool entered by the test, for as long as it lives.
class TestPool {
public:
    explicit TestPool(int threads, std::uint32_t poll = 50) {
        ggml_threadpool_params params = ggml_threadpool_params_default(threads);
        params.poll = poll;
        pool = *ThreadPool::make(params);
        EXPECT_TRUE(pool->try_enter());
    }

    void run(int count, const std::function<void(int)>& body) {
        pool->run({[](void* context, int index) {
                       (*static_cast<const std::function<void(int)>*>(context))(index);
                   },
                   const_cast<std::function<void(int)>*>(&body)},
                  count);
    }

    std::unique_ptr<ThreadPool> pool;
};

TEST(ThreadPool, RunsEveryTaskOnce) {
    for (const int threads : {1, 2, 3, 8}) {
        TestPool test(threads);
        for (int count = 1; count <= threads; ++count) {
            std::vector<int> calls(static_cast<std::size_t>(count));
            test.run(count, [&](int index) { ++calls[static_cast<std::size_t>(index)]; });
            EXPECT_EQ(calls, std::vector<int>(static_cast<std::size_t>(count), 1));
        }
    }
}

TEST(ThreadPool, SeesWhatTheCallerWroteAndTheCallerSeesWhatTasksWrote) {
    TestPool test(4);
    std::vector<int> values(4);
    for (int round = 0; round < 2000; ++round) {
        const int count = 1 + round % 4;
        std::fill(values.begin(), values.end(), round);
        test.run(count, [&](int index) { values[static_cast<std::size_t>(index)] += index; });
        for (int i = 0; i < count; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], round + i);
    }
}

TEST(ThreadPool, TasksThatWaitForEachOtherRunAtTheSameTime) {
    TestPool test(8);  // more than many machines have CPUs
    for (int round = 0; round < 50; ++round) {
        std::atomic<int> arrived{0};
        test.run(8, [&](int) {
            ++arrived;
            while (arrived.load() < 8) std::this_thread::yield();
        });
        ASSERT_EQ(arrived.load(), 8);
    }
}

TEST(ThreadPool, AlternatesBetweenCountsOfTasks) {
    TestPool test(5);
    std::atomic<int> total{0};
    for (int round = 0; round < 5000; ++round) {
        test.run(round % 2 == 0 ? 1 : 5, [&](int) { total.fetch_add(1); });
    }
    EXPECT_EQ(total.load(), 2500 * 6);
}

TEST(ThreadPool, WakesThreadsThatSleep) {
    TestPool test(3, 0);  // no spinning: threads sleep whenever they are idle
    std::atomic<int> total{0};
    for (int round = 0; round < 500; ++round) test.run(3, [&](int) { total.fetch_add(1); });
    EXPECT_EQ(total.load(), 1500);
}

TEST(ThreadPool, SleepsWhileOthersTakeLong) {
    TestPool test(4);
    std::vector<int> values(4);
    for (int round = 0; round < 20; ++round) {
        const int slow = round % 4;
        test.run(4, [&](int index) {
            // Longer than anybody spins.
            if (index == slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            values[static_cast<std::size_t>(index)] = round;
        });
        ASSERT_EQ(values, std::vector<int>(4, round));
    }
}

TEST(ThreadPool, ThreadsTakeTasksThatNoThreadHasBegun) {
    TestPool test(4);
    for (int round = 0; round < 20; ++round) {
        std::atomic<int> others{0};
        test.run(4, [&](int index) {
            // The caller is held up until all but two tasks are done: others must do them.
            if (index != 0) {
                others.fetch_add(1);
                return;
            }
            while (others.load() < 2) std::this_thread::yield();
        });
        ASSERT_EQ(others.load(), 3);
    }
}

TEST(ThreadPool, TakesWorkWhilePausedAndGoesOnAfterwards) {
    TestPool test(4);
    std::atomic<int> total{0};
    for (int round = 0; round < 200; ++round) {
        if (round % 3 == 0) test.pool->pause();
        if (round % 5 == 0) test.pool->resume();
        test.run(4, [&](int) { total.fetch_add(1); });
    }
    EXPECT_EQ(total.load(), 800);
}

TEST(ThreadPool, IsResumedByEntering) {
    ggml_threadpool_params params = ggml_threadpool_params_default(2);
    params.paused = true;
    const auto pool = *ThreadPool::make(params);
    EXPECT_TRUE(pool->is_paused());
    pool->pause();
    EXPECT_TRUE(pool->try_enter());
    EXPECT_FALSE(pool->is_paused());
    pool->resume();
}

TEST(ThreadPool, EndsWhilePaused) {
    ggml_threadpool_params params = ggml_threadpool_params_default(6);
    params.paused = true;
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(ThreadPool::make(params));
}

TEST(ThreadPool, HasOneUserAtATime) {
    const auto pool = *ThreadPool::make(ggml_threadpool_params_default(2));
    EXPECT_TRUE(pool->try_enter());
    EXPECT_FALSE(pool->try_enter());
    pool->leave();
    EXPECT_TRUE(pool->try_enter());
}

TEST(ThreadPool, RefusesImpossibleSizes) {
    EXPECT_EQ(ThreadPool::make(ggml_threadpool_params_default(0)).error().message,
              "a thread pool of 0 threads; 1 to 65535 are possible");
    EXPECT_EQ(ThreadPool::make(ggml_threadpool_params_default(70000)).error().message,
              "a thread pool of 70000 threads; 1 to 65535 are possible");
}

TEST(ThreadPool, KeepsItsThreadsOnTheCpusOfTheMask) {
    const CpuList before = thread_cpus();
    if (before.empty()) GTEST_SKIP() << "CPUs cannot be asked for here";
    ggml_threadpool_params params = ggml_threadpool_params_default(2);
    params.cpumask[before.front()] = true;
    params.strict_cpu = true;
    std::vector<CpuList> seen(2);
    {
        const auto pool = *ThreadPool::make(params);
        ASSERT_TRUE(pool->try_enter());
        struct Arrivals {
            std::vector<CpuList>& seen;
            std::atomic<int> arrived{0};
        } arrivals{seen};
        pool->run({[](void* context, int index) {
                       auto& arrivals = *static_cast<Arrivals*>(context);
                       arrivals.seen[static_cast<std::size_t>(index)] = thread_cpus();
                       ++arrivals.arrived;
                       while (arrivals.arrived.load() < 2) std::this_thread::yield();
                   },
                   &arrivals},
                  2);
    }
    ASSERT_TRUE(pin_thread(before));  // the pool pinned this thread too
    EXPECT_EQ(seen[0], CpuList{before.front()});
    EXPECT_EQ(seen[1], CpuList{before.front()});
}

TEST(PoolLease, NeedsNoPoolForOneThread) { EXPECT_EQ((*lease_pool(1, nullptr)).pool(), nullptr); }

TEST(PoolLease, PrefersTheCallersPool) {
    const auto pool = *ThreadPool::make(ggml_threadpool_params_default(3));
    {
        const PoolLease lease = *lease_pool(2, pool.get());
        EXPECT_EQ(lease.pool(), pool.get());
        const PoolLease nested = *lease_pool(2, pool.get());
        ASSERT_NE(nested.pool(), nullptr);
        EXPECT_NE(nested.pool(), pool.get()) << "it is busy";
    }
    EXPECT_TRUE(pool->try_enter());
}

TEST(PoolLease, UsesThreadsAgain) {
    const ThreadPool* first = (*lease_pool(3, nullptr)).pool();
    const PoolLease second = *lease_pool(3, nullptr);
    EXPECT_EQ(second.pool(), first);
    const PoolLease third = *lease_pool(3, nullptr);
    EXPECT_NE(third.pool(), first);
}

TEST(PoolLease, ServesManyThreadsAtOnce) {
    std::vector<std::thread> users;
    std::atomic<int> total{0};
    for (int user = 0; user < 4; ++user) {
        users.emplace_back([&] {
            for (int round = 0; round < 100; ++round) {
                const PoolLease lease = *lease_pool(3, nullptr);
                lease.pool()->run({[](void* context, int) {
                                       static_cast<std::atomic<int>*>(context)->fetch_add(1);
                                   },
                                   &total},
                                  3);
            }
        });
    }
    for (std::thread& user : users) user.join();
    EXPECT_EQ(total.load(), 4 * 100 * 3);
}

}  // namespace
}  // namespace heddle::cpu
