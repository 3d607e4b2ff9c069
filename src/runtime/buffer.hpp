#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.hpp"
#include "core/root_buffer.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/objects.hpp"
#include "runtime/owned.hpp"

namespace heddle {

using BufferTable = ::ggml_backend_buffer_i;

/// A buffer object around a backend's memory, with usage ANY. The table is copied.
///
/// Every buffer is made here: behind the struct that plug-ins see lies a tail of ours.
Result<OwnedBuffer> make_buffer(BufferType& type, const BufferTable& table, void* context,
                                std::size_t size);

/// Releases the memory, and leaves a buffer of no bytes until that is freed: tensors that still
/// refer to it can be told from others, and using them fails instead of reaching for what is gone.
void empty_buffer(Buffer& buffer) noexcept;

/// How many buffers of the process were emptied so far. Who keeps addresses looks again at where
/// they come from when the number has changed.
std::uint64_t emptied_buffers() noexcept;

/// The first address, perhaps one that only the device understands. Null for a buffer of no bytes
/// and for one without an address of its own (multi-buffer); fails if the backend has none to give.
Result<void*> base_of(Buffer& buffer);

/// Lets the buffer prepare a tensor that has just got its address in it.
Result<> init_tensor(Buffer& buffer, Tensor& tensor);

/// Sets every byte. A buffer of no bytes has nothing to clear.
Result<> clear_buffer(Buffer& buffer, std::uint8_t value);

/// Drops what the backend keeps about tensors in this buffer, before they are placed anew.
void reset_buffer(Buffer& buffer);

/// Says what the buffer, and each part of a multi-buffer, is for.
void set_usage(Buffer& buffer, Usage usage);

inline bool is_host(Buffer& buffer) { return is_host(*buffer.buft); }
inline const char* name_of(Buffer& buffer) { return name_of(*buffer.buft); }

// ---- buffers know their writes -----------------------------------------------------------------

/// A stamp of the last time this library wrote into the buffer: set, filled, cleared, copied into.
/// Never 0; it grows with each write, and no two buffers ever have the same, even one after the
/// other at one address.
///
/// Equal stamps mean that nothing was written in between, but by graphs that ran, and by programs
/// that write through the data pointers of host buffers. Any thread may ask.
std::uint64_t write_generation(const Buffer& buffer);

/// Called after a write has been made or queued, so that a reader with the old number reads again.
void note_write(Buffer& buffer);

}  // namespace heddle
