#pragma once

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "runtime/objects.hpp"

namespace heddle {

/// Gives `tensor`, which has no memory yet, the address `address` inside `buffer`.
///
/// The address must be aligned for the buffer's type, and all the bytes that the type reserves for
/// the tensor must lie in the buffer. A tensor that cannot be placed stays as it was.
Result<> place_tensor(Buffer& buffer, Tensor& tensor, void* address);

/// Gives a view the memory of the tensor it is a view of, which has its own already.
Result<> place_view(Tensor& view);

}  // namespace heddle
