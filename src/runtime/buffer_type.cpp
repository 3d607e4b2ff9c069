#include "runtime/buffer_type.hpp"

#include <algorithm>
#include <atomic>

#include "runtime/buffer.hpp"

namespace heddle {

const char* name_of(BufferType& type) {
    const char* name = type.iface.get_name != nullptr ? type.iface.get_name(&type) : nullptr;
    return name != nullptr ? name : "(unnamed)";
}

Result<OwnedBuffer> allocate(BufferType& type, std::size_t size) {
    if (size == 0) return make_buffer(type, BufferTable{}, nullptr, 0);
    if (type.iface.alloc_buffer == nullptr) {
        return failure(Errc::unsupported, "buffer type '", name_of(type),
                       "' cannot allocate buffers");
    }
    if (OwnedBuffer buffer{type.iface.alloc_buffer(&type, size)}) return buffer;
    return failure(Errc::out_of_memory, "buffer type '", name_of(type), "': no memory for ", size,
                   " bytes");
}

std::size_t alignment_of(BufferType& type) {
    return type.iface.get_alignment != nullptr ? type.iface.get_alignment(&type) : 1;
}

std::size_t max_size_of(BufferType& type) {
    return type.iface.get_max_size != nullptr ? type.iface.get_max_size(&type) : SIZE_MAX;
}

std::size_t alloc_size_of(BufferType& type, const Tensor& tensor) {
    const std::size_t own = byte_size(tensor);
    if (type.iface.get_alloc_size == nullptr) return own;
    return std::max(own, type.iface.get_alloc_size(&type, &tensor));
}

bool is_host(BufferType& type) {
    return type.iface.is_host != nullptr && type.iface.is_host(&type);
}

Device* device_of(BufferType& type) {
    // The device of the host types arrives when a CPU backend registers, when others may read it.
    return std::atomic_ref(type.device).load(std::memory_order_acquire);
}

}  // namespace heddle
