#pragma once

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "ggml-alloc.h"
#include "runtime/objects.hpp"

namespace heddle {

/// Places tensors one after the other in a buffer. A plain value; nothing to release.
using LinearAllocator = ::ggml_tallocr;

/// Begins at the first aligned address of `buffer`.
Result<LinearAllocator> make_linear_allocator(Buffer& buffer);

/// Places `tensor`, which has no memory yet and is no view. A tensor for which there is no room, or
/// that the backend refuses, takes nothing: a smaller one may still fit.
Result<> allocate_next(LinearAllocator& allocator, Tensor& tensor);

/// `size` rounded up to a multiple of `alignment`, a power of two; fails where that cannot be
/// counted. `tensor` is named in the sentence.
Result<std::size_t> padded_size(const Tensor& tensor, std::size_t size, std::size_t alignment);

}  // namespace heddle
