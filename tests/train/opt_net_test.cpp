// Training of a small net: the same weights whichever way it is done, wherever they are.
#include "opt_net.hpp"

#include <cmath>

namespace heddle::test {
namespace {

constexpr std::int64_t kBatch = 16;

struct Way {
    const char* name;
    std::string device = "CPU";
    NetPlaces places = {};

    friend void PrintTo(const Way& self, std::ostream* out) { *out << self.name; }
};

/// Three epochs with four batches for training and two for evaluation.
constexpr std::int64_t kEpochs = 3, kSplit = 4 * kBatch;

void shuffle_before_epoch(Net& net, ggml_opt_context_t training, int epoch) {
    if (epoch == 0) ggml_opt_dataset_shuffle(training, net.dataset.get(), -1);
    ggml_opt_dataset_shuffle(training, net.dataset.get(), kSplit);
}

std::vector<float> fit(Net& net, ggml_opt_optimizer_type optimizer, std::int32_t period) {
    constexpr float share = 0.33F;  // a little less than a third: whole periods are for training
    ggml_opt_fit(net.rig.scheduler(), net.rig.compute(), net.inputs, net.outputs, net.dataset.get(),
                 GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, optimizer, ggml_opt_get_default_optimizer_params,
                 kEpochs, kBatch * period, share, true);
    return net.weights();
}

std::vector<float> run_epochs(Net& net, ggml_opt_optimizer_type optimizer, std::int32_t period) {
    const TrainingPtr training(ggml_opt_init(net.params(optimizer, period)));
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        shuffle_before_epoch(net, training.get(), epoch);
        ggml_opt_epoch(training.get(), net.dataset.get(), nullptr, nullptr, kSplit, nullptr,
                       nullptr);
    }
    return net.weights();
}

/// Batch by batch; with `fixed`, the model is made once.
std::vector<float> run_batches(Net& net, ggml_opt_optimizer_type optimizer, std::int32_t period,
                               bool fixed) {
    ggml_opt_params params = net.params(optimizer, period);
    if (!fixed) {
        params.ctx_compute = nullptr;
        params.inputs = params.outputs = nullptr;
    }
    const TrainingPtr training(ggml_opt_init(params));
    EXPECT_EQ(ggml_opt_static_graphs(training.get()), fixed);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        shuffle_before_epoch(net, training.get(), epoch);
        for (std::int64_t i = 0; i < kExamples / kBatch; ++i) {
            const bool train = i * kBatch < kSplit;
            if (!fixed) {
                evaluate_once(net, training.get(), train, i, nullptr);
                continue;
            }
            ggml_opt_alloc(training.get(), train);
            ggml_opt_dataset_get_batch(net.dataset.get(), net.inputs,
                                       ggml_opt_labels(training.get()), i);
            ggml_opt_eval(training.get(), nullptr);
        }
    }
    return net.weights();
}

class NetTest : public testing::TestWithParam<
                    std::tuple<std::string, ggml_opt_optimizer_type, std::int32_t>> {};

TEST_P(NetTest, AllWaysToTrainGiveTheSameBits) {
    const auto& [device, optimizer, period] = GetParam();
    Net one(device, kBatch), two(device, kBatch), three(device, kBatch), four(device, kBatch);
    const auto before = one.weights();
    const auto fitted = fit(one, optimizer, period);
    EXPECT_NE(fitted, before);
    EXPECT_EQ(run_epochs(two, optimizer, period), fitted);
    EXPECT_EQ(run_batches(three, optimizer, period, true), fitted);
    EXPECT_EQ(run_batches(four, optimizer, period, false), fitted);
}

INSTANTIATE_TEST_SUITE_P(All, NetTest,
                         testing::Combine(testing::Values("CPU", "sim:"),
                                          testing::Values(GGML_OPT_OPTIMIZER_TYPE_ADAMW,
                                                          GGML_OPT_OPTIMIZER_TYPE_SGD),
                                          testing::Values(1, 2)));

