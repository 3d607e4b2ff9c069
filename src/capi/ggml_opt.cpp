// Training: datasets, contexts, results, epochs and fitting.

#include <algorithm>
#include <cstdio>
#include <new>

#include "capi/boundary.hpp"
#include "ggml-opt.h"
#include "train/opt/fit.hpp"
#include "train/opt/progress.hpp"

using namespace heddle;
using capi::require;

namespace {

/// What a device or the machine could not do, or a callback asked to stop, is no mistake of the
/// caller: the sentence stays, and the program goes on.
void settle(const Error& error) noexcept {
    const bool is_mistake = error.code != Errc::device && error.code != Errc::out_of_memory &&
                            error.code != Errc::aborted;
    is_mistake ? capi::fail(error) : capi::report(error);
}

/// Runs `body`, which gives a Result without a value.
template <class Body>
void done(Body&& body) noexcept {
    if (auto result = capi::guarded(std::forward<Body>(body)); !result) settle(result.error());
}

/// What `body` makes; null if it fails.
template <class T, class Body>
T* made(Body&& body) noexcept {
    auto result = capi::guarded(std::forward<Body>(body));
    if (result) return result->release();
    settle(result.error());
    return nullptr;
}

/// What `get` finds in `object`; nothing if that is NULL.
template <class Object, class Get>
auto asked(Object* object, const char* function, const char* what, Get get) noexcept {
    using Value = std::remove_cvref_t<decltype(get(*object))>;
    return capi::value_or_fail(
        [&]() -> Result<Value> {
            HEDDLE_TRY(require(object, function, what));
            return Value(get(*object));
        },
        Value{});
}

using Use = InUse::Use;

/// Marks the training as used for as long as the result lives; fails if it is NULL, or if another
/// thread uses it. Callbacks of an epoch may go on with it between two batches.
Result<Use> use_of(ggml_opt_context_t training, std::string_view function) {
    HEDDLE_TRY(require(training, function, "the training"));
    auto use = training->in_use.enter_again();
    if (use) [[likely]]
        return use;
    return std::move(use).error().within("training");
}

}  // namespace

// ---- datasets ----------------------------------------------------------------------------------

ggml_opt_dataset_t ggml_opt_dataset_init(ggml_type type_data, ggml_type type_label,
                                         int64_t ne_datapoint, int64_t ne_label, int64_t ndata,
                                         int64_t ndata_shard) {
    return made<Dataset>([&] {
        return Dataset::make({type_data, type_label, ne_datapoint, ne_label, ndata, ndata_shard});
    });
}

void ggml_opt_dataset_free(ggml_opt_dataset_t dataset) { delete dataset; }

int64_t ggml_opt_dataset_ndata(ggml_opt_dataset_t dataset) {
    return asked(dataset, "dataset", "the dataset", [](Dataset& d) { return d.points(); });
}
ggml_tensor* ggml_opt_dataset_data(ggml_opt_dataset_t dataset) {
    return asked(dataset, "dataset", "the dataset", [](Dataset& d) { return &d.data(); });
}
ggml_tensor* ggml_opt_dataset_labels(ggml_opt_dataset_t dataset) {
    return asked(dataset, "dataset", "the dataset", [](Dataset& d) { return d.labels(); });
}

void ggml_opt_dataset_shuffle(ggml_opt_context_t opt_ctx, ggml_opt_dataset_t dataset,
                              int64_t idata) {
    done([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Use use, use_of(opt_ctx, "shuffle"));
        HEDDLE_TRY(require(dataset, "shuffle", "the dataset"));
        return dataset->shuffle(opt_ctx->random(), idata);
    });
}

void ggml_opt_dataset_get_batch(ggml_opt_dataset_t dataset, ggml_tensor* data_batch,
                                ggml_tensor* labels_batch, int64_t ibatch) {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(dataset, "batch", "the dataset"));
        HEDDLE_TRY(require(data_batch, "batch", "the tensor for data"));
        return dataset->copy_batch(*data_batch, labels_batch, ibatch);
    });
}

void ggml_opt_dataset_get_batch_host(ggml_opt_dataset_t dataset, void* data_batch,
                                     size_t nb_data_batch, void* labels_batch, int64_t ibatch) {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(dataset, "batch", "the dataset"));
        HEDDLE_TRY(require(data_batch, "batch", "the memory for data"));
        return dataset->copy_batch(data_batch, nb_data_batch, labels_batch, ibatch);
    });
}

// ---- parameters --------------------------------------------------------------------------------

ggml_opt_optimizer_params ggml_opt_get_default_optimizer_params(void* /*userdata*/) {
    return default_optimizer_params();
}

