#pragma once

#include <random>

#include "test_support.hpp"

namespace heddle::test {

/// Where the two layers of the net have their weights.
struct NetPlaces {
    bool first_on_device = true, second_on_device = true;
    bool as_weights = false;  ///< buffers are marked as holding weights
};

constexpr std::int64_t kFeatures = 6, kHidden = 8, kClasses = 3, kExamples = 96;

inline std::vector<float> random_floats(std::size_t count, std::uint32_t seed, float scale = 1) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-scale, scale);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(random);
    return values;
}

/// A small classifier with two layers, and examples that it can learn: the class is the pair of
/// features with the largest sum.
class Net {
public:
    Net(const std::string& device, std::int64_t batch, const NetPlaces& places = {})
        : rig(device), batch_(batch) {
        parameters = {rig.parameter("w1", kFeatures, kHidden), rig.parameter("b1", kHidden),
                      rig.parameter("w2", kHidden, kClasses), rig.parameter("b2", kClasses)};
        inputs = rig.input(kFeatures, batch);
        place({parameters[0], parameters[1], inputs}, places.first_on_device, places.as_weights);
        place({parameters[2], parameters[3]}, places.second_on_device, places.as_weights);
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            const auto count = static_cast<std::size_t>(ggml_nelements(parameters[i]));
            set_floats(parameters[i], random_floats(count, 7 + std::uint32_t(i), 0.5F));
        }
        outputs = outputs_in(rig.compute(), inputs);
        make_examples();
    }

    ggml_tensor* outputs_in(ggml_context* c, ggml_tensor* x) const {
        x = ggml_relu(c, ggml_add(c, ggml_mul_mat(c, parameters[0], x), parameters[1]));
        x = ggml_add(c, ggml_mul_mat(c, parameters[2], x), parameters[3]);
        ggml_set_name(x, "outputs");
        return x;
    }

    ggml_opt_params params(ggml_opt_optimizer_type optimizer = GGML_OPT_OPTIMIZER_TYPE_ADAMW,
                           std::int32_t period = 1) const {
        ggml_opt_params made =
            ggml_opt_default_params(rig.scheduler(), GGML_OPT_LOSS_TYPE_CROSS_ENTROPY);
        made.ctx_compute = rig.compute();
        made.inputs = inputs;
        made.outputs = outputs;
        made.optimizer = optimizer;
        made.opt_period = period;
        return made;
    }

    std::vector<float> weights() const {
        std::vector<float> all;
        for (const ggml_tensor* parameter : parameters) {
            const auto values = floats_of(parameter);
            all.insert(all.end(), values.begin(), values.end());
        }
        return all;
    }

    std::int64_t batch() const { return batch_; }

    Rig rig;
    std::vector<ggml_tensor*> parameters;
    ggml_tensor *inputs = nullptr, *outputs = nullptr;
    DatasetPtr dataset;

private:
    void place(std::initializer_list<ggml_tensor*> tensors, bool on_device, bool as_weights) {
        ggml_backend_t backend = on_device ? rig.first() : rig.cpu();
        std::size_t size = 0;
        ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(backend);
        const std::size_t alignment = ggml_backend_buft_get_alignment(type);
        const auto padded = [&](const ggml_tensor* tensor) {
            const std::size_t bytes = ggml_backend_buft_get_alloc_size(type, tensor);
            return (bytes + alignment - 1) / alignment * alignment;
        };
        for (const ggml_tensor* tensor : tensors) size += padded(tensor);
        memory_.emplace_back(ggml_backend_buft_alloc_buffer(type, size));
        if (as_weights) {
            ggml_backend_buffer_set_usage(memory_.back().get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        }
        auto* address = static_cast<char*>(ggml_backend_buffer_get_base(memory_.back().get()));
        for (ggml_tensor* tensor : tensors) {
            ggml_backend_tensor_alloc(memory_.back().get(), tensor, address);
            address += padded(tensor);
        }
    }

    void make_examples() {
        dataset.reset(
            ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, kFeatures, kClasses, kExamples, 1));
        const auto x = random_floats(std::size_t(kExamples * kFeatures), 3);
        std::vector<float> labels(std::size_t(kExamples * kClasses));
        for (std::size_t i = 0; i < std::size_t(kExamples); ++i) {
            const float* point = &x[i * std::size_t(kFeatures)];
            std::size_t best = 0;
            for (std::size_t k = 1; k < std::size_t(kClasses); ++k) {
                if (point[2 * k] + point[2 * k + 1] > point[2 * best] + point[2 * best + 1])
                    best = k;
            }
            labels[i * std::size_t(kClasses) + best] = 1;
        }
        set_floats(ggml_opt_dataset_data(dataset.get()), x);
        set_floats(ggml_opt_dataset_labels(dataset.get()), labels);
    }

    std::int64_t batch_;
    std::vector<ggml_backend_buffer_ptr> memory_;
};

/// Evaluates batch `number` with a model made anew, whose nodes are gone afterwards.
inline void evaluate_once(Net& net, ggml_opt_context_t training, bool backward, std::int64_t number,
                          ggml_opt_result_t result) {
    const ggml_context_ptr context(
        ggml_init({.mem_size = 64 * ggml_tensor_overhead() + ggml_graph_overhead_custom(64, false),
                   .mem_buffer = nullptr,
                   .no_alloc = true}));
    ggml_tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kFeatures, net.batch());
    ggml_tensor* y = net.outputs_in(context.get(), x);
    ggml_cgraph* graph = ggml_new_graph_custom(context.get(), 64, false);
    ggml_build_forward_expand(graph, y);
    ggml_opt_prepare_alloc(training, context.get(), graph, x, y);
    ggml_opt_alloc(training, backward);
    ggml_opt_dataset_get_batch(net.dataset.get(), x, ggml_opt_labels(training), number);
    ggml_opt_eval(training, result);
}

}  // namespace heddle::test
