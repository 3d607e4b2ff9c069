#pragma once

#include <cstddef>

#include "core/context.hpp"
#include "core/error.hpp"
#include "runtime/objects.hpp"
#include "runtime/owned.hpp"

namespace heddle {

/// Gets memory of `type` for all tensors of `context` that have none, and places them and the views
/// in it. Gives one buffer, or a multi-buffer where the type's largest is too small.
///
/// Null, without a failure, if no tensor needs memory. The context was made without data. If it
/// fails, all tensors are as they were.
Result<OwnedBuffer> allocate_context(Context& context, BufferType& type);

/// Bytes that `allocate_context` would ask for.
Result<std::size_t> measure_context(const Context& context, BufferType& type);

}  // namespace heddle
