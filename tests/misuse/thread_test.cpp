// One stream, or one scheduler, in two threads at once. The first is held inside by a function of
// the test, so the second finds it there for certain.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>

#include "heddle/sched.h"
#include "tests/misuse/gate.hpp"
#include "tests/misuse/test_support.hpp"

namespace heddle::misuse {
namespace {

using testing::HasSubstr;

class OneStream : public Misuse {
protected:
    OneStream() {
        for (const Stream* stream : {&cpu, &other})
            ggml_backend_cpu_set_n_threads(stream->get(), 1);
        ggml_tensor* x = input();
        const auto stay = [](ggml_tensor* y, const ggml_tensor*, int, int, void* data) {
            static_cast<Gate*>(data)->pass();
            static_cast<float*>(y->data)[0] = 1;
        };
        held = graph_of(ggml_map_custom1(context.get(), x, stay, 1, &gate));
        quick = graph_of(ggml_scale(context.get(), x, 2));
        memory = allocate(cpu.get());
    }

    /// Runs `first` in another thread, and `second` here while that is inside. What `first` gives.
    template <class First, class Second>
    ggml_status meanwhile(const First& first, const Second& second) {
        ggml_status status = GGML_STATUS_ABORTED;
        std::thread thread([&] { status = first(); });
        gate.wait_for_arrival();
        heddle_clear_error();
        second();
        gate.open();
        thread.join();
        return status;
    }

    Gate gate;
    Stream cpu{ggml_backend_cpu_init()}, other{ggml_backend_cpu_init()};
    ggml_cgraph *held, *quick;
    Buffer memory;
};

constexpr const char* kBusy = "stream 'CPU' is computing already";

TEST_F(OneStream, IsRefusedToASecondThreadByEveryWayToCompute) {
    ggml_backend_graph_plan_t plan = ggml_backend_graph_plan_create(cpu.get(), quick);
    ASSERT_NE(plan, nullptr);
    const auto first = [&] { return ggml_backend_graph_compute(cpu.get(), held); };
    EXPECT_EQ(
        meanwhile(
            first,
            [&] {
                EXPECT_EQ(ggml_backend_graph_compute(cpu.get(), quick), GGML_STATUS_FAILED);
                EXPECT_THAT(heddle_last_error(), HasSubstr(kBusy));
                heddle_clear_error();
                EXPECT_EQ(ggml_backend_graph_compute_async(cpu.get(), quick), GGML_STATUS_FAILED);
                EXPECT_THAT(heddle_last_error(), HasSubstr(kBusy));
                heddle_clear_error();
                EXPECT_EQ(ggml_backend_graph_plan_compute(cpu.get(), plan), GGML_STATUS_FAILED);
                EXPECT_THAT(heddle_last_error(), HasSubstr(kBusy));
            }),
        GGML_STATUS_SUCCESS);
    EXPECT_EQ(ggml_backend_graph_compute(cpu.get(), quick), GGML_STATUS_SUCCESS) << "it is free";
    ggml_backend_graph_plan_free(cpu.get(), plan);
}

TEST_F(OneStream, IsHeldByAnAsynchronousCallAsWell) {
    EXPECT_EQ(meanwhile([&] { return ggml_backend_graph_compute_async(cpu.get(), held); },
                        [&] {
                            EXPECT_EQ(ggml_backend_graph_compute(cpu.get(), quick),
                                      GGML_STATUS_FAILED);
                            EXPECT_THAT(heddle_last_error(), HasSubstr(kBusy));
                        }),
              GGML_STATUS_SUCCESS);
}

TEST_F(OneStream, IsHeldByAPlanAsWell) {
    ggml_backend_graph_plan_t plan = ggml_backend_graph_plan_create(cpu.get(), held);
    EXPECT_EQ(meanwhile([&] { return ggml_backend_graph_plan_compute(cpu.get(), plan); },
                        [&] {
                            EXPECT_EQ(ggml_backend_graph_compute(cpu.get(), quick),
                                      GGML_STATUS_FAILED);
                            EXPECT_THAT(heddle_last_error(), HasSubstr(kBusy));
                        }),
              GGML_STATUS_SUCCESS);
    ggml_backend_graph_plan_free(cpu.get(), plan);
}

TEST_F(OneStream, LeavesOtherStreamsAndQuestionsAlone) {
    EXPECT_EQ(
        meanwhile([&] { return ggml_backend_graph_compute(cpu.get(), held); },
                  [&] {
                      EXPECT_EQ(ggml_backend_graph_compute(other.get(), quick),
                                GGML_STATUS_SUCCESS);
                      ggml_backend_synchronize(cpu.get());
                      EXPECT_TRUE(ggml_backend_supports_op(cpu.get(), ggml_graph_node(quick, -1)));
                      EXPECT_STREQ(ggml_backend_name(cpu.get()), "CPU");
                      EXPECT_STREQ(heddle_last_error(), "");
                  }),
        GGML_STATUS_SUCCESS);
}

TEST_F(OneStream, IsFreeInAChildWhileAnotherThreadOfTheParentComputes) {
    EXPECT_EQ(
        meanwhile([&] { return ggml_backend_graph_compute(cpu.get(), held); },
                  [&] {
                      const pid_t child = fork();
                      if (child == 0) {
                          alarm(60);
                          _exit(ggml_backend_graph_compute(cpu.get(), quick) == GGML_STATUS_SUCCESS
                                    ? EXIT_SUCCESS
                                    : EXIT_FAILURE);
                      }
                      int status = 0;
                      waitpid(child, &status, 0);
                      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
                  }),
        GGML_STATUS_SUCCESS);
}

/// A scheduler whose callback stays at the gate, or does what the test wants.
class OneScheduler : public Misuse {
protected:
    OneScheduler() {
        x = input();
        ggml_set_input(x);
        y = ggml_scale(context.get(), x, 2);
        ggml_set_output(y);
        graph = graph_of(y);
        ggml_backend_t streams[] = {cpu.get()};
        scheduler.reset(ggml_backend_sched_new(streams, nullptr, 1, 64, false, false));
        EXPECT_TRUE(ggml_backend_sched_alloc_graph(scheduler.get(), graph));
        fill_input();
        ggml_backend_sched_set_eval_callback(scheduler.get(), observe, this);
    }

