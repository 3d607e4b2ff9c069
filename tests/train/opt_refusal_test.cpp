// What cannot be trained is told in a sentence that names it, and the training goes on.
#include <limits>

#include "heddle/sim.h"
#include "opt_net.hpp"

namespace heddle::test {
namespace {

class OptRefusals : public testing::Test {
protected:
    ReturnErrors mode;

    static std::string refusal(const ggml_opt_params& params) {
        heddle_clear_error();
        const TrainingPtr made(ggml_opt_init(params));
        EXPECT_EQ(made == nullptr, *heddle_last_error() != '\0');
        return heddle_last_error();
    }

    template <class Body>
    static std::string said(Body body) {
        heddle_clear_error();
        body();
        return heddle_last_error();
    }
};

TEST_F(OptRefusals, ParametersThatMakeNoSense) {
    const Counting c("CPU");
    const ggml_opt_params good = c.params(GGML_OPT_OPTIMIZER_TYPE_SGD);
    const auto with = [&](auto change) {
        ggml_opt_params params = good;
        change(params);
        return refusal(params);
    };
    EXPECT_EQ(with([](auto&) {}), "");
    EXPECT_EQ(with([](auto& p) { p.backend_sched = nullptr; }), "training: the scheduler is NULL");
    EXPECT_EQ(with([](auto& p) { p.opt_period = 0; }),
              "training: a period of 0 batches, not 1 or more");
    EXPECT_EQ(with([](auto& p) { p.loss_type = static_cast<ggml_opt_loss_type>(9); }),
              "training: there is no loss number 9");
    EXPECT_EQ(with([](auto& p) { p.build_type = static_cast<ggml_opt_build_type>(11); }),
              "training: there is no build type 11");
    EXPECT_EQ(with([](auto& p) { p.optimizer = GGML_OPT_OPTIMIZER_TYPE_COUNT; }),
              "training: there is no optimiser number 2");
    EXPECT_EQ(with([](auto& p) { p.get_opt_pars = nullptr; }),
              "training: there is no function that gives the parameters of the optimiser");
    EXPECT_EQ(with([](auto& p) { p.outputs = nullptr; }), "training: a fixed model has no outputs");
    EXPECT_EQ(with([](auto& p) { p.inputs = nullptr; }), "training: a fixed model has no inputs");
    EXPECT_EQ(with([](auto& p) { p.ctx_compute = nullptr; }),
              "training: inputs and outputs are given without the context of a fixed model; models "
              "that change are given for each evaluation");
}

TEST_F(OptRefusals, ModelsThatCannotBeTrained) {
    const Counting c("CPU");
    ggml_context* context = c.rig.compute();
    ggml_opt_params params = c.params(GGML_OPT_OPTIMIZER_TYPE_SGD);
    const auto with = [&](ggml_tensor* outputs) {
        ggml_set_name(outputs, "y");
        params.outputs = outputs;
        return refusal(params);
    };
    ggml_tensor* sum = ggml_add(context, c.inputs, c.weight);
    EXPECT_EQ(with(ggml_tanh(context, sum)),
              "no gradient rule for op TANH at node 'y' f32[1,1,1,1]");
    EXPECT_EQ(with(ggml_cast(context, sum, GGML_TYPE_F16)),
              "training: the loss 'loss_sum' f16[1,1,1,1] of the outputs 'y' f16[1,1,1,1] is not a "
              "single f32");
    EXPECT_EQ(with(ggml_scale(context, c.inputs, 2)),
              "backward graph: none of the 2 nodes is a parameter");
    ggml_tensor* homeless = ggml_new_tensor_1d(context, GGML_TYPE_F32, 1);
    ggml_set_param(homeless);
    ggml_set_name(homeless, "homeless");
    EXPECT_EQ(with(ggml_add(context, c.inputs, homeless)),
              "training: the parameter 'homeless' f32[1,1,1,1] has no memory");
    ggml_tensor* marked = ggml_sum(context, sum);
    ggml_set_name(marked, "mine");
    ggml_set_loss(marked);
    EXPECT_EQ(with(ggml_scale(context, marked, 2)),
              "training: node 'mine' f32[1,1,1,1] is marked as a loss already; the training makes "
              "its own");
    params.loss_type = GGML_OPT_LOSS_TYPE_CROSS_ENTROPY;
    ggml_tensor* cube = ggml_repeat_4d(context, sum, 2, 2, 2, 1);
    EXPECT_NE(with(cube).find("'y' f32[2,2,2,1]"), std::string::npos) << heddle_last_error();
    EXPECT_EQ(c.weight_now(), 3);
}

TEST_F(OptRefusals, StepsOutOfOrder) {
    Counting c("CPU");
    ggml_opt_params params = c.params(GGML_OPT_OPTIMIZER_TYPE_SGD);
    const TrainingPtr training(ggml_opt_init(params));
    EXPECT_EQ(said([&] { ggml_opt_eval(training.get(), nullptr); }),
              "training: nothing is allocated to be evaluated");
    ggml_opt_alloc(training.get(), true);
    EXPECT_EQ(said([&] { ggml_opt_alloc(training.get(), true); }),
              "training: what was allocated has not been evaluated yet");
    ggml_opt_dataset_get_batch(c.dataset.get(), c.inputs, nullptr, 0);
    EXPECT_EQ(said([&] { ggml_opt_eval(training.get(), nullptr); }), "");
    EXPECT_EQ(c.weight_now(), 2);
    ggml_cgraph* graph = ggml_new_graph(c.rig.compute());
    EXPECT_EQ(said([&] {
                  ggml_opt_prepare_alloc(training.get(), c.rig.compute(), graph, c.inputs,
                                         c.outputs);
              }),
              "training: the model is fixed and cannot be given anew");
    params.build_type = GGML_OPT_BUILD_TYPE_FORWARD;
    const TrainingPtr forward(ggml_opt_init(params));
    EXPECT_EQ(said([&] { ggml_opt_alloc(forward.get(), true); }),
              "training: gradients are wanted, but it was made for forward evaluations");
    EXPECT_EQ(said([&] { evaluate(c, forward.get(), false, 0); }), "");
    EXPECT_EQ(ggml_opt_grad_acc(forward.get(), c.weight), nullptr);
    params.ctx_compute = nullptr;
    params.inputs = params.outputs = nullptr;
    const TrainingPtr changing(ggml_opt_init(params));
    EXPECT_EQ(said([&] { ggml_opt_alloc(changing.get(), false); }),
              "training: no model was given for the next evaluation");
    EXPECT_EQ(said([&] {
                  ggml_opt_epoch(changing.get(), c.dataset.get(), nullptr, nullptr, -1, nullptr,
                                 nullptr);
              }),
              "epoch: the model is not fixed");
}

TEST_F(OptRefusals, NothingInPlaceOfAnObject) {
    EXPECT_EQ(said([] { ggml_opt_alloc(nullptr, true); }), "training: the training is NULL");
    EXPECT_EQ(said([] { ggml_opt_eval(nullptr, nullptr); }), "training: the training is NULL");
    EXPECT_EQ(said([] { ggml_opt_reset(nullptr, true); }), "training reset: the training is NULL");
    EXPECT_EQ(said([] { EXPECT_EQ(ggml_opt_loss(nullptr), nullptr); }),
              "training: the training is NULL");
    EXPECT_EQ(said([] { EXPECT_EQ(ggml_opt_dataset_data(nullptr), nullptr); }),
              "dataset: the dataset is NULL");
    EXPECT_EQ(said([] { ggml_opt_get_constant_optimizer_params(nullptr); }),
              "optimiser parameters: the user data is NULL");
    EXPECT_EQ(said([] {
                  ggml_opt_free(nullptr);
                  ggml_opt_dataset_free(nullptr);
                  ggml_opt_result_free(nullptr);
              }),
              "");
}

ggml_opt_optimizer_params chosen;
ggml_opt_optimizer_params choose(void*) { return chosen; }

TEST_F(OptRefusals, NumbersThatSteerTheOptimizerAwry) {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    chosen = plain_steps(nullptr);
    const auto check = [&](ggml_opt_optimizer_type optimizer, float& number, float value,
                           const std::string& sentence) {
        Counting c("CPU");
        ggml_opt_params params = c.params(optimizer);
        params.get_opt_pars = choose;
        const TrainingPtr training(ggml_opt_init(params));
        const float before = std::exchange(number, value);
        EXPECT_EQ(said([&] { evaluate(c, training.get(), true, 0); }), sentence);
        EXPECT_EQ(c.weight_now(), 3);
        number = before;
        // It is still allocated, and can be evaluated.
        EXPECT_EQ(said([&] { ggml_opt_eval(training.get(), nullptr); }), "");
        EXPECT_EQ(c.weight_now(), 2);
    };
    const auto adamw = GGML_OPT_OPTIMIZER_TYPE_ADAMW, sgd = GGML_OPT_OPTIMIZER_TYPE_SGD;
    check(adamw, chosen.adamw.alpha, 0, "adamw: alpha 0 is not above 0");
    check(adamw, chosen.adamw.beta1, 1.5F, "adamw: beta1 1.5 is not between 0 and 1");
    check(adamw, chosen.adamw.beta2, nan, "adamw: beta2 nan is not between 0 and 1");
    check(adamw, chosen.adamw.eps, -1, "adamw: eps -1 is not 0 or more");
    check(adamw, chosen.adamw.wd, -0.5F, "adamw: wd -0.5 is not between 0 and 1");
    check(sgd, chosen.sgd.alpha, -1, "sgd: alpha -1 is not above 0");
    check(sgd, chosen.sgd.wd, 2, "sgd: wd 2 is not between 0 and 1");
}

TEST_F(OptRefusals, DatasetsThatDoNotFitTheModel) {
    Counting c("CPU", 2);
    const TrainingPtr training(ggml_opt_init(c.params(GGML_OPT_OPTIMIZER_TYPE_SGD)));
    const auto epoch = [&](std::int64_t numbers, std::int64_t label, std::int64_t points,
                           std::int64_t shard, std::int64_t split = -1) {
        const DatasetPtr dataset(
            ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, numbers, label, points, shard));
        return said([&] {
            ggml_opt_epoch(training.get(), dataset.get(), nullptr, nullptr, split, nullptr,
                           nullptr);
        });
    };
    EXPECT_EQ(epoch(2, 0, 4, 1),
              "epoch: points of 2 numbers do not fit the inputs 'inputs' f32[1,2,1,1]");
    EXPECT_EQ(epoch(1, 0, 5, 1),
              "epoch: 5 points are not a whole number of batches of 2 for the inputs 'inputs' "
              "f32[1,2,1,1]");
    EXPECT_EQ(epoch(1, 1, 4, 1),
              "epoch: batch: the dataset has labels, and nowhere to put them is given");
    EXPECT_EQ(epoch(1, 0, 6, 3),
              "epoch: batch: 8 bytes are not a whole number of shards of 12 bytes");
    EXPECT_EQ(epoch(1, 0, 4, 1, 3), "epoch: a split at point 3 of 4 is not between batches of 2");
    EXPECT_EQ(epoch(1, 0, 4, 1, 6), "epoch: a split at point 6 of 4 is not between batches of 2");
    EXPECT_EQ(c.weight_now(), 3);
    const auto fit = [&](std::int64_t batch, float share) {
        return said([&] {
            ggml_opt_fit(c.rig.scheduler(), c.rig.compute(), c.inputs, c.outputs, c.dataset.get(),
                         GGML_OPT_LOSS_TYPE_SUM, GGML_OPT_OPTIMIZER_TYPE_SGD, plain_steps, 1, batch,
                         share, true);
        });
    };
    EXPECT_EQ(fit(4, 0), "fit: 6 points are not a whole number of batches of 4");
    EXPECT_EQ(fit(0, 0), "fit: 6 points are not a whole number of batches of 0");
    EXPECT_EQ(fit(3, 0),
              "fit: batches of 3 points are not a whole number of those of 2 that the inputs "
              "'inputs' f32[1,2,1,1] hold");
    EXPECT_EQ(fit(2, 1), "fit: a validation share of 1 is not between 0 and below 1");
    EXPECT_EQ(c.weight_now(), 3);
    EXPECT_EQ(fit(2, 0), "");
    EXPECT_EQ(c.weight_now(), -3);
}

TEST_F(OptRefusals, ResultsOfDifferentTrainings) {
    Counting one("CPU", 1), two("CPU", 2);
    const auto sgd = GGML_OPT_OPTIMIZER_TYPE_SGD;
    const TrainingPtr first(ggml_opt_init(one.params(sgd)));
    const TrainingPtr second(ggml_opt_init(two.params(sgd)));
    const TrainingPtr third(ggml_opt_init(one.params(sgd, GGML_OPT_LOSS_TYPE_MEAN)));
    const ResultPtr result = make_result();
    evaluate(one, first.get(), true, 0, result.get());
    EXPECT_EQ(
        said([&] { evaluate(two, second.get(), true, 0, result.get()); }),
        "result: batches of 1 points so far, now one of 2: a varying batch size has no common "
        "mean");
    EXPECT_EQ(two.weight_now(), 3);  // nothing was evaluated
    EXPECT_EQ(said([&] { ggml_opt_eval(second.get(), nullptr); }), "");
    EXPECT_EQ(said([&] { evaluate(one, third.get(), true, 0, result.get()); }),
              "result: losses are sums so far, now there is a mean");
    ggml_opt_result_reset(result.get());
    EXPECT_EQ(said([&] { ggml_opt_eval(third.get(), result.get()); }), "");
    EXPECT_EQ(points_of(result), 1);
}

// ---- going on ----------------------------------------------------------------------------------

/// Gives a model whose op has no gradient, and expects to hear of it.
void offer_bad_model(Net& net, ggml_opt_context_t training) {
    const ggml_context_ptr context(
        ggml_init({.mem_size = 64 * ggml_tensor_overhead() + ggml_graph_overhead_custom(64, false),
                   .mem_buffer = nullptr,
                   .no_alloc = true}));
    ggml_tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kFeatures, net.batch());
    ggml_tensor* y = ggml_tanh(context.get(), net.outputs_in(context.get(), x));
    ggml_set_name(y, "bad");
    ggml_cgraph* graph = ggml_new_graph_custom(context.get(), 64, false);
    ggml_build_forward_expand(graph, y);
    ggml_opt_prepare_alloc(training, context.get(), graph, x, y);
    heddle_clear_error();
    ggml_opt_alloc(training, true);
    EXPECT_STREQ(heddle_last_error(), "no gradient rule for op TANH at node 'bad' f32[3,16,1,1]");
}

