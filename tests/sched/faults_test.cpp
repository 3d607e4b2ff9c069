// Everything that can go wrong with a simulated device goes wrong once, at every place there is.

#include <gtest/gtest.h>

#include <string>

#include "ggml/ops_math.h"
#include "ggml/ops_reduce.h"
#include "ggml/ops_train.h"
#include "runtime/buffer_count.hpp"
#include "sched/test_support.hpp"

namespace heddle::sched {
namespace {

/// Three graphs in a row on one scheduler over two devices and the processor: weights on all of
/// them, so that there are copies each way, and a tensor that outlives the graphs.
class FaultTest : public testing::Test {
protected:
    static constexpr int kGraphs = 3;

    void SetUp() override {
        buffers_before_ = heddle_live_buffers(ggml_backend_sim_reg());
        heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN);
        // Failures are expected by the hundred: what they say is looked at, not printed.
        ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    }
    void TearDown() override {
        weights_.reset();
        rig_.reset();
        ggml_log_set(nullptr, nullptr);
        heddle_set_error_mode(HEDDLE_ERROR_MODE_ABORT);
        EXPECT_EQ(heddle_live_buffers(ggml_backend_sim_reg()), buffers_before_)
            << "buffers are left";
    }

    void start(int slots) {
        weights_.reset();
        rig_ = std::make_unique<Rig>("devices=2,latency=1us");
        weights_ = std::make_unique<Weights>();
        w1_ = weights_->add("w1", rig_->memory(0), values1_);
        w2_ = weights_->add("w2", rig_->memory(1), values2_);
        w3_ = weights_->add("w3", ggml_backend_cpu_buffer_type(), values3_);
        EXPECT_TRUE(heddle_sched_set_n_copies(rig_->sched(), slots));
    }

    struct Net : Sketch {
        Tensor *x, *out;

        Net(Tensor* w1, Tensor* w2, Tensor* w3, int columns) : x(input("x", columns)) {
            Tensor* const a = add("a", ggml_silu(context(), ggml_mul_mat(context(), w1, x)));
            Tensor* const b = add("b", ggml_silu(context(), ggml_mul_mat(context(), w2, a)));
            Tensor* const c = add("c", ggml_silu(context(), ggml_mul_mat(context(), w3, b)));
            out = add("out", ggml_add(context(), ggml_mul_mat(context(), w1, c), a));
        }
    };

    Values expected(const Values& x) const {
        const Values a = silu(product(values1_, x));
        Values out = product(values1_, silu(product(values3_, silu(product(values2_, a)))));
        for (std::size_t i = 0; i < out.size(); ++i) out[i] += a[i];
        return out;
    }

    /// One graph from the beginning to its result; false if anything says that it failed. What does
    /// not fail is right.
    bool run_one(int number) {
        ggml_backend_sched_t const sched = rig_->sched();
        heddle_clear_error();
        ggml_backend_sched_reset(sched);
        Net net(w1_, w2_, w3_, 2 + number);
        if (!ggml_backend_sched_alloc_graph(sched, net.graph())) return told();
        const Values x = sim::numbers(static_cast<std::size_t>(ggml_nelements(net.x)), 5);
        sim::write(net.x, x);
        if (ggml_backend_sched_graph_compute(sched, net.graph()) != GGML_STATUS_SUCCESS) {
            return told();
        }
        const Values got = sim::read(net.out);
        if (*heddle_last_error() != '\0') return false;  // reading was what failed
        expect_near(got, expected(x));
        return true;
    }
    static bool told() {
        EXPECT_STRNE(heddle_last_error(), "") << "it failed without a word";
        return false;
    }

    /// Lets `fault` number 1, 2, ... happen until there are no more of it.
    void sweep(std::size_t device, const std::string& fault, int slots) {
        int number = 1;
        for (bool has_struck = true; has_struck && number < 200; ++number) {
            SCOPED_TRACE(testing::Message() << fault << '=' << number << " on device " << device
                                            << " with " << slots << " slots");
            start(slots);
            ASSERT_TRUE(sim::set_faults(rig_->device(device),
                                        (fault + '=' + std::to_string(number)).c_str()));
            has_struck = false;
            for (int graph = 0; graph < kGraphs; ++graph) {
                if (!run_one(graph)) has_struck = true;
            }
            ASSERT_TRUE(sim::set_faults(rig_->device(device), nullptr));
            for (int graph = 0; graph < kGraphs; ++graph) {
                EXPECT_TRUE(run_one(graph)) << "afterwards: " << heddle_last_error();
            }
            if (HasFailure()) return;
        }
        EXPECT_GT(number, 2) << "it never struck";
    }