    static bool observe(ggml_tensor*, bool ask, void* data) {
        if (!ask) static_cast<OneScheduler*>(data)->in_callback();
        return true;
    }

    /// Before every run: results may lie where inputs were.
    void fill_input() {
        const std::vector<float> values(64, 3);
        ggml_backend_tensor_set(x, values.data(), 0, 64 * sizeof(float));
    }

    void expect_right() {
        std::vector<float> values(64);
        ggml_backend_tensor_get(y, values.data(), 0, 64 * sizeof(float));
        EXPECT_EQ(values, std::vector<float>(64, 6));
    }

    std::function<void()> in_callback = [] {};
    Stream cpu{ggml_backend_cpu_init()};
    Scheduler scheduler;
    ggml_tensor *x, *y;
    ggml_cgraph* graph;
};

TEST_F(OneScheduler, IsRefusedToASecondThreadByAllThatChangesIt) {
    Gate gate;
    in_callback = [&] { gate.pass(); };
    ggml_status status = GGML_STATUS_ABORTED;
    std::thread thread([&] { status = ggml_backend_sched_graph_compute(scheduler.get(), graph); });
    gate.wait_for_arrival();
    const auto told = [](const auto& call) {
        heddle_clear_error();
        call();
        return std::string(heddle_last_error());
    };
    ggml_backend_sched_t sched = scheduler.get();
    const auto is_refused = HasSubstr("is in use in another thread");
    EXPECT_THAT(told([&] {
                    EXPECT_EQ(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_FAILED);
                }),
                is_refused);
    EXPECT_THAT(told([&] {
                    EXPECT_EQ(ggml_backend_sched_graph_compute_async(sched, graph),
                              GGML_STATUS_FAILED);
                }),
                is_refused);
    EXPECT_THAT(told([&] { EXPECT_FALSE(ggml_backend_sched_alloc_graph(sched, graph)); }),
                is_refused);
    EXPECT_THAT(told([&] { EXPECT_FALSE(ggml_backend_sched_reserve(sched, graph)); }), is_refused);
    EXPECT_THAT(told([&] { ggml_backend_sched_split_graph(sched, graph); }), is_refused);
    EXPECT_THAT(told([&] { ggml_backend_sched_reset(sched); }), is_refused);
    EXPECT_THAT(told([&] { ggml_backend_sched_synchronize(sched); }), is_refused);
    EXPECT_THAT(told([&] { ggml_backend_sched_set_tensor_backend(sched, y, cpu.get()); }),
                is_refused);
    EXPECT_THAT(told([&] { ggml_backend_sched_set_eval_callback(sched, nullptr, nullptr); }),
                is_refused);
    EXPECT_THAT(told([&] { EXPECT_FALSE(heddle_sched_set_n_copies(sched, 2)); }), is_refused);
    EXPECT_THAT(told([&] { EXPECT_EQ(heddle_sched_explain(sched, HEDDLE_EXPLAIN_TEXT), nullptr); }),
                is_refused);
    EXPECT_EQ(told([&] {
                  EXPECT_EQ(ggml_backend_sched_get_n_splits(sched), 1);
                  EXPECT_EQ(ggml_backend_sched_get_n_backends(sched), 1);
                  EXPECT_EQ(ggml_backend_sched_get_tensor_backend(sched, y), cpu.get());
              }),
              "")
        << "questions";
    gate.open();
    thread.join();
    EXPECT_EQ(status, GGML_STATUS_SUCCESS);
    expect_right();
}

TEST_F(OneScheduler, MayBeUsedByOneThreadAfterTheOther) {
    std::thread([&] {
        EXPECT_EQ(ggml_backend_sched_graph_compute_async(scheduler.get(), graph),
                  GGML_STATUS_SUCCESS);
    }).join();
    heddle_clear_error();
    ggml_backend_sched_synchronize(scheduler.get());
    EXPECT_STREQ(heddle_last_error(), "");
    expect_right();
    fill_input();
    EXPECT_EQ(ggml_backend_sched_graph_compute(scheduler.get(), graph), GGML_STATUS_SUCCESS);
    expect_right();
}

TEST_F(OneScheduler, MayBeWaitedForButNotResetByItsCallback) {
    std::string of_waiting, of_reset;
    in_callback = [&] {
        heddle_clear_error();
        ggml_backend_sched_synchronize(scheduler.get());
        of_waiting = heddle_last_error();
        ggml_backend_sched_reset(scheduler.get());
        of_reset = heddle_last_error();
    };
    EXPECT_EQ(ggml_backend_sched_graph_compute(scheduler.get(), graph), GGML_STATUS_SUCCESS);
    EXPECT_EQ(of_waiting, "");
    EXPECT_EQ(
        of_reset,
        "scheduler: reset: it is in use further up in this thread; only one at a time may use "
        "it");
    expect_right();
}

}  // namespace
}  // namespace heddle::misuse
