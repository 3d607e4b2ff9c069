#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "core/root_buffer.hpp"
#include "heddle/backend.hpp"

namespace heddle::cpu {

/// Host memory, and the function that gives it back.
using HostMemory = std::unique_ptr<std::byte, void (*)(void*)>;

/// A buffer in host memory of a special kind. Tensors lie there as they lie anywhere on the host.
class HostMemoryBuffer {
public:
    explicit HostMemoryBuffer(HostMemory memory) : memory_(std::move(memory)) {}

    void* base() { return memory_.get(); }
    // Moved, not copied: programs copy between overlapping views of one tensor.
    void write(std::size_t at, std::span<const std::byte> bytes) {
        std::memmove(memory_.get() + at, bytes.data(), bytes.size());
    }
    void read(std::size_t at, std::span<std::byte> bytes) {
        std::memmove(bytes.data(), memory_.get() + at, bytes.size());
    }
    void fill(std::size_t at, std::size_t size, std::uint8_t value) {
        std::memset(memory_.get() + at, value, size);
    }
    bool copy(const ggml_tensor& from, ggml_tensor& to) {
        const ggml_backend_buffer_t buffer = root_buffer(from);
        if (buffer == nullptr || !ggml_backend_buffer_is_host(buffer)) return false;
        std::memmove(to.data, from.data, ggml_nbytes(&from));
        return true;
    }

private:
    HostMemory memory_;
};
static_assert(plugin::BufferImpl<HostMemoryBuffer> && plugin::Reads<HostMemoryBuffer>);

}  // namespace heddle::cpu