ggml_opt_optimizer_params ggml_opt_get_constant_optimizer_params(void* userdata) {
    return asked(static_cast<OptimizerParams*>(userdata), "optimiser parameters", "the user data",
                 [](const OptimizerParams& params) { return params; });
}

ggml_opt_params ggml_opt_default_params(ggml_backend_sched_t backend_sched,
                                        ggml_opt_loss_type loss_type) {
    return {.backend_sched = backend_sched,
            .ctx_compute = nullptr,
            .inputs = nullptr,
            .outputs = nullptr,
            .loss_type = loss_type,
            .build_type = GGML_OPT_BUILD_TYPE_OPT,
            .opt_period = 1,
            .get_opt_pars = ggml_opt_get_default_optimizer_params,
            .get_opt_pars_ud = nullptr,
            .optimizer = GGML_OPT_OPTIMIZER_TYPE_ADAMW};
}

const char* ggml_opt_optimizer_name(ggml_opt_optimizer_type optimizer) {
    return name_of(optimizer);
}

// ---- contexts ----------------------------------------------------------------------------------

ggml_opt_context_t ggml_opt_init(ggml_opt_params params) {
    return made<Training>([&] { return Training::make(params); });
}

void ggml_opt_free(ggml_opt_context_t opt_ctx) { delete opt_ctx; }

void ggml_opt_reset(ggml_opt_context_t opt_ctx, bool optimizer) {
    done([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Use use, use_of(opt_ctx, "training reset"));
        return opt_ctx->reset(optimizer);
    });
}

namespace {

template <class Get>
auto of_training(ggml_opt_context_t training, Get get) {
    return asked(training, "training", "the training", get);
}

}  // namespace

bool ggml_opt_static_graphs(ggml_opt_context_t opt_ctx) {
    return of_training(opt_ctx, [](Training& t) { return t.is_fixed(); });
}
ggml_tensor* ggml_opt_inputs(ggml_opt_context_t opt_ctx) {
    return of_training(opt_ctx, [](Training& t) { return t.inputs(); });
}
ggml_tensor* ggml_opt_outputs(ggml_opt_context_t opt_ctx) {
    return of_training(opt_ctx, [](Training& t) { return t.outputs(); });
}
ggml_tensor* ggml_opt_labels(ggml_opt_context_t opt_ctx) {
    return of_training(opt_ctx, [](Training& t) { return t.loss().labels; });
}
ggml_tensor* ggml_opt_loss(ggml_opt_context_t opt_ctx) {
    return of_training(opt_ctx, [](Training& t) { return t.loss().loss; });
}
ggml_tensor* ggml_opt_pred(ggml_opt_context_t opt_ctx) {
    return of_training(opt_ctx, [](Training& t) { return t.loss().predictions; });
}
ggml_tensor* ggml_opt_ncorrect(ggml_opt_context_t opt_ctx) {
    return of_training(opt_ctx, [](Training& t) { return t.loss().correct; });
}
ggml_tensor* ggml_opt_grad_acc(ggml_opt_context_t opt_ctx, ggml_tensor* node) {
    if (node == nullptr) return nullptr;
    return of_training(opt_ctx, [&](Training& t) { return t.accumulator_of(*node); });
}
ggml_opt_optimizer_type ggml_opt_context_optimizer_type(ggml_opt_context_t opt_ctx) {
    return of_training(opt_ctx, [](Training& t) { return t.optimizer(); });
}

// ---- results -----------------------------------------------------------------------------------

ggml_opt_result_t ggml_opt_result_init(void) {
    return made<Outcome>(
        []() -> Result<std::unique_ptr<Outcome>> { return std::make_unique<Outcome>(); });
}

void ggml_opt_result_free(ggml_opt_result_t result) { delete result; }
void ggml_opt_result_reset(ggml_opt_result_t result) {
    if (result != nullptr) result->clear();
}

namespace {

Outcome::Estimate estimate(ggml_opt_result_t result, Outcome::Estimate (Outcome::*get)() const) {
    return asked(result, "result", "the result", [&](Outcome& r) { return (r.*get)(); });
}

void hand_out(const Outcome::Estimate& from, double* value, double* uncertainty) {
    if (value != nullptr) *value = from.value;
    if (uncertainty != nullptr) *uncertainty = from.uncertainty;
}

}  // namespace

void ggml_opt_result_ndata(ggml_opt_result_t result, int64_t* ndata) {
    const auto points =
        asked(result, "result", "the result", [](Outcome& r) { return r.points(); });
    if (ndata != nullptr) *ndata = points;
}

void ggml_opt_result_loss(ggml_opt_result_t result, double* loss, double* unc) {
    hand_out(estimate(result, &Outcome::loss), loss, unc);
}

