#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ggml-cpp.h"
#include "ggml.h"

namespace heddle::test {

/// A small forward graph on the CPU with parameters and constants, whose gradients can be compared
/// with differences of its results.
class Experiment {
public:
    Experiment();

    ggml_context* context() { return context_.get(); }

    /// A parameter with distinct, evenly spaced values between `low` and `high` in mixed order.
    /// None is near the middle: a range around 0 keeps away from kinks there.
    ggml_tensor* parameter(std::initializer_list<std::int64_t> extents, float low = -1.5F,
                           float high = 1.5F);

    /// The same, without a gradient.
    ggml_tensor* constant(std::initializer_list<std::int64_t> extents, float low = -1.5F,
                          float high = 1.5F);

    /// A vector of whole numbers.
    ggml_tensor* integers(const std::vector<std::int32_t>& values);

    /// A constant with given values.
    ggml_tensor* values(std::initializer_list<std::int64_t> extents,
                        const std::vector<float>& values);

    const std::vector<ggml_tensor*>& parameters() const { return parameters_; }

    /// Builds loss and gradients over `y`, an f32 tensor: the loss is a sum of the elements of y,
    /// each with a weight of its own. Computes everything once. Gives an empty text, or what
    /// failed.
    std::string run(ggml_tensor* y);

    /// Of parameter `p`, by the graph; empty if it has none.
    std::vector<float> gradient(const ggml_tensor* p) const;

    /// Of parameter `p`, by differences over four points around each of its elements.
    std::vector<double> difference(ggml_tensor* p);

    /// Runs, and expects every parameter to have a gradient that differs from the differences by
    /// at most `tolerance` of the largest of them.
    void expect_agreement(ggml_tensor* y, double tolerance);

private:
    ggml_tensor* leaf(std::initializer_list<std::int64_t> extents, const std::vector<float>& data);
    double loss();

    ggml_context_ptr context_;
    ggml_backend_ptr cpu_;
    ggml_backend_buffer_ptr memory_;
    std::vector<ggml_tensor*> parameters_;
    std::vector<std::pair<ggml_tensor*, std::vector<std::uint8_t>>> contents_;
    ggml_tensor* y_ = nullptr;
    std::vector<float> weights_;
    ggml_cgraph* forward_ = nullptr;
    ggml_cgraph* backward_ = nullptr;
    std::uint32_t seed_ = 1;
};

}  // namespace heddle::test
