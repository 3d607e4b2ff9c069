// Runs that fail, runs that are watched, runs by two threads.

#include <set>

#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "sched/submit/test_support.hpp"

namespace heddle::sched {
namespace {

using testing::HasSubstr;

// ---- failures ----------------------------------------------------------------------------------

class FaultTest : public SubmitTest, public testing::WithParamInterface<int> {
protected:
    /// The first run with the faults fails as expected; afterwards all is well again.
    void check(const std::string& faults, const std::string& name) {
        Chain chain({memory_of(0), memory_of(2), memory_of(1)}, 3);
        load(chain.graph());
        const Values x = chain.numbers(1);
        sim::write(chain.x, x);
        const std::size_t device = name == "SIM0" ? 0 : 1;
        ASSERT_TRUE(sim::set_faults(sim::device(device), faults.c_str()));
        const auto failed = compute();
        ASSERT_FALSE(failed);
        EXPECT_EQ(failed.error().code, Errc::device);
        EXPECT_THAT(failed.error().message, HasSubstr(name));
        EXPECT_THAT(failed.error().message, HasSubstr("told to"));
        EXPECT_EQ(submitter->failed(), static_cast<RunnerId>(device));
        EXPECT_TRUE(submitter->answers(static_cast<RunnerId>(device)));
        sim::write(chain.x, x);
        const auto done = compute();
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_EQ(submitter->failed(), kNoRunner);
        expect_near(sim::read(chain.y), chain.result(x));
    }
};

TEST_F(FaultTest, ANodeThatFails) {
    start("devices=2");
    check("node=1", "SIM0");
}
TEST_F(FaultTest, AnUploadThatFails) {
    start("devices=2");
    check("copy=1", "SIM0");
}
TEST_F(FaultTest, ADownloadThatFails) {
    start("devices=2");
    check("copy=2", "SIM0");
}
TEST_F(FaultTest, AnUploadOfAResultThatFails) {
    start("devices=2");
    check("copy=1", "SIM1");
}

TEST_F(SubmitTest, ACopyBetweenDevicesThatFails) {
    start("devices=2");
    Chain chain({memory_of(0), memory_of(1)}, 3);
    load(chain.graph());
    sim::write(chain.x, chain.numbers(1));
    ASSERT_TRUE(sim::set_faults(sim::device(1), "copy=1"));
    const auto failed = compute();
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, HasSubstr("copy of 'y0' from SIM0 to SIM1"));
    EXPECT_EQ(submitter->failed(), 1);
    sim::write(chain.x, chain.numbers(1));
    ASSERT_TRUE(compute());
    expect_near(sim::read(chain.y), chain.result(chain.numbers(1)));
}

TEST_F(SubmitTest, ALostDeviceDoesNotAnswerUntilItIsBack) {
    start("devices=2");
    Chain chain({memory_of(0), memory_of(1)}, 3);
    load(chain.graph());
    sim::write(chain.x, chain.numbers(1));
    ASSERT_TRUE(sim::set_faults(sim::device(0), "lost=0s"));
    ASSERT_FALSE(compute());
    EXPECT_EQ(submitter->failed(), 0);
    EXPECT_FALSE(submitter->answers(0));
    EXPECT_TRUE(submitter->answers(1));
    ASSERT_TRUE(sim::set_faults(sim::device(0), nullptr));
    EXPECT_TRUE(submitter->answers(0));
    sim::write(chain.x, chain.numbers(1));
    ASSERT_TRUE(compute());
    expect_near(sim::read(chain.y), chain.result(chain.numbers(1)));
}

// ---- the observer ------------------------------------------------------------------------------

struct Diary {
    std::set<std::string> wanted;
    std::string last = {};
    std::vector<std::string> asked = {}, seen = {};
    Values values = {};

