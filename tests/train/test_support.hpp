#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"
#include "heddle/heddle.h"

namespace heddle::test {

template <auto Free>
struct Release {
    template <class T>
    void operator()(T* object) const {
        Free(object);
    }
};
using DatasetPtr = std::unique_ptr<ggml_opt_dataset, Release<ggml_opt_dataset_free>>;
using TrainingPtr = std::unique_ptr<ggml_opt_context, Release<ggml_opt_free>>;
using ResultPtr = std::unique_ptr<ggml_opt_result, Release<ggml_opt_result_free>>;

inline ResultPtr make_result() { return ResultPtr(ggml_opt_result_init()); }

/// Failures return while it lives.
class ReturnErrors {
public:
    ReturnErrors() : before_(heddle_set_thread_error_mode(HEDDLE_ERROR_MODE_RETURN)) {
        heddle_clear_error();
    }
    ReturnErrors(const ReturnErrors&) = delete;
    ReturnErrors& operator=(const ReturnErrors&) = delete;
    ~ReturnErrors() { heddle_set_thread_error_mode(before_); }

private:
    heddle_error_mode before_;
};

inline std::vector<float> floats_of(const ggml_tensor* tensor) {
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    ggml_backend_tensor_get(tensor, values.data(), 0, values.size() * sizeof(float));
    return values;
}
inline float float_of(const ggml_tensor* tensor) { return floats_of(tensor)[0]; }

inline void set_floats(ggml_tensor* tensor, const std::vector<float>& values) {
    ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
}

/// A scheduler over one device and the processor, and contexts for a model. "CPU" is the processor
/// alone.
class Rig {
public:
    explicit Rig(const std::string& device) {
        if (device != "CPU") {
            backends_.emplace_back(
                ggml_backend_dev_init(ggml_backend_dev_by_name(device.c_str()), nullptr));
        }
        backends_.emplace_back(ggml_backend_cpu_init());
        ggml_backend_cpu_set_n_threads(backends_.back().get(), 1);
        std::vector<ggml_backend_t> list;
        for (const auto& backend : backends_) list.push_back(backend.get());
        scheduler_.reset(ggml_backend_sched_new(list.data(), nullptr, static_cast<int>(list.size()),
                                                GGML_DEFAULT_GRAPH_SIZE, false, true));
        // What programs make room for: three graphs with all that belongs to them.
        const std::size_t room =
            GGML_DEFAULT_GRAPH_SIZE * ggml_tensor_overhead() + 3 * ggml_graph_overhead();
        store_.reset(ggml_init({.mem_size = room, .mem_buffer = nullptr, .no_alloc = true}));
        compute_.reset(ggml_init({.mem_size = room, .mem_buffer = nullptr, .no_alloc = true}));
    }

    ggml_backend_sched_t scheduler() const { return scheduler_.get(); }
    ggml_backend_t first() const { return backends_.front().get(); }
    ggml_backend_t cpu() const { return backends_.back().get(); }
    ggml_context* store() const { return store_.get(); }      ///< for inputs and weights
    ggml_context* compute() const { return compute_.get(); }  ///< for the model's nodes

    ggml_tensor* parameter(const char* name, std::int64_t n0, std::int64_t n1 = 1) {
        ggml_tensor* made = ggml_new_tensor_2d(store(), GGML_TYPE_F32, n0, n1);
        ggml_set_name(made, name);
        ggml_set_param(made);
        return made;
    }
    ggml_tensor* input(std::int64_t n0, std::int64_t n1) {
        ggml_tensor* made = ggml_new_tensor_2d(store(), GGML_TYPE_F32, n0, n1);
        ggml_set_name(made, "inputs");
        return made;
    }

    /// Memory on the first device for all tensors of the store.
    void allocate_store() {
        memory_.emplace_back(ggml_backend_alloc_ctx_tensors(store(), first()));
    }

private:
    std::vector<ggml_backend_ptr> backends_;
    ggml_backend_sched_ptr scheduler_;
    ggml_context_ptr store_, compute_;
    std::vector<ggml_backend_buffer_ptr> memory_;
};

/// Steps of exactly +-1 with AdamW, and of the gradient with SGD.
inline ggml_opt_optimizer_params plain_steps(void*) {
    return {.adamw = {.alpha = 1, .beta1 = 0, .beta2 = 0, .eps = 0, .wd = 0},
            .sgd = {.alpha = 1, .wd = 0}};
}

constexpr std::int64_t kPoints = 6;

/// y = x + w, with one weight that begins at 3 and points 0 to 5: everything can be counted by
/// hand.
struct Counting {
    explicit Counting(const std::string& device, std::int64_t batch = 1) : rig(device) {
        weight = rig.parameter("weight", 1);
        inputs = rig.input(1, batch);
        rig.allocate_store();
        outputs = ggml_scale(rig.compute(), ggml_add(rig.compute(), inputs, weight), 1);
        ggml_set_name(outputs, "outputs");
        set_floats(weight, {3});
        dataset.reset(ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_COUNT, 1, 0, kPoints, 1));
        set_floats(ggml_opt_dataset_data(dataset.get()), {0, 1, 2, 3, 4, 5});
    }

    ggml_opt_params params(ggml_opt_optimizer_type optimizer,
                           ggml_opt_loss_type loss = GGML_OPT_LOSS_TYPE_SUM) const {
        ggml_opt_params made = ggml_opt_default_params(rig.scheduler(), loss);
        made.ctx_compute = rig.compute();
        made.inputs = inputs;
        made.outputs = outputs;
        made.get_opt_pars = plain_steps;
        made.optimizer = optimizer;
        return made;
    }

    float weight_now() const { return float_of(weight); }

    Rig rig;
    ggml_tensor *weight, *inputs, *outputs;
    DatasetPtr dataset;
};

struct Loss {
    double value, uncertainty;
};
inline Loss loss_of(const ResultPtr& result) {
    Loss made{};
    ggml_opt_result_loss(result.get(), &made.value, &made.uncertainty);
    return made;
}
inline Loss accuracy_of(const ResultPtr& result) {
    Loss made{};
    ggml_opt_result_accuracy(result.get(), &made.value, &made.uncertainty);
    return made;
}
inline std::int64_t points_of(const ResultPtr& result) {
    std::int64_t points = -1;
    ggml_opt_result_ndata(result.get(), &points);
    return points;
}

/// One evaluation of batch `number`.
inline void evaluate(Counting& c, ggml_opt_context_t training, bool backward, std::int64_t number,
                     ggml_opt_result_t result = nullptr) {
    ggml_opt_alloc(training, backward);
    ggml_opt_dataset_get_batch(c.dataset.get(), c.inputs, ggml_opt_labels(training), number);
    ggml_opt_eval(training, result);
}

}  // namespace heddle::test
