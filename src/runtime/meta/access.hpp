#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/meta/buffer.hpp"

namespace heddle::meta {

/// Moving bytes between the host and a tensor that lies on several devices. `root` is no view; its
/// bytes are counted as if it lay in one piece.
///
/// With `streams`, one for each device, the bytes move in the order of those where that is
/// possible; without, at once.

/// An addend is written to the first device, and zeros to the others: that is exact for all types.
Result<> write_parts(const Tensor& root, Parts& parts, std::size_t offset,
                     std::span<const std::byte> bytes, std::span<Stream* const> streams);

/// Addends are put together on the way, f32 only.
Result<> read_parts(const Tensor& root, const Parts& parts, std::size_t offset,
                    std::span<std::byte> bytes, std::span<Stream* const> streams);

Result<> fill_parts(const Tensor& root, Parts& parts, std::size_t offset, std::size_t size,
                    std::uint8_t value);

}  // namespace heddle::meta
