/// Training: datasets, losses, optimisers, and the loop over all.
///
/// The short way is ggml_opt_fit(). The long way is a context (ggml_opt_init()) and, for each
/// batch, ggml_opt_alloc(), writing inputs and labels, ggml_opt_eval().
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_opt_dataset;
struct ggml_opt_context;
struct ggml_opt_result;

typedef struct ggml_opt_dataset* ggml_opt_dataset_t;  ///< Examples to learn from.
typedef struct ggml_opt_context* ggml_opt_context_t;  ///< A training in progress.
typedef struct ggml_opt_result* ggml_opt_result_t;    ///< What evaluations came to.

// ------------------------------------------------------------------------------------------------
// Datasets

/// A dataset of `ndata` points, which the caller owns, with `ne_datapoint` numbers and `ne_label`
/// label numbers (may be 0) each. `ndata_shard` points stay together when shuffling.
GGML_API ggml_opt_dataset_t ggml_opt_dataset_init(enum ggml_type type_data,
                                                  enum ggml_type type_label, int64_t ne_datapoint,
                                                  int64_t ne_label, int64_t ndata,
                                                  int64_t ndata_shard);

/// Releases a dataset. NULL is fine.
GGML_API void ggml_opt_dataset_free(ggml_opt_dataset_t dataset);

/// Number of points.
GGML_API int64_t ggml_opt_dataset_ndata(ggml_opt_dataset_t dataset);

/// The data, [ne_datapoint, ndata] in host memory, to be filled in.
GGML_API struct ggml_tensor* ggml_opt_dataset_data(ggml_opt_dataset_t dataset);

/// The labels, [ne_label, ndata] in host memory, to be filled in; NULL if there are none.
GGML_API struct ggml_tensor* ggml_opt_dataset_labels(ggml_opt_dataset_t dataset);

/// Shuffles the first `idata` points, a multiple of the shard; all if negative. The context holds
/// the random numbers.
GGML_API void ggml_opt_dataset_shuffle(ggml_opt_context_t opt_ctx, ggml_opt_dataset_t dataset,
                                       int64_t idata);

/// Copies batch `ibatch` to tensors; `labels_batch` is NULL if the dataset has no labels.
GGML_API void ggml_opt_dataset_get_batch(ggml_opt_dataset_t dataset, struct ggml_tensor* data_batch,
                                         struct ggml_tensor* labels_batch, int64_t ibatch);

/// Copies batch `ibatch` of `nb_data_batch` bytes to host memory.
GGML_API void ggml_opt_dataset_get_batch_host(ggml_opt_dataset_t dataset, void* data_batch,
                                              size_t nb_data_batch, void* labels_batch,
                                              int64_t ibatch);

// ------------------------------------------------------------------------------------------------
// Parameters

/// What to make small.
enum ggml_opt_loss_type GGML_ENUM_INT {
    GGML_OPT_LOSS_TYPE_MEAN = 0,                ///< Mean of the outputs.
    GGML_OPT_LOSS_TYPE_SUM = 1,                 ///< Sum of the outputs.
    GGML_OPT_LOSS_TYPE_CROSS_ENTROPY = 2,       ///< Cross entropy with the labels.
    GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR = 3,  ///< Mean squared distance from the labels.
};

/// How much of a graph to build.
enum ggml_opt_build_type GGML_ENUM_INT {
    GGML_OPT_BUILD_TYPE_FORWARD = 10,  ///< Outputs and loss.
    GGML_OPT_BUILD_TYPE_GRAD = 20,     ///< Gradients, too.
    GGML_OPT_BUILD_TYPE_OPT = 30,      ///< Optimiser steps, too.
};

/// How to change parameters.
enum ggml_opt_optimizer_type GGML_ENUM_INT {
    GGML_OPT_OPTIMIZER_TYPE_ADAMW = 0,  ///< AdamW.
    GGML_OPT_OPTIMIZER_TYPE_SGD = 1,    ///< Gradient descent.
    GGML_OPT_OPTIMIZER_TYPE_COUNT = 2,  ///< Number of optimisers.
};

