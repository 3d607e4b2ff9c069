// Training while calls to the system fail.

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"
#include "ggml/ops_math.h"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

constexpr std::int64_t kPoints = 6;

template <auto Free>
struct Release {
    template <class T>
    void operator()(T* object) const {
        Free(object);
    }
};
using Dataset = std::unique_ptr<ggml_opt_dataset, Release<ggml_opt_dataset_free>>;
using Training = std::unique_ptr<ggml_opt_context, Release<ggml_opt_free>>;
using Outcome = std::unique_ptr<ggml_opt_result, Release<ggml_opt_result_free>>;

ggml_opt_optimizer_params steps_of_one(void*) {
    return {.adamw = {.alpha = 1, .beta1 = 0, .beta2 = 0, .eps = 0, .wd = 0},
            .sgd = {.alpha = 1, .wd = 0}};
}

ggml_context_ptr make_context(Run& run) {
    return ggml_context_ptr(run.made("a context", [] {
        return ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true});
    }));
}

/// y = x + w with one weight that begins at 3: every batch takes 1 from it.
void train(Run& run) {
    const ggml_backend_ptr stream(run.made("a stream", [] { return ggml_backend_cpu_init(); }));
    run.done("one thread", [&] { ggml_backend_cpu_set_n_threads(stream.get(), 1); });
    const ggml_backend_sched_ptr scheduler(run.made("a scheduler", [&] {
        ggml_backend_t all[] = {stream.get()};
        return ggml_backend_sched_new(all, nullptr, 1, 128, false, false);
    }));
    const ggml_context_ptr store = make_context(run), compute = make_context(run);
    ggml_tensor* weight =
        run.made("the weight", [&] { return ggml_new_tensor_1d(store.get(), GGML_TYPE_F32, 1); });
    ggml_set_param(weight);
    ggml_tensor* inputs =
        run.made("inputs", [&] { return ggml_new_tensor_2d(store.get(), GGML_TYPE_F32, 1, 1); });
    const ggml_backend_buffer_ptr memory(run.made(
        "memory", [&] { return ggml_backend_alloc_ctx_tensors(store.get(), stream.get()); }));
    ggml_tensor* outputs =
        run.made("the sum", [&] { return ggml_add(compute.get(), inputs, weight); });
    outputs = run.made("outputs", [&] { return ggml_scale(compute.get(), outputs, 1); });
    const Dataset dataset(run.made("a dataset", [] {
        return ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_COUNT, 1, 0, kPoints, 1);
    }));
    static const std::array<float, kPoints> points{0, 1, 2, 3, 4, 5};
    const float begin = 3;
    run.done("the first weight", [&] { ggml_backend_tensor_set(weight, &begin, 0, sizeof begin); });
    run.done("the data", [&] {
        ggml_backend_tensor_set(ggml_opt_dataset_data(dataset.get()), points.data(), 0,
                                sizeof points);
    });

    ggml_opt_params params = ggml_opt_default_params(scheduler.get(), GGML_OPT_LOSS_TYPE_SUM);
    params.ctx_compute = compute.get();
    params.inputs = inputs;
    params.outputs = outputs;
    params.get_opt_pars = steps_of_one;
    params.optimizer = GGML_OPT_OPTIMIZER_TYPE_ADAMW;
    const Training training(run.made("the training", [&] { return ggml_opt_init(params); }));
    const Outcome outcome(run.made("a result", [] { return ggml_opt_result_init(); }));
    float before = begin, after = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
        run.done("allocation", [&] { ggml_opt_alloc(training.get(), true); });
        run.done("a batch", [&] {
            ggml_opt_dataset_get_batch(dataset.get(), inputs, ggml_opt_labels(training.get()), i);
        });
        bool is_first = true;
        run.done("evaluation", [&] {
            if (!is_first) {
                ggml_opt_alloc(training.get(), true);  // refused if it had not begun
                heddle_clear_error();
                ggml_opt_dataset_get_batch(dataset.get(), inputs, ggml_opt_labels(training.get()),
                                           i);
            }
            is_first = false;
            ggml_opt_eval(training.get(), outcome.get());
        });
        run.done("the weight now",
                 [&] { ggml_backend_tensor_get(weight, &after, 0, sizeof after); });
        run.expect("each batch takes 1 from the weight", after == before - 1);
        before = after;
    }
    double loss = 0, uncertainty = 0;
    run.done("the loss", [&] { ggml_opt_result_loss(outcome.get(), &loss, &uncertainty); });
    std::int64_t count = 0;
    ggml_opt_result_ndata(outcome.get(), &count);
    run.expect("three points count", count == 3);
    run.expect("the loss is that of three batches", loss == 3 + 3 + 3);
}

TEST(Sweep, Training) { sweep(train); }

}  // namespace
}  // namespace heddle::faults
