#include "runtime/buffer.hpp"

#include <atomic>
#include <new>

#include "runtime/buffer_count.hpp"
#include "runtime/multi_buffer.hpp"
#include "runtime/status.hpp"

namespace heddle {
namespace {

/// What a buffer really is. Plug-ins see the first member; its layout and size are theirs.
struct TrackedBuffer {
    Buffer buffer;
    std::atomic<std::uint64_t> writes{0};
    Registration* counted_for = nullptr;
};
static_assert(sizeof(Buffer) == 120);

const TrackedBuffer& tracked(const Buffer& buffer) {
    return reinterpret_cast<const TrackedBuffer&>(buffer);
}

/// `buffer`, or the part of it, that has bytes but no way to clear them; null if there is none.
Buffer* unclearable(Buffer& buffer) {
    if (buffer.size > 0 && buffer.iface.clear == nullptr) return &buffer;
    for (Buffer* part : parts_of(buffer)) {
        if (Buffer* found = unclearable(*part)) return found;
    }
    return nullptr;
}

}  // namespace

Result<Buffer*> make_buffer(BufferType& type, const BufferTable& table, void* context,
                            std::size_t size) {
    auto* made =
        new (std::nothrow) TrackedBuffer{.buffer = {.iface = table,
                                                    .buft = &type,
                                                    .context = context,
                                                    .size = size,
                                                    .usage = GGML_BACKEND_BUFFER_USAGE_ANY}};
    if (made == nullptr) {
        return failure(Errc::out_of_memory, "buffer type '", name_of(type),
                       "': no memory for a buffer's handle");
    }
    made->counted_for = count_buffer(type);
    return &made->buffer;
}

void free_buffer(Buffer* buffer) noexcept {
    if (buffer == nullptr) return;
    if (buffer->iface.free_buffer != nullptr) buffer->iface.free_buffer(buffer);
    auto* const tracked = reinterpret_cast<TrackedBuffer*>(buffer);
    discount_buffer(tracked->counted_for);
    delete tracked;
}

Result<void*> base_of(Buffer& buffer) {
    if (buffer.size == 0 || buffer.iface.get_base == nullptr) return static_cast<void*>(nullptr);
    if (void* base = buffer.iface.get_base(&buffer)) return base;
    return failure(Errc::device, "buffer of type '", name_of(buffer), "': no address for its ",
                   buffer.size, " bytes");
}

Result<> init_tensor(Buffer& buffer, Tensor& tensor) {
    if (buffer.iface.init_tensor == nullptr) return ok();
    const Status status = buffer.iface.init_tensor(&buffer, &tensor);
    if (status == GGML_STATUS_SUCCESS) return ok();
    return from_status(status, text("preparing ", describe(tensor), " in a buffer of type '",
                                    name_of(buffer), '\''));
}

Result<> clear_buffer(Buffer& buffer, std::uint8_t value) {
    if (buffer.size == 0) return ok();
    if (Buffer* refuses = unclearable(buffer)) {
        return failure(Errc::unsupported, "buffer of type '", name_of(*refuses),
                       "' cannot be cleared");
    }
    buffer.iface.clear(&buffer, value);
    note_write(buffer);
    return ok();
}

void reset_buffer(Buffer& buffer) {
    if (buffer.iface.reset != nullptr) buffer.iface.reset(&buffer);
}

void set_usage(Buffer& buffer, Usage usage) {
    buffer.usage = usage;
    for (Buffer* part : parts_of(buffer)) set_usage(*part, usage);
}

std::uint64_t write_generation(const Buffer& buffer) {
    std::uint64_t writes = tracked(buffer).writes.load(std::memory_order_acquire);
    for (const Buffer* part : parts_of(buffer)) writes += write_generation(*part);
    return writes;
}

void note_write(Buffer& buffer) {
    auto& writes = const_cast<TrackedBuffer&>(tracked(buffer)).writes;
    writes.fetch_add(1, std::memory_order_release);
}

}  // namespace heddle
