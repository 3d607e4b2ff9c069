#pragma once

#include "core/context.hpp"
#include "runtime/meta/device.hpp"
#include "runtime/owned.hpp"

namespace heddle::meta {

/// allocate_context() for memory of a joined device: each device gets room for its parts alone.
/// Null, without a failure, if no tensor needs memory. If it fails, all tensors are as they were.
Result<OwnedBuffer> allocate_context(Context& context, JoinedDevice& device);

}  // namespace heddle::meta