    static bool note(Tensor* node, bool ask, void* data) {
        auto& self = *static_cast<Diary*>(data);
        if (ask) {
            self.asked.emplace_back(node->name);
            return self.wanted.count(node->name) > 0;
        }
        self.seen.emplace_back(node->name);
        self.values = sim::read(node);
        return node->name != self.last;
    }
};

TEST_F(SubmitTest, TheObserverSeesWhatItWantsAndIsAskedOnce) {
    start("devices=1");
    Chain chain({memory_of(0), memory_of(1), memory_of(0), memory_of(0)}, 3);
    load(chain.graph());
    sim::write(chain.x, chain.numbers(1));
    Diary diary{.wanted = {"y1", "y2"}};
    ASSERT_TRUE(compute({.observer = Diary::note, .observer_data = &diary}));
    EXPECT_EQ(diary.asked, (std::vector<std::string>{"y0", "y1", "y2", "y3"}));
    EXPECT_EQ(diary.seen, (std::vector<std::string>{"y1", "y2"}));
    expect_near(sim::read(chain.y), chain.result(chain.numbers(1)));
}

TEST_F(SubmitTest, TheObserverEndsTheWholeRun) {
    start("devices=1");
    Chain chain({memory_of(0), memory_of(1), memory_of(0), memory_of(0)}, 3);
    load(chain.graph());
    sim::write(chain.x, chain.numbers(1));
    Diary diary{.wanted = {"y0", "y1", "y2"}, .last = "y1"};
    const auto ended = compute({.observer = Diary::note, .observer_data = &diary});
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Errc::aborted);
    EXPECT_THAT(ended.error().message, HasSubstr("'y1'"));
    EXPECT_EQ(diary.asked, (std::vector<std::string>{"y0", "y1"}));
    EXPECT_EQ(submitter->failed(), kNoRunner);
    sim::write(chain.x, chain.numbers(1));
    ASSERT_TRUE(compute());
    expect_near(sim::read(chain.y), chain.result(chain.numbers(1)));
}

// ---- threads -----------------------------------------------------------------------------------

/// Two branches, one on the device and one on the CPU, that meet at the end.
struct Fork : Sketch {
    Tensor *x, *y;
    std::vector<Tensor*> parts;

    Fork(Tensor* on_device, Tensor* on_host, int length) : x(input("x")) {
        Tensor *a = x, *b = x;
        for (int i = 0; i < length; ++i) {
            b = ggml_mul_mat(context(), on_host, b);
            a = ggml_mul_mat(context(), on_device, a);
            add("b", b);
            add("a", a);
        }
        y = add("y", ggml_add(context(), a, b));
    }
};

class ThreadTest : public SubmitTest {
protected:
    void build() {
        start("devices=1");
        w0 = weights.add("w0", memory_of(0), values0);
        w1 = weights.add("w1", memory_of(1), values1);
        net = std::make_unique<Fork>(w0, w1, 4);
        load(net->graph());
    }
    Values result(const Values& x) const {
        Values a = x, b = x;
        for (int i = 0; i < 4; ++i) a = product(values0, a), b = product(values1, b);
        for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
        return a;
    }
    const Values values0 = sim::numbers(kWidth * kWidth, 21);
    const Values values1 = sim::numbers(kWidth * kWidth, 22);
    Tensor *w0 = nullptr, *w1 = nullptr;
    std::unique_ptr<Fork> net;
};

TEST_F(ThreadTest, BranchesOfTheCpuAndOfADeviceGiveTheSameAsInARow) {
    build();
    for (const bool threads : {true, false}) {
        program.wants_threads = threads;
        program.serial = next_graph_uid();
        for (unsigned seed = 0; seed < 50; ++seed) {
            const Values x = sim::numbers(kWidth * kColumns, seed);
            sim::write(net->x, x);
            ASSERT_TRUE(compute());
            expect_near(sim::read(net->y), result(x));
        }
    }
}

TEST_F(ThreadTest, AFailureOnOneSideStopsTheOther) {
    build();
    program.wants_threads = true;
    for (int node = 1; node <= 4; ++node) {
        sim::write(net->x, sim::numbers(kWidth * kColumns, 1));
        ASSERT_TRUE(sim::set_faults(sim::device(), ("node=" + std::to_string(node)).c_str()));
        ASSERT_FALSE(compute()) << node;
        EXPECT_EQ(submitter->failed(), 0);
        sim::write(net->x, sim::numbers(kWidth * kColumns, 1));
        ASSERT_TRUE(compute());
        expect_near(sim::read(net->y), result(sim::numbers(kWidth * kColumns, 1)));
    }
}

}  // namespace
}  // namespace heddle::sched
