#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "ggml-backend.h"
#include "heddle/heddle.h"
#include "heddle/sim.h"

/// What tests of the simulated devices share.
namespace heddle::sim {

template <class Handle, void (*release)(Handle*)>
struct Release {
    void operator()(Handle* handle) const { release(handle); }
};
using Stream = std::unique_ptr<ggml_backend, Release<ggml_backend, ggml_backend_free>>;
using Buffer =
    std::unique_ptr<ggml_backend_buffer, Release<ggml_backend_buffer, ggml_backend_buffer_free>>;
using Event =
    std::unique_ptr<ggml_backend_event, Release<ggml_backend_event, ggml_backend_event_free>>;
using ContextOwner = std::unique_ptr<ggml_context, Release<ggml_context, ggml_free>>;

/// A function of the registration.
template <class Function>
Function sim_function(const char* name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_sim_reg(), name));
}

/// Makes the devices anew; they keep a trace unless `parameters` say otherwise.
inline bool configure(const std::string& parameters) {
    const std::string all = parameters.empty() ? "trace=1" : "trace=1," + parameters;
    return sim_function<heddle_backend_configure_t>("heddle_backend_configure")(all.c_str());
}
inline ggml_backend_dev_t device(std::size_t index = 0) {
    return ggml_backend_reg_dev_get(ggml_backend_sim_reg(), index);
}
inline double clock_of(ggml_backend_dev_t which) {
    return sim_function<heddle_sim_clock_t>("heddle_sim_clock")(which);
}
inline bool set_faults(ggml_backend_dev_t which, const char* plan) {
    return sim_function<heddle_sim_fail_t>("heddle_sim_fail")(which, plan);
}
inline std::vector<heddle_sim_item> trace_of(ggml_backend_dev_t which) {
    const auto trace = sim_function<heddle_sim_trace_t>("heddle_sim_trace");
    std::vector<heddle_sim_item> items(trace(which, nullptr, 0, sizeof(heddle_sim_item)));
    trace(which, items.data(), items.size(), sizeof(heddle_sim_item));
    return items;
}

/// Tensors of a test and the memory they lie in.
class Bench {
public:
    ggml_context* context() { return context_.get(); }

    /// Memory of this type for a tensor. Null if there is none.
    Tensor* place(Tensor* tensor, ggml_backend_buffer_type_t type) {
        Buffer buffer(ggml_backend_buft_alloc_buffer(type, ggml_nbytes(tensor)));
        if (buffer == nullptr) return nullptr;
        ggml_backend_tensor_alloc(buffer.get(), tensor, ggml_backend_buffer_get_base(buffer.get()));
        buffers_.push_back(std::move(buffer));
        return tensor;
    }

    Tensor* vector(std::int64_t n, ggml_backend_buffer_type_t type, const char* name = "x") {
        return place(ggml_set_name(ggml_new_tensor_1d(context(), GGML_TYPE_F32, n), name), type);
    }
    Tensor* matrix(std::int64_t n0, std::int64_t n1, ggml_backend_buffer_type_t type) {
        return place(ggml_new_tensor_2d(context(), GGML_TYPE_F32, n0, n1), type);
    }

    /// A graph of nodes that have memory.
    ggml_cgraph* graph(std::initializer_list<Tensor*> nodes) {
        ggml_cgraph* made = ggml_new_graph_custom(context(), 64, false);
        for (Tensor* node : nodes) ggml_build_forward_expand(made, node);
        return made;
    }

private:
    std::vector<Buffer> buffers_;
    ContextOwner context_{
        ggml_init({.mem_size = 4 << 20, .mem_buffer = nullptr, .no_alloc = true})};
};

inline std::vector<float> numbers(std::size_t count, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(random);
    return values;
}

inline void write(Tensor* tensor, const std::vector<float>& values) {
    ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
}
inline std::vector<float> read(const Tensor* tensor) {
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    ggml_backend_tensor_get(tensor, values.data(), 0, values.size() * sizeof(float));
    return values;
}

}  // namespace heddle::sim
