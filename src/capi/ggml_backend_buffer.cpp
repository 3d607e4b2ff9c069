// Buffer types, buffers, and where tensors lie in them.

#include "capi/ggml_backend_boundary.hpp"
#include "runtime/buffer.hpp"
#include "runtime/host_buffer.hpp"
#include "runtime/multi_buffer.hpp"
#include "runtime/placement.hpp"

using namespace heddle;
using capi::require;

// ---- buffer types ------------------------------------------------------------------------------

const char* ggml_backend_buft_name(ggml_backend_buffer_type_t buft) {
    return capi::made_or_null([&]() -> Result<const char*> {
        HEDDLE_TRY(require(buft, "buffer type name", "the buffer type"));
        return name_of(*buft);
    });
}

ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t buft, size_t size) {
    return capi::made_or_null([&]() -> Result<OwnedBuffer> {
        HEDDLE_TRY(require(buft, "buffer allocation", "the buffer type"));
        return allocate(*buft, size);
    });
}

size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t buft) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY(require(buft, "alignment", "the buffer type"));
        return alignment_of(*buft);
    });
}

size_t ggml_backend_buft_get_max_size(ggml_backend_buffer_type_t buft) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY(require(buft, "largest buffer", "the buffer type"));
        return max_size_of(*buft);
    });
}

size_t ggml_backend_buft_get_alloc_size(ggml_backend_buffer_type_t buft,
                                        const ggml_tensor* tensor) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY(require(buft, "size in a buffer", "the buffer type"));
        HEDDLE_TRY(require(tensor, "size in a buffer", "the tensor"));
        return alloc_size_of(*buft, *tensor);
    });
}

bool ggml_backend_buft_is_host(ggml_backend_buffer_type_t buft) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(buft, "host memory", "the buffer type"));
        return is_host(*buft);
    });
}

ggml_backend_dev_t ggml_backend_buft_get_device(ggml_backend_buffer_type_t buft) {
    return capi::made_or_null([&]() -> Result<Device*> {
        HEDDLE_TRY(require(buft, "device of a buffer type", "the buffer type"));
        return device_of(*buft);
    });
}

ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void) { return &host_buffer_type(); }

// ---- buffers -----------------------------------------------------------------------------------

ggml_backend_buffer_t ggml_backend_buffer_init(ggml_backend_buffer_type_t buft,
                                               ggml_backend_buffer_i iface, void* context,
                                               size_t size) {
    return capi::made_or_null([&]() -> Result<OwnedBuffer> {
        HEDDLE_TRY(require(buft, "new buffer", "the buffer type"));
        return make_buffer(*buft, iface, context, size);
    });
}

ggml_backend_buffer_t ggml_backend_cpu_buffer_from_ptr(void* ptr, size_t size) {
    return capi::made_or_null([&] { return buffer_from_memory(ptr, size); });
}

void ggml_backend_buffer_free(ggml_backend_buffer_t buffer) { free_buffer(buffer); }

const char* ggml_backend_buffer_name(ggml_backend_buffer_t buffer) {
    return capi::made_or_null([&]() -> Result<const char*> {
        HEDDLE_TRY(require(buffer, "buffer name", "the buffer"));
        return name_of(*buffer);
    });
}

void* ggml_backend_buffer_get_base(ggml_backend_buffer_t buffer) {
    return capi::made_or_null([&]() -> Result<void*> {
        HEDDLE_TRY(require(buffer, "buffer address", "the buffer"));
        return base_of(*buffer);
    });
}

size_t ggml_backend_buffer_get_size(ggml_backend_buffer_t buffer) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY(require(buffer, "buffer size", "the buffer"));
        return buffer->size;
    });
}

ggml_status ggml_backend_buffer_init_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor) {
    return capi::status_of([&]() -> Result<> {
        HEDDLE_TRY(require(buffer, "tensor preparation", "the buffer"));
        HEDDLE_TRY(require(tensor, "tensor preparation", "the tensor"));
        return init_tensor(*buffer, *tensor);
    });
}

