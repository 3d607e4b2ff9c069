#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "backends/vulkan/device.hpp"
#include "ggml-alloc.h"
#include "ggml-cpp.h"

/// What tests of a device share: the driver that computes on the CPU, with vectors on it.
namespace heddle::vulkan {

/// The board of the first software device under `options`; none where there is no such driver.
inline std::optional<Board> software_board(Options options) {
    const auto instance = Instance::open(options.loader);
    if (!instance) return std::nullopt;
    for (int number = 0; number < 8; ++number) {
        options.visible = std::to_string(number);
        auto survey = survey_devices(*instance, options);
        if (!survey) return std::nullopt;
        if (survey->boards.front().facts.is_software) return std::move(survey->boards.front());
    }
    return std::nullopt;
}

/// A device with one stream, and vectors on it.
class Bench {
public:
    explicit Bench(const Options& options = {}) {
        auto board = software_board(options);
        if (!board) return;
        device_ = std::make_unique<VulkanDevice>(nullptr, *std::move(board));
        stream_.reset(ggml_backend_dev_init(device_->handle(), nullptr));
        context_.reset(ggml_init({1 << 20, nullptr, true}));
    }

    bool is_there() const { return device_ != nullptr; }
    VulkanDevice& device() { return *device_; }
    ggml_backend_t stream() { return stream_.get(); }
    ggml_context* context() { return context_.get(); }

    ggml_tensor* vector(std::int64_t n) {
        return ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, n);
    }
    bool allocate() {
        buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), stream_.get()));
        return buffer_ != nullptr;
    }
    ggml_cgraph* graph(ggml_tensor* result) {
        ggml_cgraph* graph = ggml_new_graph(context_.get());
        ggml_build_forward_expand(graph, result);
        return graph;
    }

private:
    std::unique_ptr<VulkanDevice> device_;
    ggml_context_ptr context_;
    ggml_backend_ptr stream_;
    ggml_backend_buffer_ptr buffer_;
};

inline std::vector<float> ramp(std::size_t n) {
    std::vector<float> values(n);
    std::iota(values.begin(), values.end(), 1.0f);
    return values;
}

inline std::vector<float> values_of(const ggml_tensor* tensor) {
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    ggml_backend_tensor_get(tensor, values.data(), 0, ggml_nbytes(tensor));
    return values;
}

#define HEDDLE_BENCH(name, ...) \
    Bench name{__VA_ARGS__};    \
    if (!name.is_there()) GTEST_SKIP() << "there is no Vulkan driver for the CPU"

}  // namespace heddle::vulkan
