// Bytes in and out of tensors.

#include "capi/ggml_backend_boundary.hpp"
#include "runtime/transfer.hpp"

using namespace heddle;
using capi::require;

// ---- blocking ----------------------------------------------------------------------------------

void ggml_backend_tensor_set(ggml_tensor* tensor, const void* data, size_t offset, size_t size) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(tensor, "writing a tensor", "the tensor"));
        return write_tensor(*tensor, data, offset, size);
    });
}

void ggml_backend_tensor_get(const ggml_tensor* tensor, void* data, size_t offset, size_t size) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(tensor, "reading a tensor", "the tensor"));
        return read_tensor(*tensor, data, offset, size);
    });
}

void ggml_backend_tensor_set_2d(ggml_tensor* tensor, const void* data, size_t offset, size_t size,
                                size_t n_copies, size_t stride_tensor, size_t stride_data) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(tensor, "writing a tensor", "the tensor"));
        return write_tensor(*tensor, data, offset,
                            Pieces{size, n_copies, stride_tensor, stride_data});
    });
}

void ggml_backend_tensor_get_2d(const ggml_tensor* tensor, void* data, size_t offset, size_t size,
                                size_t n_copies, size_t stride_tensor, size_t stride_data) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(tensor, "reading a tensor", "the tensor"));
        return read_tensor(*tensor, data, offset,
                           Pieces{size, n_copies, stride_tensor, stride_data});
    });
}

void ggml_backend_tensor_memset(ggml_tensor* tensor, uint8_t value, size_t offset, size_t size) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(tensor, "filling a tensor", "the tensor"));
        return fill_tensor(*tensor, value, offset, size);
    });
}

ggml_tensor* ggml_set_zero(ggml_tensor* tensor) {
    const bool is_done = capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(tensor, "zeroing a tensor", "the tensor"));
        return zero_tensor(*tensor);
    });
    return is_done ? tensor : nullptr;
}

void ggml_backend_tensor_copy(const ggml_tensor* src, ggml_tensor* dst) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(src, "copying a tensor", "the source"));
        HEDDLE_TRY(require(dst, "copying a tensor", "the destination"));
        return copy_tensor(*src, *dst);
    });
}

bool ggml_backend_buffer_copy_tensor(const ggml_tensor* src, ggml_tensor* dst) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(src, "copying a tensor", "the source"));
        HEDDLE_TRY(require(dst, "copying a tensor", "the destination"));
        return copy_by_destination(*src, *dst);
    });
}

// ---- in the order of a stream ------------------------------------------------------------------

void ggml_backend_tensor_set_async(ggml_backend_t backend, ggml_tensor* tensor, const void* data,
                                   size_t offset, size_t size) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "writing a tensor", "the stream"));
        HEDDLE_TRY(require(tensor, "writing a tensor", "the tensor"));
        return write_tensor_async(*backend, *tensor, data, offset, size);
    });
}

void ggml_backend_tensor_get_async(ggml_backend_t backend, const ggml_tensor* tensor, void* data,
                                   size_t offset, size_t size) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "reading a tensor", "the stream"));
        HEDDLE_TRY(require(tensor, "reading a tensor", "the tensor"));
        return read_tensor_async(*backend, *tensor, data, offset, size);
    });
}

void ggml_backend_tensor_set_2d_async(ggml_backend_t backend, ggml_tensor* tensor, const void* data,
                                      size_t offset, size_t size, size_t n_copies,
                                      size_t stride_tensor, size_t stride_data) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "writing a tensor", "the stream"));
        HEDDLE_TRY(require(tensor, "writing a tensor", "the tensor"));
        return write_tensor_async(*backend, *tensor, data, offset,
                                  Pieces{size, n_copies, stride_tensor, stride_data});
    });
}

void ggml_backend_tensor_get_2d_async(ggml_backend_t backend, const ggml_tensor* tensor, void* data,
                                      size_t offset, size_t size, size_t n_copies,
                                      size_t stride_tensor, size_t stride_data) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(backend, "reading a tensor", "the stream"));
        HEDDLE_TRY(require(tensor, "reading a tensor", "the tensor"));
        return read_tensor_async(*backend, *tensor, data, offset,
                                 Pieces{size, n_copies, stride_tensor, stride_data});
    });
}

void ggml_backend_tensor_copy_async(ggml_backend_t backend_src, ggml_backend_t backend_dst,
                                    const ggml_tensor* src, ggml_tensor* dst) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(backend_src, "copying a tensor", "the stream of the source"));
        HEDDLE_TRY(require(backend_dst, "copying a tensor", "the stream of the destination"));
        HEDDLE_TRY(require(src, "copying a tensor", "the source"));
        HEDDLE_TRY(require(dst, "copying a tensor", "the destination"));
        return copy_tensor_async(*backend_src, *backend_dst, *src, *dst);
    });
}
