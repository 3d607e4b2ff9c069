#pragma once

#include <span>
#include <vector>

#include "ggml/ops_math.h"
#include "heddle/heddle.hpp"

namespace heddle::tool::bench {

/// A stream of a worker with a tensor of F32.
class Place {
public:
    static Result<Place> make(const Device& device, std::size_t bytes) {
        HEDDLE_TRY_ASSIGN(Stream stream, device.start());
        Place place(std::move(stream));
        place.context_.reset(ggml_init({std::size_t{1} << 14, nullptr, true}));
        place.tensor_ = ggml_new_tensor_1d(place.context_.get(), GGML_TYPE_F32,
                                           static_cast<std::int64_t>(bytes / sizeof(float)));
        place.node_ = ggml_scale_inplace(place.context_.get(), place.tensor_, 1);
        place.tensor_->flags |= GGML_TENSOR_FLAG_COMPUTE;  // it takes part in sums
        place.graph_ = ggml_new_graph_custom(place.context_.get(), 8, false);
        ggml_build_forward_expand(place.graph_, place.node_);
        place.buffer_.reset(detail::call([&] {
            return ggml_backend_alloc_ctx_tensors(place.context_.get(), place.stream_.c());
        }));
        if (place.buffer_ == nullptr) return detail::last_failure(Errc::out_of_memory, "no memory");
        HEDDLE_TRY(place.set(std::vector<std::byte>(bytes)));
        return place;
    }

    ggml_tensor* tensor() const { return tensor_; }
    ggml_backend_t stream() const { return stream_.c(); }
    Result<> wait() { return stream_.wait(); }

    Result<> set(std::span<const std::byte> bytes) {
        return said([&] { ggml_backend_tensor_set(tensor_, bytes.data(), 0, bytes.size()); });
    }
    Result<> get(std::span<std::byte> bytes) {
        return said([&] { ggml_backend_tensor_get(tensor_, bytes.data(), 0, bytes.size()); });
    }
    Result<> set_and_wait(std::span<const std::byte> bytes) {
        HEDDLE_TRY(said([&] {
            ggml_backend_tensor_set_async(stream_.c(), tensor_, bytes.data(), 0, bytes.size());
        }));
        return wait();
    }
    Result<> compute_and_wait() {
        HEDDLE_TRY(detail::from(
            detail::call([&] { return ggml_backend_graph_compute_async(stream_.c(), graph_); })));
        return wait();
    }
    Result<> copy_to(Place& target) {
        HEDDLE_TRY(said([&] {
            ggml_backend_tensor_copy_async(stream_.c(), target.stream_.c(), tensor_,
                                           target.tensor_);
        }));
        return target.wait();
    }

private:
    explicit Place(Stream stream) : stream_(std::move(stream)) {}

    template <class Call>
    static Result<> said(const Call& call) {
        detail::call([&] {
            call();
            return 0;
        });
        return detail::check_said(Errc::device);
    }

    Stream stream_;
    ggml_context_ptr context_;
    ggml_backend_buffer_ptr buffer_;
    ggml_tensor *tensor_ = nullptr, *node_ = nullptr;
    ggml_cgraph* graph_ = nullptr;
};

}  // namespace heddle::tool::bench
