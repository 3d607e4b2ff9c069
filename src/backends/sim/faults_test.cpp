// Things that go wrong because they were told to.

#include "backends/sim/test_support.hpp"
#include "ggml/ops_math.h"
#include "plugin/ggml-backend-impl.h"

namespace heddle::sim {
namespace {

using testing::HasSubstr;

class SimFaults : public testing::Test {
protected:
    SimFaults() {
        EXPECT_TRUE(configure("mem=64M,link=1M,membw=1G,latency=1ms"));
        stream_.reset(ggml_backend_dev_init(device(), nullptr));
        type_ = ggml_backend_dev_buffer_type(device());
        x_ = bench_.vector(1000, type_, "x");
        y_ = bench_.place(ggml_set_name(ggml_sqr(bench_.context(), x_), "y"), type_);
        z_ = bench_.place(ggml_set_name(ggml_neg(bench_.context(), y_), "z"), type_);
        graph_ = bench_.graph({z_});
        write(x_, std::vector<float>(1000, 3));
        write(y_, std::vector<float>(1000, 0));
        write(z_, std::vector<float>(1000, 0));
        heddle_clear_error();
    }

    ggml_status compute() { return ggml_backend_graph_compute(stream_.get(), graph_); }

    Stream stream_;
    ggml_backend_buffer_type_t type_;
    Bench bench_;
    Tensor *x_, *y_, *z_;
    ggml_cgraph* graph_;
};

TEST_F(SimFaults, TheNthAllocationFails) {
    ASSERT_TRUE(set_faults(device(), "alloc=2"));
    const Buffer first(ggml_backend_buft_alloc_buffer(type_, 100));
    EXPECT_NE(first, nullptr);
    EXPECT_EQ(type_->iface.alloc_buffer(type_, 100), nullptr);
    EXPECT_THAT(heddle_last_error(), HasSubstr("allocation of 100 bytes fails as it was told to"));
    const Buffer third(ggml_backend_buft_alloc_buffer(type_, 100));
    EXPECT_NE(third, nullptr);
}

TEST_F(SimFaults, TheNthNodeFailsAndThoseBeforeItAreComputed) {
    ASSERT_TRUE(set_faults(device(), "node=2"));
    EXPECT_EQ(compute(), GGML_STATUS_FAILED);
    EXPECT_THAT(heddle_last_error(), HasSubstr("'z'"));
    EXPECT_THAT(heddle_last_error(), HasSubstr("fails as it was told to"));
    EXPECT_EQ(read(y_)[0], 9);
    EXPECT_EQ(read(z_)[0], 0);
    EXPECT_EQ(compute(), GGML_STATUS_SUCCESS);
    EXPECT_EQ(read(z_)[0], -9);
}

TEST_F(SimFaults, TheNthCopyMovesNothingAndTheNextGraphSaysSo) {
    ASSERT_TRUE(set_faults(device(), "copy=2"));
    const std::vector<float> fours(1000, 4);
    ggml_backend_tensor_set_async(stream_.get(), x_, fours.data(), 0, 4000);
    heddle_clear_error();
    ggml_backend_tensor_set_async(stream_.get(), y_, fours.data(), 0, 4000);
    EXPECT_THAT(heddle_last_error(), HasSubstr("copy of 'y' fails as it was told to"));
    EXPECT_EQ(compute(), GGML_STATUS_FAILED);
    EXPECT_EQ(read(y_)[0], 0);
    EXPECT_EQ(compute(), GGML_STATUS_SUCCESS);
    EXPECT_EQ(read(z_)[0], -16);
}

TEST_F(SimFaults, ACopyThatBlocksCanFailToo) {
    ASSERT_TRUE(set_faults(device(), "copy=1"));
    write(x_, std::vector<float>(1000, 4));
    EXPECT_EQ(read(x_)[0], 3);
    EXPECT_EQ(compute(), GGML_STATUS_FAILED);
    EXPECT_EQ(compute(), GGML_STATUS_SUCCESS);
}

TEST_F(SimFaults, ADeviceIsLostAtItsTime) {
    const double now = clock_of(nullptr);
    const std::string plan = "lost=" + std::to_string(now + 1.5e-3) + "s";
    ASSERT_TRUE(set_faults(device(), plan.c_str()));
    EXPECT_EQ(compute(), GGML_STATUS_FAILED) << "the second node would end after it";
    EXPECT_THAT(heddle_last_error(), HasSubstr("SIM0 was lost at"));
    EXPECT_EQ(compute(), GGML_STATUS_FAILED);
    EXPECT_EQ(read(y_)[0], 0) << "nothing is read either";
    sim_function<heddle_sim_advance_t>("heddle_sim_advance")(1);
    EXPECT_EQ(ggml_backend_buft_alloc_buffer(type_, 100), nullptr);
    EXPECT_EQ(ggml_backend_dev_init(device(), nullptr), nullptr);

    ASSERT_TRUE(set_faults(device(), nullptr));
    EXPECT_EQ(compute(), GGML_STATUS_SUCCESS);
    EXPECT_EQ(read(z_)[0], -9);
}

TEST_F(SimFaults, ACopyBetweenStreamsThatFailsIsNotTriedAnotherWay) {
    const Stream second(ggml_backend_dev_init(device(), nullptr));
    ASSERT_TRUE(set_faults(device(), "copy=1"));
    ggml_backend_tensor_copy_async(second.get(), stream_.get(), x_, y_);
    ggml_backend_synchronize(stream_.get());
    EXPECT_EQ(read(y_)[0], 0);
    EXPECT_EQ(compute(), GGML_STATUS_FAILED);
}

TEST_F(SimFaults, APlanThatMakesNoSenseIsRefused) {
    EXPECT_FALSE(set_faults(device(), "node=never"));
    EXPECT_THAT(heddle_last_error(), HasSubstr("node: 'never' is not a count such as 3"));
    EXPECT_FALSE(set_faults(nullptr, "node=1"));
    EXPECT_EQ(compute(), GGML_STATUS_SUCCESS);
}

TEST_F(SimFaults, FaultsCanComeWithTheParameters) {
    ASSERT_TRUE(configure("alloc=1"));
    EXPECT_EQ(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device()), 10), nullptr);
}

}  // namespace
}  // namespace heddle::sim
