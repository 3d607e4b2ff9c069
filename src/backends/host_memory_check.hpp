#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/root_buffer.hpp"
#include "ggml-backend.h"

namespace heddle {

/// Asks of one tensor after the other whether the host can read it where it says that it is. For
/// one plan: buffers that were seen are remembered, and may be gone when the next one is made.
class HostMemoryCheck {
public:
    /// Tensors that are in no buffer lie in a context or where the caller has put them: of these it
    /// is known only whether they have an address.
    bool is_readable(const Tensor& tensor) {
        ggml_backend_buffer* const buffer = buffer_of(tensor);
        if (buffer == nullptr) return tensor.data != nullptr || is_empty(tensor);
        const Host* const host = find(buffer);
        if (host == nullptr || tensor.data == nullptr) return is_empty(tensor);
        return holds(*host, tensor);
    }

    /// Why it is not: "operand ... has no memory".
    std::string problem(const Tensor& tensor, std::string_view what) {
        if (tensor.data == nullptr) return text(what, " has no memory");
        ggml_backend_buffer* const buffer = buffer_of(tensor);
        if (const Host* const host = find(buffer); host != nullptr) {
            return text(what, " is not inside its buffer of ", host->size, " bytes");
        }
        return text(what, " is in memory of type ", ggml_backend_buffer_name(buffer),
                    ", which the CPU cannot read");
    }

private:
    /// A buffer in memory of the host, and the bytes that it has there.
    struct Host {
        ggml_backend_buffer* buffer = nullptr;
        std::uintptr_t begin = 0;
        std::size_t size = 0;
    };

    /// A view that was made when its root had memory has an address, and no buffer of its own.
    static ggml_backend_buffer* buffer_of(const Tensor& tensor) {
        ggml_backend_buffer* const buffer = root_buffer(tensor);
        return buffer != nullptr ? buffer : tensor.buffer;
    }

    static bool holds(const Host& host, const Tensor& tensor) {
        const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(tensor.data) - host.begin;
        return at <= host.size && byte_size(tensor) <= host.size - at;
    }

    /// Graphs use few buffers: weights, caches, results. Null for memory that is not the host's.
    const Host* find(ggml_backend_buffer* buffer) {
        for (const Host& host : known_) {
            if (host.buffer == buffer) return &host;
        }
        if (!ggml_backend_buffer_is_host(buffer)) return nullptr;
        Host& host = known_[next_++ % known_.size()];
        host = {buffer, reinterpret_cast<std::uintptr_t>(ggml_backend_buffer_get_base(buffer)),
                ggml_backend_buffer_get_size(buffer)};
        return &host;
    }

    std::array<Host, 4> known_{};
    std::size_t next_ = 0;
};

}  // namespace heddle
