#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/sim/test_support.hpp"
#include "ggml-alloc.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "heddle/sched.h"

/// What tests of joined devices share: devices, a program that knows how its tensors are cut, and
/// graphs that are computed on a joined device and on the CPU alone.
namespace heddle::meta {

using Values = std::vector<float>;

struct SegmentSpec {
    std::uint32_t repeats;
    std::vector<std::int64_t> shares;
};

inline ggml_backend_meta_split_state state_of(ggml_backend_meta_split_axis axis,
                                              const std::vector<SegmentSpec>& segments = {}) {
    ggml_backend_meta_split_state state{};
    state.axis = axis;
    state.n_segments = static_cast<std::uint32_t>(std::max<std::size_t>(segments.size(), 1));
    state.nr[0] = 1;
    for (std::size_t s = 0; s < segments.size(); ++s) {
        state.nr[s] = segments[s].repeats;
        const std::size_t devices = segments[s].shares.size();
        for (std::size_t j = 0; j < devices; ++j) {
            state.ne[s * devices + j] = segments[s].shares[j];
        }
    }
    return state;
}

inline ggml_backend_meta_split_state cut(int axis, std::vector<std::int64_t> shares) {
    return state_of(static_cast<ggml_backend_meta_split_axis>(axis), {{1, std::move(shares)}});
}

/// Says by name how tensors are cut; all others are mirrored.
struct Splits {
    std::map<std::string, ggml_backend_meta_split_state> by_name;

    static ggml_backend_meta_split_state find(const ggml_tensor* tensor, void* self) {
        const auto& all = static_cast<const Splits*>(self)->by_name;
        const auto found = all.find(tensor->name);
        return found != all.end() ? found->second : state_of(GGML_BACKEND_SPLIT_AXIS_MIRRORED);
    }
};

inline ggml_backend_dev_t cpu_device() {
    static const sim::Stream stream(ggml_backend_cpu_init());
    return ggml_backend_get_device(stream.get());
}

/// `count` simulated devices, and as many times the CPU as asked for.
inline std::vector<ggml_backend_dev_t> some_devices(std::size_t count, std::size_t cpus = 0,
                                                    const std::string& more = "") {
    std::vector<ggml_backend_dev_t> devices;
    if (count > 0) {
        EXPECT_TRUE(sim::configure("devices=" + std::to_string(count) + more));
        for (std::size_t i = 0; i < count; ++i) devices.push_back(sim::device(i));
    }
    devices.insert(devices.end(), cpus, cpu_device());
    return devices;
}

/// A joined device, and a stream on it.
class Joined {
public:
    Joined(std::vector<ggml_backend_dev_t> devices,
           std::map<std::string, ggml_backend_meta_split_state> splits)
        : devices_(std::move(devices)), splits_(new Splits{std::move(splits)}) {
        device_ =
            ggml_backend_meta_device(devices_.data(), devices_.size(), Splits::find, splits_.get());
        EXPECT_NE(device_, nullptr) << heddle_last_error();
        stream_.reset(ggml_backend_dev_init(device_, nullptr));
        EXPECT_NE(stream_, nullptr) << heddle_last_error();
    }

    ggml_backend_dev_t device() const { return device_; }
    ggml_backend_t stream() const { return stream_.get(); }
    ggml_backend_buffer_type_t memory() const { return ggml_backend_dev_buffer_type(device_); }
    ggml_backend_dev_t part(std::size_t i) const { return devices_[i]; }

private:
    std::vector<ggml_backend_dev_t> devices_;
    std::unique_ptr<Splits> splits_;
    ggml_backend_dev_t device_;
    sim::Stream stream_;
};

/// A graph with the tensors it stands on: those of the program, and inputs.
class Model {
public:
    /// A tensor of the program's, filled with numbers that follow from its name.
    Tensor* weight(const char* name, std::vector<std::int64_t> extents,
                   ggml_type type = GGML_TYPE_F32) {
        Tensor* const made =
            ggml_new_tensor(weights_.get(), type, static_cast<int>(extents.size()), extents.data());
        return ggml_set_name(made, name);
    }
    Tensor* input(const char* name, std::vector<std::int64_t> extents,
                  ggml_type type = GGML_TYPE_F32) {
        Tensor* const made =
            ggml_new_tensor(context(), type, static_cast<int>(extents.size()), extents.data());
        ggml_set_input(ggml_set_name(made, name));
        inputs_.push_back(made);
        return made;
    }
    Tensor* result(Tensor* node) {
        ggml_set_output(node);
        ggml_build_forward_expand(graph_, node);
        results_.push_back(node);
        return node;
    }
    ggml_context* context() { return nodes_.get(); }
    ggml_cgraph* graph() { return graph_; }
    const std::vector<Tensor*>& results() const { return results_; }

    /// Numbers for indices: given by the test, as bytes.
    void set_indices(Tensor* tensor, std::vector<std::int32_t> values) {
        indices_[tensor] = std::move(values);
    }

