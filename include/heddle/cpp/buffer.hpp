/// Memory of devices. Part of `heddle/heddle.hpp`.
#pragma once

#include "context.hpp"
#include "device.hpp"

namespace heddle::api {

/// Memory that tensors lie in. Goes when its owner does.
class Buffer {
public:
    explicit Buffer(ggml_backend_buffer_t buffer) : buffer_(buffer) {}

    /// Memory of `type` for all tensors of `context` that have none yet.
    static Result<Buffer> for_all(const Context& context, ggml_backend_buffer_type_t type) {
        HEDDLE_TRY(context.check());
        ggml_backend_buffer_t made = detail::call(
            [&] { return ggml_backend_alloc_ctx_tensors_from_buft(context.c(), type); });
        if (made != nullptr) return Buffer(made);
        return detail::last_failure(Errc::out_of_memory, "no tensor of the context needs memory");
    }
    static Result<Buffer> for_all(const Context& context, const Device& device) {
        return for_all(context, device.buffer_type());
    }

    /// Memory of the program's own, as a device sees it. It must outlive the buffer.
    static Result<Buffer> around(const Device& device, void* memory, std::size_t size,
                                 std::size_t largest_tensor) {
        ggml_backend_buffer_t made = detail::call([&] {
            return ggml_backend_dev_buffer_from_host_ptr(device.c(), memory, size, largest_tensor);
        });
        if (made != nullptr) return Buffer(made);
        return detail::last_failure(Errc::unsupported, "the device cannot use memory of the host");
    }

    /// Says that it holds weights: nodes that read them run where they are.
    void set_weights() { ggml_backend_buffer_set_usage(c(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS); }
    void clear(std::uint8_t value = 0) { ggml_backend_buffer_clear(c(), value); }

    /// Gives `tensor` its place at `address` in here.
    Result<> place(const Tensor& tensor, void* address) {
        const ggml_status status =
            detail::call([&] { return ggml_backend_tensor_alloc(c(), tensor.c(), address); });
        if (status == GGML_STATUS_SUCCESS) return ok();
        return detail::last_failure(Errc::invalid_argument, "the tensor does not fit there");
    }

    std::size_t size() const { return ggml_backend_buffer_get_size(c()); }
    bool is_host() const { return ggml_backend_buffer_is_host(c()); }
    ggml_backend_buffer_t c() const { return buffer_.get(); }

private:
    ggml_backend_buffer_ptr buffer_;
};

}  // namespace heddle::api
