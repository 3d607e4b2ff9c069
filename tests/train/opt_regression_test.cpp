// Fits a line through noisy points.
#include <algorithm>
#include <cmath>

#include "test_support.hpp"

namespace heddle::test {
namespace {

constexpr std::int64_t kSamples = 200, kBatch = 20;
constexpr float kSlope = 1.2F, kOffset = 3.4F;

struct Settings {
    std::string device;
    ggml_opt_optimizer_type optimizer;
    bool fixed;
    std::int32_t period;
    bool shuffled;

    std::string name() const {
        return std::string(device == "CPU" ? "Cpu" : "Sim") + "_" +
               ggml_opt_optimizer_name(optimizer) + (fixed ? "_fixed" : "_new") + "_every" +
               std::to_string(period) + (shuffled ? "_shuffled" : "");
    }
    friend void PrintTo(const Settings& self, std::ostream* out) { *out << self.name(); }
};

ggml_opt_optimizer_params rates(void*) {
    ggml_opt_optimizer_params params = ggml_opt_get_default_optimizer_params(nullptr);
    params.adamw.alpha = 0.05F;
    params.sgd.alpha = 0.3F;
    return params;
}

/// y = a x + b over x in -1 .. 1.
class Line {
public:
    explicit Line(const std::string& device) : rig(device) {
        a = rig.parameter("a", 1);
        b = rig.parameter("b", 1);
        inputs = rig.input(1, kBatch);
        rig.allocate_store();
        set_floats(a, {0});
        set_floats(b, {0});
        outputs = outputs_in(rig.compute(), inputs);
        dataset.reset(ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, 1, 1, kSamples, 4));
        std::vector<float> x, y;
        for (std::int64_t i = 0; i < kSamples; ++i) {
            x.push_back(-1 + 2 * static_cast<float>(i) / static_cast<float>(kSamples - 1));
            // Noise without a trend: its sum, and that of its products with x, is close to 0.
            y.push_back(kSlope * x.back() + kOffset + (i % 4 == 0 || i % 4 == 3 ? 0.1F : -0.1F));
        }
        set_floats(ggml_opt_dataset_data(dataset.get()), x);
        set_floats(ggml_opt_dataset_labels(dataset.get()), y);
    }

    ggml_tensor* outputs_in(ggml_context* context, ggml_tensor* x) const {
        return ggml_add(context, ggml_mul(context, x, a), b);
    }

    ggml_opt_params params(const Settings& settings) const {
        ggml_opt_params made =
            ggml_opt_default_params(rig.scheduler(), GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR);
        if (settings.fixed) {
            made.ctx_compute = rig.compute();
            made.inputs = inputs;
            made.outputs = outputs;
        }
        made.get_opt_pars = rates;
        made.optimizer = settings.optimizer;
        made.opt_period = settings.period;
        return made;
    }