/// Four batches with weights that are then put back, and four more.
std::vector<float> train_twice(std::int32_t period, bool first, bool reset) {
    Net net("CPU", kBatch);
    const TrainingPtr training(ggml_opt_init(net.params(GGML_OPT_OPTIMIZER_TYPE_ADAMW, period)));
    const auto train = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            ggml_opt_alloc(training.get(), true);
            ggml_opt_dataset_get_batch(net.dataset.get(), net.inputs,
                                       ggml_opt_labels(training.get()), i);
            ggml_opt_eval(training.get(), nullptr);
        }
    };
    std::vector<std::vector<float>> before;
    for (const ggml_tensor* parameter : net.parameters) before.push_back(floats_of(parameter));
    if (first) train(2, 6);
    if (reset) ggml_opt_reset(training.get(), true);
    for (std::size_t i = 0; i < before.size(); ++i) set_floats(net.parameters[i], before[i]);
    train(0, 4);
    return net.weights();
}

TEST(NetReset, OfTheOptimizerStartsItAnew) {
    for (const std::int32_t period : {1, 2}) {
        const auto fresh = train_twice(period, false, false);
        EXPECT_EQ(train_twice(period, true, true), fresh);
        EXPECT_NE(train_twice(period, true, false), fresh);
    }
}

// ---- devices -----------------------------------------------------------------------------------

class NetPlacesTest : public testing::TestWithParam<Way> {};

