#include "runtime/buffer.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "core/last_error.hpp"
#include "runtime/buffer_count.hpp"
#include "runtime/contained.hpp"
#include "runtime/meta/buffer.hpp"
#include "runtime/multi_buffer.hpp"
#include "runtime/status.hpp"

namespace heddle {
namespace {

/// What a buffer really is. Plug-ins see the first member; its layout and size are theirs.
struct TrackedBuffer {
    Buffer buffer;
    std::atomic<std::uint64_t> last_write;  ///< a stamp of its creation or of its latest write
    Registration* counted_for = nullptr;
};
static_assert(sizeof(Buffer) == 120);

/// A number that no buffer had before. One for all, so that a new buffer is never taken for one
/// that was at its address.
std::uint64_t next_stamp() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

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

/// Buffers that were emptied.
std::atomic<std::uint64_t> g_emptied{0};

void release_memory(Buffer& buffer) noexcept {
    if (buffer.iface.free_buffer != nullptr) {
        contained([&] { buffer.iface.free_buffer(&buffer); });
    }
    auto& tracked = reinterpret_cast<TrackedBuffer&>(buffer);
    discount_buffer(std::exchange(tracked.counted_for, nullptr));
    buffer.iface = {};
    buffer.context = nullptr;
    buffer.size = 0;
}

}  // namespace

Result<OwnedBuffer> make_buffer(BufferType& type, const BufferTable& table, void* context,
                                std::size_t size) {
    auto* made =
        new (std::nothrow) TrackedBuffer{.buffer = {.iface = table,
                                                    .buft = &type,
                                                    .context = context,
                                                    .size = size,
                                                    .usage = GGML_BACKEND_BUFFER_USAGE_ANY},
                                         .last_write = next_stamp()};
    if (made == nullptr) {
        return failure(Errc::out_of_memory, "buffer type '", name_of(type),
                       "': no memory for a buffer's handle");
    }
    made->counted_for = count_buffer(type);
    return OwnedBuffer(&made->buffer);
}

void free_buffer(Buffer* buffer) noexcept {
    if (buffer == nullptr) return;
    release_memory(*buffer);
    delete reinterpret_cast<TrackedBuffer*>(buffer);
}

void empty_buffer(Buffer& buffer) noexcept {
    release_memory(buffer);
    g_emptied.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t emptied_buffers() noexcept { return g_emptied.load(std::memory_order_relaxed); }

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
    const Listener listener;
    buffer.iface.clear(&buffer, value);
    note_write(buffer);
    return listener.outcome("clearing a buffer");
}

void reset_buffer(Buffer& buffer) {
    if (buffer.iface.reset != nullptr) buffer.iface.reset(&buffer);
}

void set_usage(Buffer& buffer, Usage usage) {
    buffer.usage = usage;
    for (Buffer* part : parts_of(buffer)) set_usage(*part, usage);
    for (Buffer* part : meta::device_buffers(buffer)) {
        if (part != nullptr) set_usage(*part, usage);
    }
}

std::uint64_t write_generation(const Buffer& buffer) {
    std::uint64_t latest = tracked(buffer).last_write.load(std::memory_order_acquire);
    for (const Buffer* part : parts_of(buffer)) latest = std::max(latest, write_generation(*part));
    return latest;
}

void note_write(Buffer& buffer) {
    auto& last = const_cast<TrackedBuffer&>(tracked(buffer)).last_write;
    const std::uint64_t stamp = next_stamp();
    // Never backwards: of two writes at a time, the later stamp stands for both.
    std::uint64_t seen = last.load(std::memory_order_relaxed);
    while (seen < stamp && !last.compare_exchange_weak(seen, stamp, std::memory_order_release)) {
    }
}

}  // namespace heddle