    Rig rig;
    ggml_tensor *a, *b, *inputs, *outputs;
    DatasetPtr dataset;
};

void run_epoch_of_new_models(Line& line, ggml_opt_context_t training, ggml_opt_result_t result) {
    for (std::int64_t i = 0; i < kSamples / kBatch; ++i) {
        ggml_reset(line.rig.compute());
        ggml_tensor* x = ggml_new_tensor_2d(line.rig.compute(), GGML_TYPE_F32, 1, kBatch);
        ggml_tensor* y = line.outputs_in(line.rig.compute(), x);
        ggml_cgraph* graph = ggml_new_graph(line.rig.compute());
        ggml_build_forward_expand(graph, y);
        ggml_opt_prepare_alloc(training, line.rig.compute(), graph, x, y);
        ggml_opt_alloc(training, true);
        ggml_opt_dataset_get_batch(line.dataset.get(), x, ggml_opt_labels(training), i);
        ggml_opt_eval(training, result);
    }
}

class Regression : public testing::TestWithParam<Settings> {};

TEST_P(Regression, FindsTheLine) {
    const Settings& settings = GetParam();
    Line line(settings.device);
    const TrainingPtr training(ggml_opt_init(line.params(settings)));
    const ResultPtr result = make_result();
    const int epochs = 30 * std::max(settings.period, 2);  // at least 300 steps
    for (int epoch = 0; epoch < epochs; ++epoch) {
        if (settings.shuffled) ggml_opt_dataset_shuffle(training.get(), line.dataset.get(), -1);
        ggml_opt_result_reset(result.get());
        if (settings.fixed) {
            ggml_opt_epoch(training.get(), line.dataset.get(), result.get(), nullptr, -1, nullptr,
                           nullptr);
        } else {
            run_epoch_of_new_models(line, training.get(), result.get());
        }
    }
    EXPECT_NEAR(float_of(line.a), kSlope, 2e-2);
    EXPECT_NEAR(float_of(line.b), kOffset, 2e-2);
    EXPECT_NEAR(loss_of(result).value, 0.01, 2e-3);  // what the noise leaves
    EXPECT_EQ(points_of(result), kSamples);
    EXPECT_TRUE(std::isnan(accuracy_of(result).value));
}

std::vector<Settings> all_settings() {
    std::vector<Settings> all;
    for (const char* device : {"CPU", "sim:"}) {
        for (const auto optimizer : {GGML_OPT_OPTIMIZER_TYPE_ADAMW, GGML_OPT_OPTIMIZER_TYPE_SGD}) {
            for (const bool fixed : {true, false}) {
                for (const std::int32_t period : {1, 2, 5}) {
                    for (const bool shuffled : {true, false}) {
                        all.push_back({device, optimizer, fixed, period, shuffled});
                    }
                }
            }
        }
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, Regression, testing::ValuesIn(all_settings()),
                         [](const auto& info) { return info.param.name(); });

TEST(Optimizers, HaveNamesAndUsualNumbers) {
    EXPECT_STREQ(ggml_opt_optimizer_name(GGML_OPT_OPTIMIZER_TYPE_ADAMW), "adamw");
    EXPECT_STREQ(ggml_opt_optimizer_name(GGML_OPT_OPTIMIZER_TYPE_SGD), "sgd");
    EXPECT_STREQ(ggml_opt_optimizer_name(GGML_OPT_OPTIMIZER_TYPE_COUNT), "undefined");
    const auto usual = ggml_opt_get_default_optimizer_params(nullptr);
    EXPECT_EQ(usual.adamw.alpha, 1e-3F);
    EXPECT_EQ(usual.adamw.beta1, 0.9F);
    EXPECT_EQ(usual.adamw.beta2, 0.999F);
    EXPECT_EQ(usual.adamw.eps, 1e-8F);
    EXPECT_EQ(usual.adamw.wd, 0);
    EXPECT_EQ(usual.sgd.alpha, 1e-3F);
    EXPECT_EQ(usual.sgd.wd, 0);
    ggml_opt_optimizer_params own = usual;
    own.sgd.alpha = 7;
    EXPECT_EQ(ggml_opt_get_constant_optimizer_params(&own).sgd.alpha, 7);
    const auto params = ggml_opt_default_params(nullptr, GGML_OPT_LOSS_TYPE_SUM);
    EXPECT_EQ(params.ctx_compute, nullptr);
    EXPECT_EQ(params.inputs, nullptr);
    EXPECT_EQ(params.outputs, nullptr);
    EXPECT_EQ(params.loss_type, GGML_OPT_LOSS_TYPE_SUM);
    EXPECT_EQ(params.build_type, GGML_OPT_BUILD_TYPE_OPT);
    EXPECT_EQ(params.opt_period, 1);
    EXPECT_EQ(params.get_opt_pars, ggml_opt_get_default_optimizer_params);
    EXPECT_EQ(params.optimizer, GGML_OPT_OPTIMIZER_TYPE_ADAMW);
}

/// AdamW by its formula, in double precision, for a weight with gradient `slope`.
double adamw_by_hand(double weight, double slope, int steps, double alpha, double decay) {
    double m = 0, v = 0;
    for (int i = 1; i <= steps; ++i) {
        m = 0.9 * m + 0.1 * slope;
        v = 0.999 * v + 0.001 * slope * slope;
        const double mean = m / (1 - std::pow(0.9, i)), square = v / (1 - std::pow(0.999, i));
        weight = weight * (1 - alpha * decay) - alpha * mean / (std::sqrt(square) + 1e-8);
    }
    return weight;
}

ggml_opt_optimizer_params with_decay(void*) {
    ggml_opt_optimizer_params params = ggml_opt_get_default_optimizer_params(nullptr);
    params.adamw.alpha = 0.1F;
    params.adamw.wd = 0.5F;
    return params;
}

TEST(Optimizers, AdamwFollowsItsFormula) {
    Counting c("CPU", 2);
    ggml_opt_params params = c.params(GGML_OPT_OPTIMIZER_TYPE_ADAMW);
    params.get_opt_pars = with_decay;
    const TrainingPtr training(ggml_opt_init(params));
    for (int i = 0; i < 7; ++i) evaluate(c, training.get(), true, 0);
    EXPECT_NEAR(c.weight_now(), adamw_by_hand(3, 2, 7, 0.1, 0.5), 1e-5);
}

}  // namespace
}  // namespace heddle::test
