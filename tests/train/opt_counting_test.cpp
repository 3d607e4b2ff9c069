// Training of a model that is simple enough to count along.
#include <cmath>

#include "test_support.hpp"

namespace heddle::test {
namespace {

using Setting = std::tuple<std::string, ggml_opt_optimizer_type>;

class CountingTest : public testing::TestWithParam<Setting> {
protected:
    const std::string& device() const { return std::get<0>(GetParam()); }
    ggml_opt_optimizer_type optimizer() const { return std::get<1>(GetParam()); }
    bool is_adamw() const { return optimizer() == GGML_OPT_OPTIMIZER_TYPE_ADAMW; }
};

TEST_P(CountingTest, GradientsAddUpUntilTheyAreReset) {
    Counting c(device());
    ggml_opt_params params = c.params(optimizer());
    params.opt_period = 999999;
    const TrainingPtr training(ggml_opt_init(params));
    ggml_tensor* sum = ggml_opt_grad_acc(training.get(), c.weight);
    ASSERT_NE(sum, nullptr);
    EXPECT_EQ(ggml_opt_grad_acc(training.get(), c.inputs), nullptr);
    for (std::int64_t i = 0; i < kPoints; ++i) {
        evaluate(c, training.get(), true, i);
        EXPECT_EQ(float_of(sum), static_cast<float>(i + 1));
    }
    ggml_opt_reset(training.get(), false);
    EXPECT_EQ(float_of(sum), 0);
    evaluate(c, training.get(), true, 0);
    EXPECT_EQ(float_of(sum), 1);
    EXPECT_EQ(c.weight_now(), 3);
}

TEST_P(CountingTest, ForwardEvaluationsLeaveTheWeightsAlone) {
    Counting c(device());
    const TrainingPtr training(ggml_opt_init(c.params(optimizer())));
    EXPECT_EQ(ggml_opt_context_optimizer_type(training.get()), optimizer());
    EXPECT_TRUE(ggml_opt_static_graphs(training.get()));
    EXPECT_EQ(ggml_opt_inputs(training.get()), c.inputs);
    EXPECT_EQ(ggml_opt_outputs(training.get()), c.outputs);
    EXPECT_EQ(ggml_opt_labels(training.get()), nullptr);
    EXPECT_EQ(ggml_opt_pred(training.get()), nullptr);
    EXPECT_EQ(ggml_opt_ncorrect(training.get()), nullptr);
    const ResultPtr result = make_result();
    EXPECT_EQ(points_of(result), 0);
    EXPECT_EQ(loss_of(result).value, 0);
    EXPECT_TRUE(std::isnan(loss_of(result).uncertainty));
    EXPECT_TRUE(std::isnan(accuracy_of(result).value));
    for (std::int64_t i = 0; i < kPoints; ++i) {
        evaluate(c, training.get(), false, i, result.get());
        EXPECT_EQ(float_of(ggml_opt_loss(training.get())), static_cast<float>(i + 3));
    }
    EXPECT_EQ(c.weight_now(), 3);
    EXPECT_EQ(points_of(result), kPoints);
    EXPECT_EQ(loss_of(result).value, 33);
    EXPECT_NEAR(loss_of(result).uncertainty, std::sqrt(3.5), 1e-12);
    EXPECT_TRUE(std::isnan(accuracy_of(result).value));
    EXPECT_EQ(c.outputs->buffer, nullptr);  // the model itself never gets memory
}

TEST_P(CountingTest, StepsGoOnAfterForwardEvaluationsAndResets) {
    Counting c(device());
    const TrainingPtr training(ggml_opt_init(c.params(optimizer())));
    for (int i = 0; i < 10; ++i) evaluate(c, training.get(), true, 0);
    EXPECT_EQ(c.weight_now(), -7);
    evaluate(c, training.get(), false, 0);
    set_floats(c.weight, {3});
    ggml_opt_reset(training.get(), false);
    const ResultPtr result = make_result();
    for (std::int64_t i = 0; i < kPoints; ++i) {
        evaluate(c, training.get(), true, i, result.get());
        EXPECT_EQ(c.weight_now(), static_cast<float>(2 - i));
    }
    EXPECT_EQ(loss_of(result).value, 18);
    EXPECT_EQ(loss_of(result).uncertainty, 0);
    ggml_opt_result_reset(result.get());
    EXPECT_EQ(points_of(result), 0);
}

TEST_P(CountingTest, FittingIsTheSameAsEpochsByHand) {
    const auto by_hand = [&] {
        Counting c(device());
        const TrainingPtr training(ggml_opt_init(c.params(optimizer())));
        const ResultPtr result = make_result();
        ggml_opt_dataset_shuffle(training.get(), c.dataset.get(), -1);
        ggml_opt_dataset_shuffle(training.get(), c.dataset.get(), kPoints);
        ggml_opt_epoch(training.get(), c.dataset.get(), result.get(), nullptr, -1, nullptr,
                       nullptr);
        return c.weight_now();
    };
    const auto fitted = [&] {
        Counting c(device());
        ggml_opt_fit(c.rig.scheduler(), c.rig.compute(), c.inputs, c.outputs, c.dataset.get(),
                     GGML_OPT_LOSS_TYPE_SUM, optimizer(), plain_steps, 1, 1, 0, true);
        return c.weight_now();
    };
    EXPECT_EQ(by_hand(), -3);
    EXPECT_EQ(fitted(), -3);
}

TEST_P(CountingTest, PointsBehindTheSplitAreOnlyEvaluated) {
    Counting c(device());
    const TrainingPtr training(ggml_opt_init(c.params(optimizer())));
    const ResultPtr trained = make_result(), evaluated = make_result();
    for (int epoch = 1; epoch <= 4; ++epoch) {
        ggml_opt_epoch(training.get(), c.dataset.get(), trained.get(), evaluated.get(), 4, nullptr,
                       nullptr);
        EXPECT_EQ(c.weight_now(), static_cast<float>(3 - epoch * 4));
        EXPECT_EQ(points_of(trained), 4);
        EXPECT_EQ(points_of(evaluated), 2);
        // Weight and point move against each other: all losses of an epoch are equal.
        EXPECT_EQ(loss_of(trained).value, 28 - epoch * 16);
        EXPECT_EQ(loss_of(trained).uncertainty, 0);
        EXPECT_EQ(loss_of(evaluated).value, 15 - epoch * 8);
        EXPECT_NEAR(loss_of(evaluated).uncertainty, std::sqrt(0.5), 1e-12);
        ggml_opt_result_reset(trained.get());
        ggml_opt_result_reset(evaluated.get());
    }
}

TEST_P(CountingTest, GradientsOfAPeriodMakeOneStep) {
    for (const std::int64_t batch : {1, 2}) {
        for (const auto loss : {GGML_OPT_LOSS_TYPE_SUM, GGML_OPT_LOSS_TYPE_MEAN}) {
            Counting c(device(), batch);
            const auto period = static_cast<std::int32_t>(kPoints / batch);
            ggml_opt_params params = c.params(optimizer(), loss);
            params.opt_period = period;
            const TrainingPtr training(ggml_opt_init(params));
            ggml_tensor* sum = ggml_opt_grad_acc(training.get(), c.weight);
            const ResultPtr result = make_result();
            const float share = loss == GGML_OPT_LOSS_TYPE_SUM ? static_cast<float>(batch)
                                                               : 1.0F / static_cast<float>(period);
            const float step = is_adamw() ? 1 : share * static_cast<float>(period);
            for (int epoch = 0; epoch < 3; ++epoch) {
                const float before = c.weight_now();
                for (std::int32_t i = 0; i < period; ++i) {
                    EXPECT_EQ(c.weight_now(), before);
                    evaluate(c, training.get(), true, i, result.get());
                    // It can still be read after the step.
                    EXPECT_NEAR(float_of(sum), share * static_cast<float>(i + 1), 1e-6);
                }
                EXPECT_NEAR(c.weight_now(), before - step, 1e-6);
            }
            EXPECT_EQ(points_of(result), 3 * period * batch);
            if (loss == GGML_OPT_LOSS_TYPE_SUM) continue;
            // The mean over a period, however it is cut: 2.5 + w, with w = 3, 2, 1.
            EXPECT_NEAR(loss_of(result).value, 4.5, 1e-5);
        }
    }
}

TEST_P(CountingTest, GradientsAloneCanBeHad) {
    Counting c(device());
    ggml_opt_params params = c.params(optimizer());
    params.build_type = GGML_OPT_BUILD_TYPE_GRAD;
    params.opt_period = 3;
    const TrainingPtr training(ggml_opt_init(params));
    for (const float expected : {1.0F, 2.0F, 3.0F, 1.0F}) {
        evaluate(c, training.get(), true, 0);
        EXPECT_EQ(float_of(ggml_opt_grad_acc(training.get(), c.weight)), expected);
    }
    EXPECT_EQ(c.weight_now(), 3);
}

INSTANTIATE_TEST_SUITE_P(All, CountingTest,
                         testing::Combine(testing::Values("CPU", "sim:"),
                                          testing::Values(GGML_OPT_OPTIMIZER_TYPE_ADAMW,
                                                          GGML_OPT_OPTIMIZER_TYPE_SGD)));

// ---- callbacks ---------------------------------------------------------------------------------

struct Heard {
    std::vector<std::string> lines;
    std::int64_t epoch = 0;
};
Heard heard;

void listen(bool train, ggml_opt_context_t training, ggml_opt_dataset_t dataset,
            ggml_opt_result_t result, std::int64_t batch, std::int64_t batches,
            std::int64_t start) {
    EXPECT_NE(training, nullptr);
    EXPECT_NE(dataset, nullptr);
    EXPECT_NE(result, nullptr);
    EXPECT_LE(start, ggml_time_us());
    EXPECT_LT(ggml_time_us() - start, 60'000'000);
    heard.lines.push_back((train ? "train " : "val ") + std::to_string(batch) + "/" +
                          std::to_string(batches));
}

TEST(Epoch, TellsAfterEachBatch) {
    Counting c("CPU");
    heard = {};
    const TrainingPtr training(ggml_opt_init(c.params(GGML_OPT_OPTIMIZER_TYPE_SGD)));
    const ResultPtr trained = make_result(), evaluated = make_result();
    ggml_opt_epoch(training.get(), c.dataset.get(), trained.get(), evaluated.get(), 4, listen,
                   listen);
    EXPECT_EQ(heard.lines, (std::vector<std::string>{"train 1/4", "train 2/4", "train 3/4",
                                                     "train 4/4", "val 1/2", "val 2/2"}));
}

ggml_opt_optimizer_params note_epoch(void* userdata) {
    heard.epoch = *static_cast<std::int64_t*>(userdata);
    return plain_steps(nullptr);
}

TEST(Fit, TellsTheEpochAndDrawsABar) {
    Counting c("CPU", 2);
    heard = {};
    testing::internal::CaptureStderr();
    ggml_opt_fit(c.rig.scheduler(), c.rig.compute(), c.inputs, c.outputs, c.dataset.get(),
                 GGML_OPT_LOSS_TYPE_MEAN, GGML_OPT_OPTIMIZER_TYPE_SGD, note_epoch, 3, 2, 0.34F,
                 false);
    const std::string drawn = testing::internal::GetCapturedStderr();
    EXPECT_EQ(heard.epoch, 3);
    EXPECT_NE(drawn.find("ggml_opt_fit: epoch 0003/0003:\n"), std::string::npos) << drawn;
    EXPECT_NE(drawn.find("train: [████████] data=0000002/0000002 loss="), std::string::npos)
        << drawn;
    EXPECT_NE(drawn.find("val:   [████    ] data=0000002/0000004 loss="), std::string::npos)
        << drawn;
    EXPECT_NE(drawn.find("acc=nan"), std::string::npos) << drawn;
    EXPECT_NE(drawn.find("t=00:00:00 ETA=00:00:00 \r"), std::string::npos) << drawn;
    EXPECT_NE(drawn.find("training took 00:00:00\n"), std::string::npos) << drawn;
}

TEST(Fit, IsQuietWhenAsked) {
    Counting c("CPU");
    testing::internal::CaptureStderr();
    ggml_opt_fit(c.rig.scheduler(), c.rig.compute(), c.inputs, c.outputs, c.dataset.get(),
                 GGML_OPT_LOSS_TYPE_SUM, GGML_OPT_OPTIMIZER_TYPE_SGD, plain_steps, 2, 3, 0.5F,
                 true);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(c.weight_now(), 3 - 2 * 3);  // two epochs of one step with three points
}

}  // namespace
}  // namespace heddle::test