void ggml_backend_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    capi::handed_over([&]() -> Result<> {
        HEDDLE_TRY(require(buffer, "buffer clear", "the buffer"));
        return clear_buffer(*buffer, value);
    });
}

void ggml_backend_buffer_reset(ggml_backend_buffer_t buffer) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(buffer, "buffer reset", "the buffer"));
        reset_buffer(*buffer);
        return ok();
    });
}

void ggml_backend_buffer_set_usage(ggml_backend_buffer_t buffer, ggml_backend_buffer_usage usage) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(buffer, "buffer usage", "the buffer"));
        set_usage(*buffer, usage);
        return ok();
    });
}

ggml_backend_buffer_usage ggml_backend_buffer_get_usage(ggml_backend_buffer_t buffer) {
    return capi::made([&]() -> Result<Usage> {
        HEDDLE_TRY(require(buffer, "buffer usage", "the buffer"));
        return buffer->usage;
    });
}

ggml_backend_buffer_type_t ggml_backend_buffer_get_type(ggml_backend_buffer_t buffer) {
    return capi::made_or_null([&]() -> Result<BufferType*> {
        HEDDLE_TRY(require(buffer, "buffer type", "the buffer"));
        return buffer->buft;
    });
}

// What a buffer has from its type. Without a buffer the type function says what is wrong.

namespace {

BufferType* type_or_null(ggml_backend_buffer_t buffer) {
    return buffer != nullptr ? buffer->buft : nullptr;
}

}  // namespace

size_t ggml_backend_buffer_get_alignment(ggml_backend_buffer_t buffer) {
    return ggml_backend_buft_get_alignment(type_or_null(buffer));
}
size_t ggml_backend_buffer_get_max_size(ggml_backend_buffer_t buffer) {
    return ggml_backend_buft_get_max_size(type_or_null(buffer));
}
size_t ggml_backend_buffer_get_alloc_size(ggml_backend_buffer_t buffer, const ggml_tensor* tensor) {
    return ggml_backend_buft_get_alloc_size(type_or_null(buffer), tensor);
}
bool ggml_backend_buffer_is_host(ggml_backend_buffer_t buffer) {
    return ggml_backend_buft_is_host(type_or_null(buffer));
}

// ---- several buffers as one --------------------------------------------------------------------

ggml_backend_buffer_t ggml_backend_multi_buffer_alloc_buffer(ggml_backend_buffer_t* buffers,
                                                             size_t n_buffers) {
    return capi::made_or_null([&]() -> Result<OwnedBuffer> {
        HEDDLE_TRY(require(buffers, "multi-buffer", "the list of parts"));
        return make_multi_buffer({buffers, n_buffers});
    });
}

bool ggml_backend_buffer_is_multi_buffer(ggml_backend_buffer_t buffer) {
    return buffer != nullptr && is_multi_buffer(*buffer);
}

void ggml_backend_multi_buffer_set_usage(ggml_backend_buffer_t buffer,
                                         ggml_backend_buffer_usage usage) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(buffer, "multi-buffer usage", "the buffer"));
        if (!is_multi_buffer(*buffer)) {
            return invalid("multi-buffer usage: a buffer of type '", name_of(*buffer),
                           "' is no multi-buffer");
        }
        set_usage(*buffer, usage);
        return ok();
    });
}

// ---- places ------------------------------------------------------------------------------------

ggml_status ggml_backend_tensor_alloc(ggml_backend_buffer_t buffer, ggml_tensor* tensor,
                                      void* addr) {
    return capi::status_of([&]() -> Result<> {
        HEDDLE_TRY(require(buffer, "tensor placement", "the buffer"));
        HEDDLE_TRY(require(tensor, "tensor placement", "the tensor"));
        return place_tensor(*buffer, *tensor, addr);
    });
}

ggml_status ggml_backend_view_init(ggml_tensor* tensor) {
    return capi::status_of([&]() -> Result<> {
        HEDDLE_TRY(require(tensor, "view placement", "the view"));
        return place_view(*tensor);
    });
}
