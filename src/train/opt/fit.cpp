#include "train/opt/fit.hpp"

#include <chrono>

namespace heddle {
namespace {

/// The time that callbacks are told, as ggml_time_us() gives it.
std::int64_t now() {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

/// Batches of one epoch.
struct Plan {
    std::int64_t trained, evaluated;
};

Result<Plan> plan_epoch(const Training& training, const Dataset& dataset, std::int64_t split) {
    if (!training.is_fixed()) return invalid("epoch: the model is not fixed");
    const Tensor &inputs = *training.inputs(), &data = dataset.data();
    if (data.ne[0] != inputs.ne[0]) {
        return invalid("epoch: points of ", data.ne[0], " numbers do not fit the inputs ",
                       describe(inputs));
    }
    const std::int64_t batch = inputs.ne[1], points = dataset.points();
    if (batch < 1 || points % batch != 0) {
        return invalid("epoch: ", points, " points are not a whole number of batches of ", batch,
                       " for the inputs ", describe(inputs));
    }
    if (split < 0) split = points;
    if (split > points || split % batch != 0) {
        return invalid("epoch: a split at point ", split, " of ", points,
                       " is not between batches of ", batch);
    }
    const Plan plan{split / batch, (points - split) / batch};
    auto fits = dataset.check_batches(inputs, training.loss().labels, points / batch);
    if (!fits) return std::move(fits).error().within("epoch");
    return plan;
}

/// Runs batches one after the other.
class EpochRun {
public:
    EpochRun(Training& training, Dataset& dataset) : training_(training), dataset_(dataset) {}
    EpochRun(const EpochRun&) = delete;
    EpochRun& operator=(const EpochRun&) = delete;
    ~EpochRun() { training_.cancel(); }  // if it ended halfway

    Result<> run(bool train, std::int64_t first, std::int64_t count, Outcome* outcome,
                 EpochCallback callback) {
        const std::int64_t start = now();
        for (std::int64_t i = 0; i < count; ++i) {
            HEDDLE_TRY(training_.allocate(train));
            HEDDLE_TRY(
                dataset_.copy_batch(*training_.inputs(), training_.loss().labels, first + i));
            HEDDLE_TRY(training_.evaluate(outcome));
            if (callback == nullptr) continue;
            callback(train, &training_, &dataset_, outcome, i + 1, count, start);
        }
        return ok();
    }

private:
    Training& training_;
    Dataset& dataset_;
};

Result<> check_fit(const FitRequest& request, const Dataset& dataset) {
    const TrainingParams& params = request.params;
    if (params.ctx_compute == nullptr) return invalid("fit: the context is NULL");
    if (params.inputs == nullptr) return invalid("fit: the inputs are NULL");
    const std::int64_t physical = params.inputs->ne[1];
    if (request.batch < 1 || dataset.points() % request.batch != 0) {
        return invalid("fit: ", dataset.points(), " points are not a whole number of batches of ",
                       request.batch);
    }
    if (physical < 1 || request.batch % physical != 0) {
        return invalid("fit: batches of ", request.batch,
                       " points are not a whole number of those of ", physical, " that the inputs ",
                       describe(*params.inputs), " hold");
    }
    if (request.batch / physical > INT32_MAX) {
        return invalid("fit: a period of ", request.batch / physical,
                       " batches is above the limit ", INT32_MAX);
    }
    if (0 <= request.validation && request.validation < 1) return ok();
    return invalid("fit: a validation share of ", request.validation,
                   " is not between 0 and below 1");
}

}  // namespace

Result<> run_epoch(Training& training, Dataset& dataset, std::int64_t split,
                   const EpochListeners& listeners) {
    HEDDLE_TRY_ASSIGN(const Plan plan, plan_epoch(training, dataset, split));
    EpochRun run(training, dataset);
    HEDDLE_TRY(run.run(true, 0, plan.trained, listeners.trained, listeners.on_trained));
    return run.run(false, plan.trained, plan.evaluated, listeners.evaluated,
                   listeners.on_evaluated);
}

Result<> fit(const FitRequest& request, Dataset& dataset) {
    HEDDLE_TRY(check_fit(request, dataset));
    const std::int64_t points = dataset.points();
    // Whole periods are for training, so that none is cut in two.
    const std::int64_t periods = points / request.batch;
    const float trained = (1.0f - request.validation) * static_cast<float>(periods);
    const std::int64_t split = static_cast<std::int64_t>(trained) * request.batch;

    std::int64_t epoch = 1;
    TrainingParams params = request.params;
    params.opt_period = static_cast<std::int32_t>(request.batch / params.inputs->ne[1]);
    params.get_opt_pars_ud = &epoch;
    HEDDLE_TRY_ASSIGN(const auto training, Training::make(params));
    HEDDLE_TRY(plan_epoch(*training, dataset, split));  // before the order of the data is changed
    if (request.batch < points) HEDDLE_TRY(dataset.shuffle(training->random(), -1));
    Outcome learned, evaluated;
    for (; epoch <= request.epochs; ++epoch) {
        if (request.batch < split) HEDDLE_TRY(dataset.shuffle(training->random(), split));
        learned.clear();
        evaluated.clear();
        if (request.on_epoch) request.on_epoch(epoch);
        HEDDLE_TRY(run_epoch(*training, dataset, split,
                             {&learned, &evaluated, request.on_batch, request.on_batch}));
    }
    return ok();
}

}  // namespace heddle
