#pragma once

#include <cstring>
#include <span>

#include "backends/gpu/bytes_text.hpp"
#include "core/root_buffer.hpp"
#include "core/tensor.hpp"
#include "heddle/backend/buffer.hpp"
#include "heddle/backend/guard.hpp"

/// Memory of the host that a device reads by itself, or would if there were any.
namespace heddle::gpu {

/// What a buffer in such memory does with its bytes. `Buffer` is derived from it and has `base()`.
template <class Buffer>
class HostBytes {
public:
    void write(std::size_t offset, std::span<const std::byte> bytes) {
        std::memcpy(at(offset), bytes.data(), bytes.size());
    }
    void read(std::size_t offset, std::span<std::byte> bytes) {
        std::memcpy(bytes.data(), at(offset), bytes.size());
    }
    void fill(std::size_t offset, std::size_t size, std::uint8_t value) {
        std::memset(at(offset), value, size);
    }
    bool copy(const Tensor& from, Tensor& to) {
        const ggml_backend_buffer_t source = root_buffer(from);
        if (source == nullptr || !ggml_backend_buffer_is_host(source)) return false;
        std::memmove(to.data, from.data, byte_size(from));
        return true;
    }

private:
    std::byte* at(std::size_t offset) const {
        return static_cast<std::byte*>(static_cast<const Buffer*>(this)->base()) + offset;
    }
};

/// `pinned`, or ordinary memory of the CPU where that was refused.
inline Result<ggml_backend_buffer_t> or_plain_memory(Result<ggml_backend_buffer_t> pinned,
                                                     std::size_t size) {
    if (pinned) return pinned;
    plugin::log(GGML_LOG_LEVEL_DEBUG, pinned.error().message + "; ordinary memory is used instead");
    const ggml_backend_buffer_t plain =
        ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (plain != nullptr) return plain;
    return failure(Errc::out_of_memory, "the host has no ", describe_bytes(size));
}

}  // namespace heddle::gpu