TEST_F(OptRefusals, AModelWithoutGradientDoesNotDisturbTheTraining) {
    const auto weights = [](bool disturbed) {
        Net net("CPU", 16);
        ggml_opt_params params = net.params(GGML_OPT_OPTIMIZER_TYPE_ADAMW, 2);
        params.ctx_compute = nullptr;
        params.inputs = params.outputs = nullptr;
        const TrainingPtr training(ggml_opt_init(params));
        for (std::int64_t i = 0; i < 6; ++i) {
            if (disturbed) offer_bad_model(net, training.get());
            evaluate_once(net, training.get(), true, i, nullptr);
        }
        return net.weights();
    };
    EXPECT_EQ(weights(true), weights(false));
}

/// Tells the simulated device of `rig` what is to go wrong.
void plan_failure(const Rig& rig, const char* plan) {
    ggml_backend_dev_t device = ggml_backend_get_device(rig.first());
    const auto fail = reinterpret_cast<heddle_sim_fail_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "heddle_sim_fail"));
    ASSERT_TRUE(fail(device, plan)) << heddle_last_error();
}

TEST_F(OptRefusals, ADeviceThatFailsIsSurvived) {
    // What the host holds survives: weights and state are there, the device only computes.
    Net net("sim:", 48, {false, false, true});
    const TrainingPtr training(ggml_opt_init(net.params()));
    const ResultPtr first = make_result(), last = make_result();
    const auto epoch = [&](ggml_opt_result_t result) {
        return said([&] {
            ggml_opt_epoch(training.get(), net.dataset.get(), result, nullptr, -1, nullptr,
                           nullptr);
        });
    };
    EXPECT_EQ(epoch(first.get()), "");
    plan_failure(net.rig, "node=3");
    const std::string sentence = epoch(nullptr);
    plan_failure(net.rig, nullptr);
    EXPECT_NE(sentence, "");
    for (int i = 0; i < 20; ++i) EXPECT_EQ(epoch(nullptr), "");
    EXPECT_EQ(epoch(last.get()), "");
    EXPECT_LT(loss_of(last).value, loss_of(first).value);
}

