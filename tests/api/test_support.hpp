#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <heddle/heddle.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace heddle {

/// The value of a result, which the test needs to go on.
template <class T>
T must(Result<T> result) {
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    if (!result) throw std::runtime_error("the test cannot go on");
    return *std::move(result);
}

/// What a failed result says; "succeeded" if it did not fail.
template <class T>
std::string said(const Result<T>& result) {
    return result ? "succeeded" : result.error().message;
}

/// Computes tensors on the processor.
class Calculator {
public:
    /// What `tensor` is when `values` are written into `inputs`.
    std::vector<float> operator()(Context& context, const Tensor& tensor,
                                  const std::vector<Tensor>& inputs = {},
                                  const std::vector<std::vector<float>>& values = {}) {
        const Graph graph = must(Graph::of(context, tensor.as_output()));
        scheduler_.reset();
        must(scheduler_.allocate(graph));
        for (std::size_t i = 0; i < inputs.size(); ++i) must(write(inputs[i], values[i]));
        must(scheduler_.compute(graph));
        return must(read<float>(tensor));
    }

private:
    Scheduler scheduler_ = must(Scheduler::make({must(Device::cpu())}));
};

}  // namespace heddle
