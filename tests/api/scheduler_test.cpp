#include "test_support.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// y = silu(w x): a weight on a device of its own, an input from the host.
class TwoDevices : public testing::Test {
protected:
    void SetUp() override {
        w = weights.tensor(GGML_TYPE_F32, {2, 2}, "w");
        memory.emplace(must(Buffer::for_all(weights, sim)));
        memory->set_weights();
        must(write<float>(w, {1, 2, 3, 4}));
        x = context.tensor(GGML_TYPE_F32, {2}, "x").as_input();
        y = relu(matmul(w, x)).named("y").as_output();
    }

    Device sim = must(Device::find("sim:devices=1"));
    Context weights = must(Context::make_store(1)), context = must(Context::make());
    Tensor w, x, y;
    std::optional<Buffer> memory;
};

TEST_F(TwoDevices, ShareAGraph) {
    const Graph graph = must(Graph::of(context, y));
    Scheduler scheduler = must(Scheduler::make({sim}));
    must(scheduler.allocate(graph));
    must(write<float>(x, {1, -1}));
    must(scheduler.compute(graph));
    EXPECT_THAT(must(read<float>(y)), ElementsAre(0, 0));
    must(write<float>(x, {1, 1}));
    must(scheduler.compute_async(graph));
    must(scheduler.wait());
    EXPECT_THAT(must(read<float>(y)), ElementsAre(3, 7));
    EXPECT_EQ(scheduler.place_of(y), "SIM0");
    EXPECT_EQ(scheduler.place_of(Tensor()), "");
    EXPECT_EQ(scheduler.counts().runs, 2u);
    EXPECT_EQ(scheduler.streams().size(), 2u);
    EXPECT_GE(scheduler.splits(), 1);
}

TEST_F(TwoDevices, AreExplained) {
    Scheduler scheduler = must(Scheduler::make({sim}));
    EXPECT_FALSE(scheduler.explain()) << "nothing was scheduled yet";
    scheduler.set_tracing(true);
    const Graph graph = must(Graph::of(context, y));
    must(scheduler.allocate(graph));
    must(write<float>(x, {1, 1}));
    must(scheduler.compute(graph));
    EXPECT_THAT(must(scheduler.explain()), HasSubstr("SIM0"));
    EXPECT_THAT(must(scheduler.explain(HEDDLE_EXPLAIN_JSON)), HasSubstr("\"y\""));
    EXPECT_THAT(must(scheduler.explain(HEDDLE_EXPLAIN_DOT)), HasSubstr("digraph"));
    EXPECT_THAT(must(scheduler.explain(HEDDLE_EXPLAIN_TRACE)), HasSubstr("traceEvents"));
    EXPECT_THAT(must(scheduler.explain(HEDDLE_EXPLAIN_HTML)), HasSubstr("<html"));
}

TEST_F(TwoDevices, TakeBudgets) {
    Scheduler scheduler = must(Scheduler::make({sim}));
    must(scheduler.set_budget(sim, 1 << 20));
    const Device other = must(Device::find_all("sim:devices=2"))[1];
    EXPECT_THAT(said(scheduler.set_budget(other, 1 << 20)),
                HasSubstr("not one of the scheduler's devices"));
}

TEST_F(TwoDevices, TakePins) {
    const Graph graph = must(Graph::of(context, y));
    Scheduler scheduler = must(Scheduler::make({sim}));
    must(scheduler.pin(y, must(Device::cpu())));
    must(scheduler.allocate(graph));
    EXPECT_EQ(scheduler.place_of(y), "CPU");
    must(write<float>(x, {1, 1}));
    must(scheduler.compute(graph));
    EXPECT_THAT(must(read<float>(y)), ElementsAre(3, 7));
    must(scheduler.allocate(graph));
    EXPECT_EQ(scheduler.place_of(y), "SIM0") << "a pin holds once";
    EXPECT_FALSE(scheduler.pin(Tensor(), sim));
}

TEST_F(TwoDevices, GiveTheSameResultsByCost) {
    const Graph graph = must(Graph::of(context, y));
    Scheduler scheduler =
        must(Scheduler::make({sim}, {.policy = Scheduler::Policy::cost, .cost_file = ""}));
    must(scheduler.allocate(graph));
    must(write<float>(x, {1, 1}));
    must(scheduler.compute(graph));
    EXPECT_THAT(must(read<float>(y)), ElementsAre(3, 7));
}

TEST_F(TwoDevices, OverlapRuns) {
    const Graph graph = must(Graph::of(context, y));
    Scheduler scheduler = must(Scheduler::make({sim}, {.slots = 2}));
    for (int i = 0; i < 4; ++i) {
        must(scheduler.allocate(graph));
        must(write<float>(x, {1, static_cast<float>(i)}));
        must(scheduler.compute_async(graph));
    }
    must(scheduler.wait());
    EXPECT_THAT(must(read<float>(y)), ElementsAre(7, 15));
}

TEST(Schedulers, RunOnAllDevicesIfNoneIsNamed) {
    Context context = must(Context::make());
    const Tensor a = context.tensor(GGML_TYPE_F32, {4}, "a");
    const Tensor b = context.tensor(GGML_TYPE_F32, {4}, "b");
    const Graph graph = must(Graph::of(context, a + b));
    Scheduler scheduler = must(Scheduler::make({}, {.cost_file = ""}));
    must(scheduler.allocate(graph));
    must(write<float>(a, {1, 2, 3, 4}));
    must(write<float>(b, {10, 20, 30, 40}));
    must(scheduler.compute(graph));
    EXPECT_THAT(must(read<float>(graph.result())), ElementsAre(11, 22, 33, 44));
}

TEST(Schedulers, SayThatMemoryDoesNotSuffice) {
    Context context = must(Context::make());
    const Tensor x = context.tensor(GGML_TYPE_F32, {std::int64_t{1} << 44}, "x");
    const Graph graph = must(Graph::of(context, sqr(x)));
    Scheduler scheduler = must(Scheduler::make({must(Device::cpu())}));
    const auto done = scheduler.allocate(graph);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::out_of_memory);
    EXPECT_FALSE(done.error().message.empty());
}

TEST(Schedulers, SayWhatFailedOnADevice) {
    const Device sim = must(Device::find("sim:node=1"));
    Context weights = must(Context::make_store(1)), context = must(Context::make());
    const Tensor w = weights.tensor(GGML_TYPE_F32, {2, 2}, "w");
    Buffer memory = must(Buffer::for_all(weights, sim));
    memory.set_weights();
    memory.clear();
    const Tensor x = context.tensor(GGML_TYPE_F32, {2}, "x").as_input();
    const Graph graph = must(Graph::of(context, matmul(w, x).named("y")));
    Scheduler scheduler = must(Scheduler::make({sim}));
    must(scheduler.allocate(graph));
    must(write<float>(x, {1, 1}));
    EXPECT_TRUE(scheduler.left_out().empty());
    const auto done = scheduler.compute(graph);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::device);
    EXPECT_FALSE(done.error().message.empty());
    EXPECT_EQ(scheduler.left_out(), std::vector{sim});
    const Stream stranger = must(sim.start());
    EXPECT_FALSE(heddle_sched_is_left_out(scheduler.c(), stranger.c()));
    EXPECT_STREQ(heddle_last_error(), "scheduler: left out: the stream is none of its own");
}

}  // namespace
}  // namespace heddle