TEST(OptMemory, ADeviceWithoutRoomDoesNotStopTheProgram) {
    Counting c("sim:");
    const ggml_opt_params params = c.params(GGML_OPT_OPTIMIZER_TYPE_ADAMW);
    // The start of gradients, results, and moments.
    for (const char* plan : {"alloc=1", "alloc=2", "alloc=3"}) {
        plan_failure(c.rig, plan);
        heddle_clear_error();
        const TrainingPtr refused(ggml_opt_init(params));
        EXPECT_EQ(refused, nullptr) << plan;
        EXPECT_STRNE(heddle_last_error(), "") << plan;
    }
    plan_failure(c.rig, nullptr);
    const TrainingPtr training(ggml_opt_init(params));
    ASSERT_NE(training, nullptr);
    evaluate(c, training.get(), true, 0);
    EXPECT_EQ(c.weight_now(), 2);
}

TEST(OptDeathTest, StopsTheProgramByDefault) {
    Counting c("CPU");
    const TrainingPtr training(ggml_opt_init(c.params(GGML_OPT_OPTIMIZER_TYPE_SGD)));
    EXPECT_DEATH(ggml_opt_eval(training.get(), nullptr),
                 "training: nothing is allocated to be evaluated");
    EXPECT_DEATH(ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, 0, 0, 1, 1),
                 "dataset: points of 0 numbers");
}

}  // namespace
}  // namespace heddle::test