    std::unique_ptr<Rig> rig_;
    std::unique_ptr<Weights> weights_;
    Tensor *w1_ = nullptr, *w2_ = nullptr, *w3_ = nullptr;
    const Values values1_ = sim::numbers(kWidth * kWidth, 31);
    const Values values2_ = sim::numbers(kWidth * kWidth, 32);
    const Values values3_ = sim::numbers(kWidth * kWidth, 33);
    long buffers_before_ = 0;
};

TEST_F(FaultTest, WithoutFaultsAllIsWell) {
    for (const int slots : {1, 4}) {
        start(slots);
        for (int graph = 0; graph < kGraphs; ++graph) EXPECT_TRUE(run_one(graph));
    }
}

TEST_F(FaultTest, EveryAllocationMayFail) {
    for (const int slots : {1, 4}) {
        sweep(0, "alloc", slots);
        sweep(1, "alloc", slots);
    }
}

TEST_F(FaultTest, EveryCopyMayFail) {
    for (const int slots : {1, 4}) {
        sweep(0, "copy", slots);
        sweep(1, "copy", slots);
    }
}

TEST_F(FaultTest, EveryNodeMayFail) {
    for (const int slots : {1, 4}) {
        sweep(0, "node", slots);
        sweep(1, "node", slots);
    }
}

TEST_F(FaultTest, ADeviceMayBeLostAtAnyTime) {
    for (std::size_t device = 0; device < 2; ++device) {
        for (int microseconds = 1; microseconds < 60; microseconds += 3) {
            SCOPED_TRACE(testing::Message() << device << " lost after " << microseconds << " us");
            start(1);
            const std::string plan = "lost=" + std::to_string(microseconds) + "us";
            ASSERT_TRUE(sim::set_faults(rig_->device(device), plan.c_str()));
            for (int graph = 0; graph < kGraphs; ++graph) run_one(graph);
            ASSERT_TRUE(sim::set_faults(rig_->device(device), nullptr));
            for (int graph = 0; graph < kGraphs; ++graph) {
                EXPECT_TRUE(run_one(graph)) << heddle_last_error();
            }
            if (HasFailure()) return;
        }
    }
}

/// What a device cannot compute in its own memory is computed elsewhere and written back.
TEST_F(FaultTest, EveryWriteBackMayFail) {
    const Values before = sim::numbers(kWidth * kColumns, 41);
    Values after = before;
    for (float& value : after) value /= 2;
    int struck = 0;
    for (int number = 1; number < 50; ++number) {
        SCOPED_TRACE(testing::Message() << "copy=" << number);
        weights_.reset();
        rig_ = std::make_unique<Rig>("devices=1,ops=all,-SCALE,latency=1us");
        weights_ = std::make_unique<Weights>();
        Tensor* const state = weights_->bench().matrix(kWidth, kColumns, rig_->memory(0));
        const auto run = [&] {
            heddle_clear_error();
            ggml_backend_sched_reset(rig_->sched());
            Sketch net;
            net.add("halved", ggml_scale_inplace(net.context(), state, 0.5f));
            if (!ggml_backend_sched_alloc_graph(rig_->sched(), net.graph())) return told();
            return ggml_backend_sched_graph_compute(rig_->sched(), net.graph()) ==
                           GGML_STATUS_SUCCESS
                       ? true
                       : told();
        };
        sim::write(state, before);
        ASSERT_TRUE(sim::set_faults(rig_->device(0), ("copy=" + std::to_string(number)).c_str()));
        const bool went_well = run();
        ASSERT_TRUE(sim::set_faults(rig_->device(0), nullptr));
        if (went_well) {
            expect_near(sim::read(state), after);
            break;
        }
        ++struck;
        sim::write(state, before);
        EXPECT_TRUE(run()) << heddle_last_error();
        expect_near(sim::read(state), after);
    }
    EXPECT_GE(struck, 2) << "one copy to the processor, one back";
}

/// Parameters are nodes that compute nothing. While the device in whose memory they are is left
/// out, others write them there all the same.
TEST_F(FaultTest, ParametersInMemoryOfADeviceThatFailedAreStillWritten) {
    rig_ = std::make_unique<Rig>("devices=1,ops=all,-OPT_STEP_SGD,latency=1us");
    weights_ = std::make_unique<Weights>();
    const auto matrix = [&](unsigned seed) {
        Tensor* const made = weights_->bench().matrix(kWidth, kColumns, rig_->memory(0));
        sim::write(made, sim::numbers(kWidth * kColumns, seed));
        return made;
    };
    Tensor *const parameters = matrix(41), *const gradient = matrix(42);
    Tensor* const rates = weights_->bench().vector(2, ggml_backend_cpu_buffer_type());
    sim::write(rates, {0.5F, 0});
    ggml_set_param(parameters);
    const auto run = [&] {
        Sketch net;
        net.add("squares", ggml_sqr(net.context(), gradient));
        net.add("step", ggml_opt_step_sgd(net.context(), parameters, gradient, rates));
        ggml_backend_sched_reset(rig_->sched());
        return ggml_backend_sched_alloc_graph(rig_->sched(), net.graph()) &&
               ggml_backend_sched_graph_compute(rig_->sched(), net.graph()) == GGML_STATUS_SUCCESS;
    };
    ASSERT_TRUE(sim::set_faults(rig_->device(0), "node=1"));
    EXPECT_FALSE(run());
    ASSERT_TRUE(sim::set_faults(rig_->device(0), nullptr));
    const Values before = sim::read(parameters), slope = sim::read(gradient);
    Values after = before;
    for (std::size_t i = 0; i < after.size(); ++i) after[i] -= 0.5F * slope[i];
    EXPECT_TRUE(run()) << heddle_last_error();
    expect_near(sim::read(parameters), after);
}

TEST_F(FaultTest, WithoutAnythingOnItALostDeviceIsNotMissed) {
    start(1);
    w1_ = weights_->add("w1 on the host", ggml_backend_cpu_buffer_type(), values1_);
    w2_ = weights_->add("w2 on the host", ggml_backend_cpu_buffer_type(), values2_);
    rig_->renew(false, true);
    ASSERT_TRUE(run_one(60));  // many columns: the devices ask for them
    for (std::size_t device = 0; device < 2; ++device) {
        ASSERT_TRUE(sim::set_faults(rig_->device(device), "lost=0us"));
    }
    int failures = 0;
    for (int run = 0; run < 6; ++run) failures += run_one(60) ? 0 : 1;
    EXPECT_LE(failures, 2) << "one for each device";
    EXPECT_TRUE(run_one(60));
}

}  // namespace
}  // namespace heddle::sched
