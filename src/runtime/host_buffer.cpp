#include "runtime/host_buffer.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>

#include "core/context.hpp"
#include "core/last_error.hpp"
#include "ggml-impl.h"
#include "runtime/buffer.hpp"

namespace heddle {
namespace {

// ---- buffers: the context is the memory --------------------------------------------------------

std::byte* bytes_of(const Tensor* tensor) { return static_cast<std::byte*>(tensor->data); }

void free_memory(Buffer* buffer) { aligned_free(buffer->context); }
void* base_address(Buffer* buffer) { return buffer->context; }

/// False, and told, unless the bytes of the tensor are where its buffer is. They are not if a
/// caller moved one of both, or if an allocator has moved the tensor that this one is a view of.
bool holds(const Buffer& buffer, const Tensor& tensor, std::size_t offset, std::size_t size) {
    const std::size_t begin = reinterpret_cast<std::uintptr_t>(tensor.data) -
                              reinterpret_cast<std::uintptr_t>(buffer.context);
    if (begin <= buffer.size && offset <= buffer.size - begin &&
        size <= buffer.size - begin - offset) {
        return true;
    }
    keep_sentence(text(size, " bytes at offset ", offset, " of ", describe(tensor),
                       " are not inside its buffer of ", buffer.size, " bytes"));
    return false;
}

void fill(Buffer* buffer, Tensor* tensor, std::uint8_t value, std::size_t offset,
          std::size_t size) {
    if (holds(*buffer, *tensor, offset, size)) std::memset(bytes_of(tensor) + offset, value, size);
}

// Moved, not copied: programs copy between overlapping views of one tensor.
void write(Buffer* buffer, Tensor* tensor, const void* data, std::size_t offset, std::size_t size) {
    if (holds(*buffer, *tensor, offset, size)) std::memmove(bytes_of(tensor) + offset, data, size);
}

void read(Buffer* buffer, const Tensor* tensor, void* data, std::size_t offset, std::size_t size) {
    if (holds(*buffer, *tensor, offset, size)) std::memmove(data, bytes_of(tensor) + offset, size);
}

/// Whatever table the source's buffer has is asked for the bytes.
bool copy_from_host(Buffer* buffer, const Tensor* src, Tensor* dst) {
    Buffer* from = root_buffer(*src);
    if (from == nullptr || !is_host(*from) || from->iface.get_tensor == nullptr) return false;
    const std::size_t size = byte_size(*src);
    if (holds(*buffer, *dst, 0, size)) from->iface.get_tensor(from, src, dst->data, 0, size);
    return true;
}

void clear(Buffer* buffer, std::uint8_t value) {
    std::memset(buffer->context, value, buffer->size);
}

constexpr BufferTable kMappedTable{.free_buffer = nullptr,
                                   .get_base = base_address,
                                   .init_tensor = nullptr,
                                   .memset_tensor = fill,
                                   .set_tensor = write,
                                   .get_tensor = read,
                                   .set_tensor_2d = nullptr,
                                   .get_tensor_2d = nullptr,
                                   .cpy_tensor = copy_from_host,
                                   .clear = clear,
                                   .reset = nullptr};

constexpr BufferTable kOwnedTable = [] {
    BufferTable table = kMappedTable;
    table.free_buffer = free_memory;
    return table;
}();

// ---- types -------------------------------------------------------------------------------------

/// Null without memory, which is all a table can say.
Buffer* allocate_memory(BufferType* type, std::size_t size) {
    void* memory = aligned_allocate(size);
    if (memory == nullptr) return nullptr;
    auto made = make_buffer(*type, kOwnedTable, memory, size);
    if (made) return made->release();
    aligned_free(memory);
    return nullptr;
}

/// No more than what mapped model files guarantee. Memory that we allocate is aligned to 64.
std::size_t alignment(BufferType*) { return TENSOR_ALIGNMENT; }
bool yes(BufferType*) { return true; }

BufferType type_named(const char* (*get_name)(BufferType*)) {
    return {.iface = {.get_name = get_name,
                      .alloc_buffer = allocate_memory,
                      .get_alignment = alignment,
                      .get_max_size = nullptr,
                      .get_alloc_size = nullptr,
                      .is_host = yes},
            .device = nullptr,
            .context = nullptr};
}

}  // namespace

BufferType& host_buffer_type() {
    static BufferType type = type_named([](BufferType*) { return "CPU"; });
    return type;
}

BufferType& mapped_buffer_type() {
    static BufferType type = type_named([](BufferType*) { return "CPU_Mapped"; });
    return type;
}

Result<OwnedBuffer> buffer_from_memory(void* memory, std::size_t size) {
    if (memory == nullptr) return invalid("buffer from memory: the memory is NULL");
    if (reinterpret_cast<std::uintptr_t>(memory) % TENSOR_ALIGNMENT != 0) {
        return invalid("buffer from memory: the address ", memory, " is not aligned to ",
                       TENSOR_ALIGNMENT, " bytes");
    }
    return make_buffer(mapped_buffer_type(), kMappedTable, memory, size);
}

}  // namespace heddle

void heddle_set_host_device(ggml_backend_dev_t device) {
    for (auto* type : {&heddle::host_buffer_type(), &heddle::mapped_buffer_type()}) {
        std::atomic_ref(type->device).store(device, std::memory_order_release);
    }
}
