#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "runtime/objects.hpp"

namespace heddle {

/// Moving bytes between the host and tensors, and between tensors, wherever they are.
///
/// Offsets and sizes are in bytes of the tensor's extent, gaps included. What does not fit, has no
/// memory, or cannot be done by the tensor's backend fails before anything is written. The blocking
/// functions do not wait for streams; the caller synchronises first.

/// `count` pieces of `size` bytes, evenly spaced on both sides.
struct Pieces {
    std::size_t size = 0;
    std::size_t count = 0;
    std::size_t tensor_stride = 0;
    std::size_t data_stride = 0;
};

Result<> write_tensor(Tensor& tensor, const void* data, std::size_t offset, std::size_t size);
Result<> read_tensor(const Tensor& tensor, void* data, std::size_t offset, std::size_t size);
Result<> write_tensor(Tensor& tensor, const void* data, std::size_t offset, const Pieces& pieces);
Result<> read_tensor(const Tensor& tensor, void* data, std::size_t offset, const Pieces& pieces);

/// Sets `size` bytes to `value`.
Result<> fill_tensor(Tensor& tensor, std::uint8_t value, std::size_t offset, std::size_t size);

/// Sets all bytes to zero, also those of a tensor in a context. An empty tensor needs no memory.
Result<> zero_tensor(Tensor& tensor);

/// Copies `src` to `dst`, which has the same type, extents and strides, on any devices: through the
/// host address of either, else by the destination's backend, else through a staging buffer.
Result<> copy_tensor(const Tensor& src, Tensor& dst);

/// Whether `tensor` was in `buffer` when that was emptied (`empty_buffer`): its address is that of
/// memory which is gone.
inline bool has_lost_memory(const Tensor& tensor, const Buffer& buffer) {
    return buffer.size == 0 && tensor.data != nullptr && !is_empty(tensor);
}

/// What is said of such a tensor.
inline constexpr std::string_view kLostMemory =
    ": the memory that it had was given up when a larger graph was planned";

/// Asks only the backend of the destination; false, and nothing done, if it cannot.
bool copy_by_destination(const Tensor& src, Tensor& dst);

// ---- in the order of a stream ------------------------------------------------------------------
//
// Queued after the stream's work so far and before its later work, if the backend can do that: host
// memory must then stay as it is until the stream has been synchronised. Otherwise the stream is
// synchronised and the bytes are moved at once.

Result<> write_tensor_async(Stream& stream, Tensor& tensor, const void* data, std::size_t offset,
                            std::size_t size);
Result<> read_tensor_async(Stream& stream, const Tensor& tensor, void* data, std::size_t offset,
                           std::size_t size);
Result<> write_tensor_async(Stream& stream, Tensor& tensor, const void* data, std::size_t offset,
                            const Pieces& pieces);
Result<> read_tensor_async(Stream& stream, const Tensor& tensor, void* data, std::size_t offset,
                           const Pieces& pieces);

/// After all work of `from` so far, before all later work of `to`.
Result<> copy_tensor_async(Stream& from, Stream& to, const Tensor& src, Tensor& dst);

}  // namespace heddle
