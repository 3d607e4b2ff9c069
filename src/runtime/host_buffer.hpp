#pragma once

#include <cstddef>

#include "core/error.hpp"
#include "core/hooks.h"
#include "runtime/objects.hpp"
#include "runtime/owned.hpp"

namespace heddle {

/// Ordinary memory, "CPU". There with or without a CPU device.
BufferType& host_buffer_type();

/// Ordinary memory that belongs to the caller, "CPU_Mapped".
BufferType& mapped_buffer_type();

/// A buffer around `size` bytes of the caller's, which must outlive it. `memory` is aligned to 32.
Result<OwnedBuffer> buffer_from_memory(void* memory, std::size_t size);

}  // namespace heddle