void ggml_opt_result_pred(ggml_opt_result_t result, int32_t* pred) {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(result, "predictions", "the result"));
        HEDDLE_TRY(require(pred, "predictions", "the memory for them"));
        std::ranges::copy(result->predictions(), pred);
        return ok();
    });
}

void ggml_opt_result_accuracy(ggml_opt_result_t result, double* accuracy, double* unc) {
    hand_out(estimate(result, &Outcome::accuracy), accuracy, unc);
}

// ---- evaluating --------------------------------------------------------------------------------

void ggml_opt_prepare_alloc(ggml_opt_context_t opt_ctx, ggml_context* /*ctx_compute*/,
                            ggml_cgraph* gf, ggml_tensor* inputs, ggml_tensor* outputs) {
    done([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Use use, use_of(opt_ctx, "training"));
        HEDDLE_TRY(require(gf, "training", "the graph"));
        HEDDLE_TRY(require(inputs, "training", "the inputs"));
        HEDDLE_TRY(require(outputs, "training", "the outputs"));
        return opt_ctx->prepare(*gf, *inputs, *outputs);
    });
}

void ggml_opt_alloc(ggml_opt_context_t opt_ctx, bool backward) {
    done([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Use use, use_of(opt_ctx, "training"));
        return opt_ctx->allocate(backward);
    });
}

void ggml_opt_eval(ggml_opt_context_t opt_ctx, ggml_opt_result_t result) {
    done([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Use use, use_of(opt_ctx, "training"));
        return opt_ctx->evaluate(result);
    });
}

void ggml_opt_epoch(ggml_opt_context_t opt_ctx, ggml_opt_dataset_t dataset,
                    ggml_opt_result_t result_train, ggml_opt_result_t result_eval,
                    int64_t idata_split, ggml_opt_epoch_callback callback_train,
                    ggml_opt_epoch_callback callback_eval) {
    done([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Use use, use_of(opt_ctx, "epoch"));
        HEDDLE_TRY(require(dataset, "epoch", "the dataset"));
        return run_epoch(*opt_ctx, *dataset, idata_split,
                         {result_train, result_eval, callback_train, callback_eval});
    });
}

void ggml_opt_epoch_callback_progress_bar(bool train, ggml_opt_context_t opt_ctx,
                                          ggml_opt_dataset_t /*dataset*/, ggml_opt_result_t result,
                                          int64_t ibatch, int64_t ibatch_max, int64_t t_start_us) {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(opt_ctx, "progress bar", "the training"));
        HEDDLE_TRY(require(opt_ctx->inputs(), "progress bar", "what was put in"));
        const Outcome none;
        const Progress progress{.train = train,
                                .batches = ibatch,
                                .all_batches = ibatch_max,
                                .batch = opt_ctx->inputs()->ne[1],
                                .elapsed = ggml_time_us() - t_start_us};
        const std::string line = progress_line(progress, result != nullptr ? *result : none);
        std::fputs(line.c_str(), stderr);
        return ok();
    });
}

void ggml_opt_fit(ggml_backend_sched_t backend_sched, ggml_context* ctx_compute,
                  ggml_tensor* inputs, ggml_tensor* outputs, ggml_opt_dataset_t dataset,
                  ggml_opt_loss_type loss_type, ggml_opt_optimizer_type optimizer,
                  ggml_opt_get_optimizer_params get_opt_pars, int64_t nepoch,
                  int64_t nbatch_logical, float val_split, bool silent) {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(dataset, "fit", "the dataset"));
        FitRequest request{.params = ggml_opt_default_params(backend_sched, loss_type),
                           .epochs = nepoch,
                           .batch = nbatch_logical,
                           .validation = val_split,
                           .on_batch = nullptr,
                           .on_epoch = {}};
        request.params.ctx_compute = ctx_compute;
        request.params.inputs = inputs;
        request.params.outputs = outputs;
        request.params.get_opt_pars = get_opt_pars;
        request.params.optimizer = optimizer;
        if (silent) return fit(request, *dataset);
        request.on_batch = ggml_opt_epoch_callback_progress_bar;
        request.on_epoch = [&](std::int64_t epoch) {
            std::fprintf(stderr, "ggml_opt_fit: epoch %04lld/%04lld:\n",
                         static_cast<long long>(epoch), static_cast<long long>(nepoch));
        };
        const std::int64_t start = ggml_time_us();
        HEDDLE_TRY(fit(request, *dataset));
        std::fprintf(stderr, "ggml_opt_fit: training took %s\n",
                     clock_text(ggml_time_us() - start).c_str());
        return ok();
    });
}
