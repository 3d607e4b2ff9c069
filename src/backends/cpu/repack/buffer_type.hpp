#pragma once

#include <atomic>

#include "core/root_buffer.hpp"
#include "ggml-backend-impl.h"

/// Weights laid out for the kernels that multiply them (see repack/layout.hpp).
namespace heddle::cpu {

/// The buffer type "CPU_REPACK". Weights are rearranged when they are written, which is possible
/// for whole tensors only, and cannot be read back. `device` of the first call counts.
ggml_backend_buffer_type_t repack_buffer_type(ggml_backend_dev_t device);

/// Null until the type is first asked for: till then nothing can lie in it.
extern constinit std::atomic<ggml_backend_buffer_type_t> made_repack_type;

inline bool is_repack_buffer_type(ggml_backend_buffer_type_t type) {
    return type != nullptr && type == made_repack_type.load(std::memory_order_acquire);
}

/// Whether `tensor`, or what it is a view of, lies in a buffer of that type.
inline bool is_repacked(const Tensor& tensor) {
    const ggml_backend_buffer_type_t type = made_repack_type.load(std::memory_order_acquire);
    if (type == nullptr) return false;
    const ggml_backend_buffer_t buffer = root_buffer(tensor);
    return buffer != nullptr && buffer->buft == type;
}

/// Whether the instruction set in use multiplies any repacked weights.
bool has_repacked_products();

}  // namespace heddle::cpu