/// Numbers that steer the optimisers.
struct ggml_opt_optimizer_params {
    /// For AdamW.
    struct {
        float alpha;  ///< Learning rate, above 0.
        float beta1;  ///< Decay of the first moment, 0 to 1.
        float beta2;  ///< Decay of the second moment, 0 to 1.
        float eps;    ///< Added to the denominator, 0 or more.
        float wd;     ///< Weight decay, 0 to 1.
    } adamw;
    /// For gradient descent.
    struct {
        float alpha;  ///< Learning rate, above 0.
        float wd;     ///< Weight decay, 0 to 1.
    } sgd;
};

/// Asked before each optimiser step.
typedef struct ggml_opt_optimizer_params (*ggml_opt_get_optimizer_params)(void* userdata);

/// Usual numbers: learning rate 0.001, betas 0.9 and 0.999, eps 1e-8, no decay. Ignores `userdata`.
GGML_API struct ggml_opt_optimizer_params ggml_opt_get_default_optimizer_params(void* userdata);

/// The numbers that `userdata` points to.
GGML_API struct ggml_opt_optimizer_params ggml_opt_get_constant_optimizer_params(void* userdata);

/// How to make a training context.
struct ggml_opt_params {
    ggml_backend_sched_t backend_sched;  ///< Who computes.

    struct ggml_context*
        ctx_compute;              ///< Holds a fixed graph; NULL if it changes from batch to batch.
    struct ggml_tensor* inputs;   ///< Inputs of a fixed graph.
    struct ggml_tensor* outputs;  ///< Outputs of a fixed graph.

    enum ggml_opt_loss_type loss_type;    ///< What to make small.
    enum ggml_opt_build_type build_type;  ///< How much to build.

    int32_t opt_period;  ///< Batches whose gradients are summed up for one step, at least 1.

    ggml_opt_get_optimizer_params get_opt_pars;  ///< Asked before each step.
    void* get_opt_pars_ud;                       ///< Handed to it.

    enum ggml_opt_optimizer_type optimizer;  ///< How to change parameters.
};

/// Usual parameters: everything is built, a step after each batch, AdamW with its usual numbers.
GGML_API struct ggml_opt_params ggml_opt_default_params(ggml_backend_sched_t backend_sched,
                                                        enum ggml_opt_loss_type loss_type);

// ------------------------------------------------------------------------------------------------
// Context

/// A training context, which the caller owns.
GGML_API ggml_opt_context_t ggml_opt_init(struct ggml_opt_params params);

/// Releases a context. NULL is fine.
GGML_API void ggml_opt_free(ggml_opt_context_t opt_ctx);

/// Sets summed gradients to zero, and with `optimizer` its moments and step count as well.
GGML_API void ggml_opt_reset(ggml_opt_context_t opt_ctx, bool optimizer);

/// Whether the graph is fixed.
GGML_API bool ggml_opt_static_graphs(ggml_opt_context_t opt_ctx);

/// Inputs of the graph.
GGML_API struct ggml_tensor* ggml_opt_inputs(ggml_opt_context_t opt_ctx);

/// Outputs of the graph.
GGML_API struct ggml_tensor* ggml_opt_outputs(ggml_opt_context_t opt_ctx);

/// Labels to write before each evaluation; NULL for losses without labels.
GGML_API struct ggml_tensor* ggml_opt_labels(ggml_opt_context_t opt_ctx);

/// The loss, a scalar.
GGML_API struct ggml_tensor* ggml_opt_loss(ggml_opt_context_t opt_ctx);

/// Index of the largest output of each point; NULL if the loss has no classes.
GGML_API struct ggml_tensor* ggml_opt_pred(ggml_opt_context_t opt_ctx);

/// Number of points whose largest output is that of the label; NULL if the loss has no classes.
GGML_API struct ggml_tensor* ggml_opt_ncorrect(ggml_opt_context_t opt_ctx);

/// Where the gradient of `node` is summed up; NULL if it is not. Fixed graphs only.
GGML_API struct ggml_tensor* ggml_opt_grad_acc(ggml_opt_context_t opt_ctx,
                                               struct ggml_tensor* node);

/// The context's optimiser.
GGML_API enum ggml_opt_optimizer_type ggml_opt_context_optimizer_type(ggml_opt_context_t opt_ctx);

