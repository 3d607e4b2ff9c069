#include "train/opt/optimizer.hpp"

#include <cmath>

#include "ops/build.hpp"
#include "ops/optimizer.hpp"

namespace heddle {
namespace {

struct Limits {
    const char* name;
    float value;
    bool holds;
    const char* limit;
};

/// Written so that NaN is out of every range.
Result<> check(const char* optimizer, std::initializer_list<Limits> all) {
    for (const Limits& one : all) {
        if (one.holds) continue;
        return invalid(optimizer, ": ", one.name, " ", one.value, " is not ", one.limit);
    }
    return ok();
}

bool is_share(float value) { return 0 <= value && value <= 1; }

Result<std::vector<float>> adamw_values(const OptimizerParams& params, std::int64_t iteration) {
    const auto& p = params.adamw;
    HEDDLE_TRY(check("adamw", {{"alpha", p.alpha, p.alpha > 0, "above 0"},
                               {"beta1", p.beta1, is_share(p.beta1), "between 0 and 1"},
                               {"beta2", p.beta2, is_share(p.beta2), "between 0 and 1"},
                               {"eps", p.eps, p.eps >= 0, "0 or more"},
                               {"wd", p.wd, is_share(p.wd), "between 0 and 1"}}));
    // The moments begin at 0, which makes them too small at first.
    const auto correction = [&](float beta) {
        return 1.0f / (1.0f - std::pow(beta, static_cast<float>(iteration)));
    };
    return std::vector{
        p.alpha, p.beta1, p.beta2, p.eps, p.wd, correction(p.beta1), correction(p.beta2)};
}

Result<std::vector<float>> sgd_values(const OptimizerParams& params) {
    const auto& p = params.sgd;
    HEDDLE_TRY(check("sgd", {{"alpha", p.alpha, p.alpha > 0, "above 0"},
                             {"wd", p.wd, is_share(p.wd), "between 0 and 1"}}));
    return std::vector{p.alpha, p.wd};
}

bool is_adamw(Optimizer optimizer) { return optimizer == GGML_OPT_OPTIMIZER_TYPE_ADAMW; }

}  // namespace

const char* name_of(Optimizer optimizer) {
    if (is_adamw(optimizer)) return "adamw";
    return optimizer == GGML_OPT_OPTIMIZER_TYPE_SGD ? "sgd" : "undefined";
}

Result<> check_optimizer(Optimizer optimizer) {
    if (is_adamw(optimizer) || optimizer == GGML_OPT_OPTIMIZER_TYPE_SGD) return ok();
    return invalid("training: there is no optimiser number ", static_cast<int>(optimizer));
}

OptimizerParams default_optimizer_params() {
    return {.adamw = {.alpha = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .wd = 0},
            .sgd = {.alpha = 1e-3f, .wd = 0}};
}

std::int64_t value_count(Optimizer optimizer) { return is_adamw(optimizer) ? 7 : 2; }

Result<std::vector<float>> step_values(Optimizer optimizer, const OptimizerParams& params,
                                       std::int64_t iteration) {
    return is_adamw(optimizer) ? adamw_values(params, iteration) : sgd_values(params);
}

Result<Tensor*> build_step(Context& context, Optimizer optimizer, Tensor& weights,
                           const StepOperands& operands) {
    auto step =
        is_adamw(optimizer)
            ? build<ops::OptStepAdamw>(context, {},
                                       {&weights, operands.gradient, operands.first_moment,
                                        operands.second_moment, operands.values})
            : build<ops::OptStepSgd>(context, {}, {&weights, operands.gradient, operands.values});
    if (step) set_name(**step, text(name_of(optimizer), " step for ", name_of(weights)));
    return step;
}

}  // namespace heddle