    ggml_backend_buffer_t place_weights(ggml_backend_buffer_type_t type) {
        buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights_.get(), type));
        if (buffer_ == nullptr) return nullptr;
        ggml_backend_buffer_set_usage(buffer_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        for (Tensor* t = ggml_get_first_tensor(weights_.get()); t != nullptr;
             t = ggml_get_next_tensor(weights_.get(), t)) {
            fill(t);
        }
        return buffer_.get();
    }
    void fill_inputs() {
        for (Tensor* each : inputs_) fill(each);
    }
    std::vector<Values> read_results() {
        std::vector<Values> values;
        for (const Tensor* each : results_) values.push_back(read_floats(each));
        return values;
    }

    /// Places and computes everything on one stream.
    ggml_status run(ggml_backend_t stream) {
        ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(stream);
        if (buffer_ == nullptr && ggml_get_first_tensor(weights_.get()) != nullptr) {
            if (place_weights(type) == nullptr) return GGML_STATUS_ALLOC_FAILED;
        }
        if (allocator_ == nullptr) {
            allocator_.reset(ggml_gallocr_new(type));
            if (!ggml_gallocr_alloc_graph(allocator_.get(), graph_)) {
                return GGML_STATUS_ALLOC_FAILED;
            }
        }
        fill_inputs();
        return ggml_backend_graph_compute(stream, graph_);
    }

    static Values read_floats(const Tensor* tensor) {
        const auto count = static_cast<std::size_t>(ggml_nelements(tensor));
        Values values(count);
        if (tensor->type == GGML_TYPE_F32) {
            ggml_backend_tensor_get(tensor, values.data(), 0, count * sizeof(float));
        } else if (tensor->type == GGML_TYPE_I32) {
            std::vector<std::int32_t> whole(count);
            ggml_backend_tensor_get(tensor, whole.data(), 0, count * sizeof(std::int32_t));
            values.assign(whole.begin(), whole.end());
        } else {
            std::vector<std::byte> bytes(ggml_nbytes(tensor));
            ggml_backend_tensor_get(tensor, bytes.data(), 0, bytes.size());
            ggml_get_type_traits(tensor->type)
                ->to_float(bytes.data(), values.data(), static_cast<std::int64_t>(count));
        }
        return values;
    }

private:
    void fill(Tensor* tensor) {
        if (const auto given = indices_.find(tensor); given != indices_.end()) {
            ggml_backend_tensor_set(tensor, given->second.data(), 0,
                                    given->second.size() * sizeof(std::int32_t));
            return;
        }
        const auto count = static_cast<std::size_t>(ggml_nelements(tensor));
        const Values values =
            sim::numbers(count, static_cast<unsigned>(std::hash<std::string>{}(tensor->name)));
        std::vector<std::byte> bytes(ggml_nbytes(tensor));
        if (tensor->type == GGML_TYPE_F32) {
            std::memcpy(bytes.data(), values.data(), bytes.size());
        } else {
            const std::int64_t row = tensor->ne[0];
            ggml_quantize_chunk(tensor->type, values.data(), bytes.data(), 0,
                                static_cast<std::int64_t>(count) / row, row, nullptr);
        }
        ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
    }

    static sim::ContextOwner make_context() {
        return sim::ContextOwner(
            ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true}));
    }

    sim::ContextOwner weights_ = make_context(), nodes_ = make_context();
    ggml_cgraph* graph_ = ggml_new_graph_custom(nodes_.get(), 256, false);
    std::vector<Tensor*> inputs_, results_;
    std::map<const Tensor*, std::vector<std::int32_t>> indices_;
    sim::Buffer buffer_;
    std::unique_ptr<ggml_gallocr, sim::Release<ggml_gallocr, ggml_gallocr_free>> allocator_;
};

using Build = std::function<void(Model&)>;

/// What the CPU alone makes of a model.
inline std::vector<Values> reference(const Build& build) {
    Model model;
    build(model);
    const sim::Stream stream(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(stream.get(), 1);
    EXPECT_EQ(model.run(stream.get()), GGML_STATUS_SUCCESS) << heddle_last_error();
    return model.read_results();
}

/// Sums are added in another order than on one device: a few roundings of terms of size 1.
inline void expect_close(const std::vector<Values>& got, const std::vector<Values>& expected,
                         double tolerance = 1e-4) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t r = 0; r < got.size(); ++r) {
        ASSERT_EQ(got[r].size(), expected[r].size());
        for (std::size_t i = 0; i < got[r].size(); ++i) {
            ASSERT_NEAR(got[r][i], expected[r][i], tolerance * (1 + std::abs(expected[r][i])))
                << "element " << i << " of result " << r;
        }
    }
}

/// Computes the model on a joined device and compares it with the CPU.
inline void expect_same(const Joined& joined, const Build& build, double tolerance = 1e-4) {
    Model model;
    build(model);
    ASSERT_EQ(model.run(joined.stream()), GGML_STATUS_SUCCESS) << heddle_last_error();
    expect_close(model.read_results(), reference(build), tolerance);
}

/// Computes the model and expects that the joined device declines, for a reason.
inline void expect_refusal(const Joined& joined, const Build& build, const char* reason) {
    Model model;
    build(model);
    EXPECT_NE(model.run(joined.stream()), GGML_STATUS_SUCCESS);
    EXPECT_THAT(heddle_last_error(), testing::HasSubstr(reason));
}

}  // namespace heddle::meta