/// Name of an optimiser: "adamw", "sgd" or "undefined".
GGML_API const char* ggml_opt_optimizer_name(enum ggml_opt_optimizer_type optimizer);

// ------------------------------------------------------------------------------------------------
// Results

/// An empty result, which the caller owns.
GGML_API ggml_opt_result_t ggml_opt_result_init(void);

/// Releases a result. NULL is fine.
GGML_API void ggml_opt_result_free(ggml_opt_result_t result);

/// Empties a result.
GGML_API void ggml_opt_result_reset(ggml_opt_result_t result);

/// Number of points evaluated.
GGML_API void ggml_opt_result_ndata(ggml_opt_result_t result, int64_t* ndata);

/// Loss so far and its uncertainty, NaN where there is none; `unc` may be NULL.
GGML_API void ggml_opt_result_loss(ggml_opt_result_t result, double* loss, double* unc);

/// Predictions so far, one per point.
GGML_API void ggml_opt_result_pred(ggml_opt_result_t result, int32_t* pred);

/// Share of points predicted right and its uncertainty, NaN where there is none; `unc` may be NULL.
GGML_API void ggml_opt_result_accuracy(ggml_opt_result_t result, double* accuracy, double* unc);

// ------------------------------------------------------------------------------------------------
// Evaluating

/// Gives a context without a fixed graph the one for the next evaluation.
GGML_API void ggml_opt_prepare_alloc(ggml_opt_context_t opt_ctx, struct ggml_context* ctx_compute,
                                     struct ggml_cgraph* gf, struct ggml_tensor* inputs,
                                     struct ggml_tensor* outputs);

/// Gets memory for the next evaluation, with gradients if `backward`. Then write inputs and labels.
GGML_API void ggml_opt_alloc(ggml_opt_context_t opt_ctx, bool backward);

/// Evaluates, makes an optimiser step if one is due, and adds to `result`, which may be NULL. What
/// failed counts for nothing, and is to be allocated again if it had begun.
GGML_API void ggml_opt_eval(ggml_opt_context_t opt_ctx, ggml_opt_result_t result);

/// Told after each batch; `t_start_us` is when the epoch began, in ggml_time_us().
typedef void (*ggml_opt_epoch_callback)(bool train, ggml_opt_context_t opt_ctx,
                                        ggml_opt_dataset_t dataset, ggml_opt_result_t result,
                                        int64_t ibatch, int64_t ibatch_max, int64_t t_start_us);

/// Trains on the first `idata_split` points and evaluates the others; all are for training if it is
/// negative. Results and callbacks may be NULL. Fixed graphs only.
GGML_API void ggml_opt_epoch(ggml_opt_context_t opt_ctx, ggml_opt_dataset_t dataset,
                             ggml_opt_result_t result_train, ggml_opt_result_t result_eval,
                             int64_t idata_split, ggml_opt_epoch_callback callback_train,
                             ggml_opt_epoch_callback callback_eval);

/// An epoch callback that draws a progress bar on stderr.
GGML_API void ggml_opt_epoch_callback_progress_bar(bool train, ggml_opt_context_t opt_ctx,
                                                   ggml_opt_dataset_t dataset,
                                                   ggml_opt_result_t result, int64_t ibatch,
                                                   int64_t ibatch_max, int64_t t_start_us);

/// Trains a fixed graph for `nepoch` epochs.
///
/// A step follows each `nbatch_logical` points. The last share `val_split` (0 to below 1) of the
/// points is only evaluated. `get_opt_pars` gets a pointer to the int64_t number of the epoch,
/// from 1. `silent` keeps stderr quiet.
GGML_API void ggml_opt_fit(ggml_backend_sched_t backend_sched, struct ggml_context* ctx_compute,
                           struct ggml_tensor* inputs, struct ggml_tensor* outputs,
                           ggml_opt_dataset_t dataset, enum ggml_opt_loss_type loss_type,
                           enum ggml_opt_optimizer_type optimizer,
                           ggml_opt_get_optimizer_params get_opt_pars, int64_t nepoch,
                           int64_t nbatch_logical, float val_split, bool silent);

#ifdef __cplusplus
}
#endif
