#pragma once

#include <cstddef>
#include <span>

#include "core/error.hpp"
#include "runtime/objects.hpp"
#include "runtime/owned.hpp"

namespace heddle {

/// One buffer object for several buffers: freeing, clearing, resetting it does so to all of them.
/// It has no address of its own; tensors point to the part they live in.
///
/// Takes over the parts, unless it fails: then they stay the caller's.
Result<OwnedBuffer> make_multi_buffer(std::span<Buffer* const> parts);

bool is_multi_buffer(const Buffer& buffer);

/// The parts; empty for any other buffer.
std::span<Buffer* const> parts_of(const Buffer& buffer);

}  // namespace heddle
