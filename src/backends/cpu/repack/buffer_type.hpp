#pragma once

#include "core/tensor.hpp"
#include "ggml-backend-impl.h"

/// Weights laid out for the kernels that multiply them (see repack/layout.hpp).
namespace heddle::cpu {

/// The buffer type "CPU_REPACK". Weights are rearranged when they are written, which is possible
/// for whole tensors only, and cannot be read back. `device` of the first call counts.
ggml_backend_buffer_type_t repack_buffer_type(ggml_backend_dev_t device);

bool is_repack_buffer_type(ggml_backend_buffer_type_t type);

/// Whether `tensor`, or what it is a view of, lies in a buffer of that type.
bool is_repacked(const Tensor& tensor);

/// Whether the instruction set in use multiplies any repacked weights.
bool has_repacked_products();

}  // namespace heddle::cpu