TEST_P(NetPlacesTest, WeightsLearnTheSameWhereverTheyAre) {
    const Way& way = GetParam();
    for (const auto optimizer : {GGML_OPT_OPTIMIZER_TYPE_ADAMW, GGML_OPT_OPTIMIZER_TYPE_SGD}) {
        for (const std::int32_t period : {1, 2}) {
            Net here("CPU", kBatch), there(way.device, kBatch, way.places);
            const auto expected = fit(here, optimizer, period);
            const auto learned = fit(there, optimizer, period);
            ASSERT_EQ(learned.size(), expected.size());
            for (std::size_t i = 0; i < expected.size(); ++i) {
                EXPECT_NEAR(learned[i], expected[i], 1e-5) << i;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, NetPlacesTest,
    testing::Values(Way{"OneDevice", "sim:", {}},
                    Way{"FirstLayerOnDevice", "sim:", {true, false, false}},
                    Way{"SecondLayerOnDevice", "sim:", {false, true, true}},
                    Way{"AllOnHost", "sim:", {false, false, true}},
                    // Steps are computed by the processor and copied back.
                    Way{"DeviceWithoutSteps", "sim:ops=all,-OPT_STEP_ADAMW,-OPT_STEP_SGD", {}},
                    Way{"DeviceWithoutLoss",
                        "sim:ops=all,-CROSS_ENTROPY_LOSS,-ARGMAX,-COUNT_EQUAL,-ADD",
                        {true, false, true}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(NetOnHost, CopiesOfWeightsAreNotOlderThanTheWeights) {
    // The device takes products with weights of the host if there are enough rows, and keeps copies
    // of weights that no node of the graph writes.
    constexpr std::int64_t rows = 48;
    const auto losses = [](const std::string& device) {
        Net net(device, rows, {false, false, true});
        const TrainingPtr training(ggml_opt_init(net.params()));
        std::vector<double> found;
        for (int i = 0; i < 3; ++i) {
            const ResultPtr evaluated = make_result();
            ggml_opt_epoch(training.get(), net.dataset.get(), nullptr, evaluated.get(), 0, nullptr,
                           nullptr);
            found.push_back(loss_of(evaluated).value);
            ggml_opt_epoch(training.get(), net.dataset.get(), nullptr, nullptr, -1, nullptr,
                           nullptr);
        }
        return found;
    };
    const auto expected = losses("CPU"), found = losses("sim:offload=1");
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
    EXPECT_NE(found[0], found[1]);
    EXPECT_NE(found[1], found[2]);
}

// ---- results -----------------------------------------------------------------------------------

ggml_opt_optimizer_params quick(void*) {
    ggml_opt_optimizer_params params = ggml_opt_get_default_optimizer_params(nullptr);
    params.adamw.alpha = 0.02F;
    return params;
}

TEST(NetResults, CountWhatWasRight) {
    Net net("CPU", kBatch);
    ggml_opt_params params = net.params();
    params.get_opt_pars = quick;
    const TrainingPtr training(ggml_opt_init(params));
    const ResultPtr first = make_result(), last = make_result();
    ggml_opt_epoch(training.get(), net.dataset.get(), nullptr, first.get(), 0, nullptr, nullptr);
    for (int epoch = 0; epoch < 60; ++epoch) {
        ggml_opt_epoch(training.get(), net.dataset.get(), nullptr, nullptr, -1, nullptr, nullptr);
    }
    ggml_opt_epoch(training.get(), net.dataset.get(), nullptr, last.get(), 0, nullptr, nullptr);
    EXPECT_LT(loss_of(last).value, 0.3 * loss_of(first).value);
    EXPECT_GT(accuracy_of(last).value, 0.95);

    std::vector<std::int32_t> predictions(kExamples);
    ggml_opt_result_pred(last.get(), predictions.data());
    const auto labels = floats_of(ggml_opt_dataset_labels(net.dataset.get()));
    double right = 0;
    for (std::size_t i = 0; i < predictions.size(); ++i) {
        right += labels[i * std::size_t(kClasses) + std::size_t(predictions[i])];
    }
    const double share = right / double(kExamples);
    EXPECT_DOUBLE_EQ(accuracy_of(last).value, share);
    EXPECT_DOUBLE_EQ(accuracy_of(last).uncertainty,
                     std::sqrt(share * (1 - share) / double(kExamples - 1)));
    EXPECT_EQ(points_of(last), kExamples);
    EXPECT_EQ(ggml_opt_pred(training.get())->ne[0], kBatch);
    EXPECT_EQ(ggml_opt_ncorrect(training.get())->type, GGML_TYPE_I64);
    EXPECT_STREQ(ggml_opt_loss(training.get())->name, "loss_cross_entropy");
    EXPECT_STREQ(ggml_opt_labels(training.get())->name, "labels");
}

// ---- many nodes --------------------------------------------------------------------------------

TEST(LongModels, NeedNoLargerContextThanTheirOwnNodes) {
    constexpr int length = 3000;
    Rig rig("CPU");
    ggml_tensor* weight = rig.parameter("weight", 1);
    ggml_tensor* inputs = rig.input(1, 1);
    rig.allocate_store();
    set_floats(weight, {2});
    const ggml_context_ptr context(ggml_init({.mem_size = (length + 1) * ggml_tensor_overhead(),
                                              .mem_buffer = nullptr,
                                              .no_alloc = true}));
    ggml_tensor* y = ggml_add(context.get(), inputs, weight);
    for (int i = 0; i < length; ++i) y = ggml_scale(context.get(), y, i % 2 == 0 ? 2.0F : 0.5F);
    ggml_opt_params params = ggml_opt_default_params(rig.scheduler(), GGML_OPT_LOSS_TYPE_SUM);
    params.ctx_compute = context.get();
    params.inputs = inputs;
    params.outputs = y;
    params.optimizer = GGML_OPT_OPTIMIZER_TYPE_SGD;
    params.get_opt_pars = plain_steps;
    const TrainingPtr training(ggml_opt_init(params));
    ASSERT_NE(training, nullptr);
    ggml_opt_alloc(training.get(), true);
    set_floats(inputs, {1});
    ggml_opt_eval(training.get(), nullptr);
    EXPECT_EQ(float_of(ggml_opt_loss(training.get())), 3);
    EXPECT_EQ(float_of(weight), 1);
}

}  // namespace
}  // namespace heddle::test
