#pragma once

#include <functional>

#include "train/opt/dataset.hpp"
#include "train/opt/training.hpp"

namespace heddle {

/// Told after each batch.
using EpochCallback = ::ggml_opt_epoch_callback;

/// What an epoch reports to; all of it may be null.
struct EpochListeners {
    Outcome *trained = nullptr, *evaluated = nullptr;
    EpochCallback on_trained = nullptr, on_evaluated = nullptr;
};

/// Trains a fixed model on the first `split` points and evaluates the others; trains on all if
/// that is negative. Whether the dataset fits is known before anything is done.
Result<> run_epoch(Training& training, Dataset& dataset, std::int64_t split,
                   const EpochListeners& listeners);

/// How to fit a model to a dataset.
struct FitRequest {
    TrainingParams params;  ///< of a fixed model; the period is set by `batch`
    std::int64_t epochs;
    std::int64_t batch;      ///< points between two steps
    float validation;        ///< share of the points that are only evaluated
    EpochCallback on_batch;  ///< may be null
    std::function<void(std::int64_t epoch)> on_epoch;  ///< before each, from 1; may be empty
};

/// The epoch's number is what `params.get_opt_pars` gets a pointer to.
Result<> fit(const FitRequest& request, Dataset& dataset);

}  // namespace heddle
