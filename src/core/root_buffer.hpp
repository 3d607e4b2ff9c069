#pragma once

#include "core/tensor.hpp"

namespace heddle {

/// The buffer that holds the bytes of `tensor`: its own, or that of the tensor it is a view of.
inline ggml_backend_buffer* root_buffer(const Tensor& tensor) {
    return tensor.view_src != nullptr ? tensor.view_src->buffer : tensor.buffer;
}

}  // namespace heddle
