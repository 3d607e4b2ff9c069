#include "differences.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "heddle/heddle.h"

namespace heddle::test {
namespace {

constexpr std::size_t kGraphSize = 512;

std::vector<float> mixed_values(std::int64_t count, float low, float high, std::uint32_t seed) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const float place =
            (static_cast<float>(i) + 0.5F) / static_cast<float>(values.size() + values.size() % 2);
        values[i] = low + (high - low) * place;
    }
    std::shuffle(values.begin(), values.end(), std::mt19937(seed));
    return values;
}

std::int64_t product(std::initializer_list<std::int64_t> extents) {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents) count *= extent;
    return count;
}

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
    std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

std::vector<float> floats_of(const ggml_tensor* tensor) {
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    ggml_backend_tensor_get(tensor, values.data(), 0, values.size() * sizeof(float));
    return values;
}

}  // namespace

Experiment::Experiment()
    : context_(ggml_init({.mem_size = 4 * ggml_graph_overhead_custom(kGraphSize, true) +
                                      kGraphSize * ggml_tensor_overhead(),
                          .mem_buffer = nullptr,
                          .no_alloc = true})),
      cpu_(ggml_backend_cpu_init()) {
    ggml_backend_cpu_set_n_threads(cpu_.get(), 2);
}

ggml_tensor* Experiment::leaf(std::initializer_list<std::int64_t> extents,
                              const std::vector<float>& data) {
    ggml_tensor* tensor = ggml_new_tensor(context(), GGML_TYPE_F32,
                                          static_cast<int>(extents.size()), extents.begin());
    contents_.emplace_back(tensor, bytes_of(data));
    return tensor;
}

ggml_tensor* Experiment::parameter(std::initializer_list<std::int64_t> extents, float low,
                                   float high) {
    ggml_tensor* tensor = constant(extents, low, high);
    ggml_set_param(tensor);
    ggml_format_name(tensor, "p%zu", parameters_.size());
    parameters_.push_back(tensor);
    return tensor;
}

ggml_tensor* Experiment::constant(std::initializer_list<std::int64_t> extents, float low,
                                  float high) {
    return leaf(extents, mixed_values(product(extents), low, high, seed_++));
}

ggml_tensor* Experiment::integers(const std::vector<std::int32_t>& values) {
    ggml_tensor* tensor =
        ggml_new_tensor_1d(context(), GGML_TYPE_I32, static_cast<std::int64_t>(values.size()));
    contents_.emplace_back(tensor, bytes_of(values));
    return tensor;
}

ggml_tensor* Experiment::values(std::initializer_list<std::int64_t> extents,
                                const std::vector<float>& values) {
    return leaf(extents, values);
}

std::string Experiment::run(ggml_tensor* y) {
    ggml_context* ctx = context();
    // Sums are taken of dense tensors; the copy is part of what is tested.
    y_ = ggml_is_contiguous(y) ? y : ggml_cont(ctx, y);
    weights_ = mixed_values(ggml_nelements(y_), 0.5F, 1.5F, 99);
    ggml_tensor* weights = ggml_dup_tensor(ctx, y_);
    contents_.emplace_back(weights, bytes_of(weights_));
    ggml_tensor* loss = ggml_sum(ctx, ggml_mul(ctx, y_, weights));
    ggml_set_loss(loss);
    forward_ = ggml_new_graph_custom(ctx, kGraphSize, true);
    ggml_build_forward_expand(forward_, loss);
    backward_ = ggml_graph_dup(ctx, forward_, true);
    heddle_clear_error();
    ggml_build_backward_expand(ctx, backward_, nullptr);
    if (*heddle_last_error() != '\0') return heddle_last_error();
    memory_.reset(ggml_backend_alloc_ctx_tensors(ctx, cpu_.get()));
    if (memory_ == nullptr) return heddle_last_error();
    for (const auto& [tensor, bytes] : contents_) {
        ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
    }
    ggml_graph_reset(backward_);
    if (*heddle_last_error() != '\0') return heddle_last_error();
    const bool computed = ggml_backend_graph_compute(cpu_.get(), backward_) == GGML_STATUS_SUCCESS;
    return computed ? "" : heddle_last_error();
}

std::vector<float> Experiment::gradient(const ggml_tensor* p) const {
    const ggml_tensor* gradient = ggml_graph_get_grad(backward_, p);
    if (gradient == nullptr || !ggml_are_same_shape(gradient, p)) return {};
    return floats_of(gradient);
}

/// Summed up in double precision: only the roundings within y are left.
double Experiment::loss() {
    if (ggml_backend_graph_compute(cpu_.get(), forward_) != GGML_STATUS_SUCCESS) return 0;
    const std::vector<float> y = floats_of(y_);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += double{y[i]} * double{weights_[i]};
    return sum;
}

std::vector<double> Experiment::difference(ggml_tensor* p) {
    std::vector<float> x = floats_of(p);
    std::vector<double> slopes(x.size());
    const auto loss_at = [&](std::size_t i, float value) {
        const float before = std::exchange(x[i], value);
        ggml_backend_tensor_set(p, x.data(), 0, x.size() * sizeof(float));
        x[i] = before;
        return loss();
    };
    // Wide enough that roundings of y do not matter; the error is of fourth order in it.
    constexpr float step = 0x1p-6F;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double near = loss_at(i, x[i] + step) - loss_at(i, x[i] - step);
        const double far = loss_at(i, x[i] + 2 * step) - loss_at(i, x[i] - 2 * step);
        slopes[i] = (8 * near - far) / (12 * double{step});
    }
    ggml_backend_tensor_set(p, x.data(), 0, x.size() * sizeof(float));
    return slopes;
}

void Experiment::expect_agreement(ggml_tensor* y, double tolerance) {
    ASSERT_NE(y, nullptr) << heddle_last_error();
    ASSERT_EQ(run(y), "");
    for (ggml_tensor* p : parameters_) {
        const auto gradient = this->gradient(p);
        const auto expected = difference(p);
        ASSERT_EQ(gradient.size(), expected.size()) << ggml_get_name(p);
        double largest = 0;
        for (const double slope : expected) largest = std::max(largest, std::abs(slope));
        ASSERT_GT(largest, 0) << ggml_get_name(p);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_NEAR(gradient[i], expected[i], tolerance * largest)
                << ggml_get_name(p) << ", element " << i;
        }
    }
}

}  // namespace heddle::test
