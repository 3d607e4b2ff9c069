#include "backends/vulkan/memory.hpp"

#include <algorithm>
#include <cstring>

#include "core/root_buffer.hpp"
#include "ggml-backend.h"

namespace heddle::vulkan {

// ---- site --------------------------------------------------------------------------------------

Result<Courier*> Site::courier() {
    HEDDLE_TRY_ASSIGN(const auto made, gpu());
    const std::lock_guard lock(mutex_);
    if (courier_ == nullptr) {
        HEDDLE_TRY_ASSIGN(courier_, Courier::make(*made));
    }
    return courier_.get();
}

Site::Pinned Site::find_pinned(const std::byte* host, std::size_t size) {
    const std::lock_guard lock(mutex_);
    auto after = pinned_.upper_bound(host);
    if (after == pinned_.begin()) return {};
    const auto& [begin, memory] = *std::prev(after);
    const auto offset = static_cast<std::size_t>(host - begin);
    if (offset > memory->size() || size > memory->size() - offset) return {};
    return {memory->buffer(), offset};
}

void Site::add_pinned(const Memory& memory) {
    const std::lock_guard lock(mutex_);
    pinned_[memory.mapped()] = &memory;
}

void Site::remove_pinned(const Memory& memory) {
    const std::lock_guard lock(mutex_);
    pinned_.erase(memory.mapped());
}

// ---- memory of a device ------------------------------------------------------------------------

static_assert(plugin::Writes<VulkanBuffer> && plugin::Reads<VulkanBuffer> &&
              plugin::Fills<VulkanBuffer> && plugin::CopiesTensors<VulkanBuffer>);

Result<std::unique_ptr<VulkanBuffer>> VulkanBuffer::make(Site& site, std::size_t size) {
    HEDDLE_TRY_ASSIGN(const auto gpu, site.gpu());
    HEDDLE_TRY_ASSIGN(Memory memory, Memory::make(*gpu, size, Placement::device));
    return std::unique_ptr<VulkanBuffer>(new VulkanBuffer(site, std::move(memory), size));
}

Result<> VulkanBuffer::write(std::size_t offset, std::span<const std::byte> bytes) {
    if (bytes.empty()) return ok();
    if (memory_.mapped() != nullptr) {
        std::memcpy(memory_.mapped() + offset, bytes.data(), bytes.size());
        return ok();
    }
    HEDDLE_TRY_ASSIGN(Courier* const courier, site_.courier());
    return courier->write(memory_, offset, bytes);
}

Result<> VulkanBuffer::read(std::size_t offset, std::span<std::byte> bytes) {
    if (bytes.empty()) return ok();
    if (memory_.mapped() != nullptr && memory_.is_cached()) {
        std::memcpy(bytes.data(), memory_.mapped() + offset, bytes.size());
        return ok();
    }
    HEDDLE_TRY_ASSIGN(Courier* const courier, site_.courier());
    return courier->read(memory_, offset, bytes);
}

Result<> VulkanBuffer::fill(std::size_t offset, std::size_t size, std::uint8_t value) {
    if (size == 0) return ok();
    if (memory_.mapped() != nullptr) {
        std::memset(memory_.mapped() + offset, value, size);
        return ok();
    }
    HEDDLE_TRY_ASSIGN(Courier* const courier, site_.courier());
    return courier->fill(memory_, offset, size, value);
}

Result<std::size_t> VulkanBuffer::position(const Tensor& tensor, std::size_t offset,
                                           std::size_t size) const {
    const auto origin = reinterpret_cast<std::uintptr_t>(base());
    const auto data = reinterpret_cast<std::uintptr_t>(tensor.data);
    const std::size_t begin = data - origin;
    if (data >= origin && begin <= size_ && offset <= size_ - begin &&
        size <= size_ - begin - offset) {
        return begin + offset;
    }
    return invalid(size, " bytes at offset ", offset, " of ", describe(tensor), " at ", tensor.data,
                   " are not inside the buffer's ", size_, " bytes");
}

bool VulkanBuffer::copy(const Tensor& from, Tensor& to) {
    const VulkanBuffer* source = buffer_of(from);
    if (source == nullptr || &source->site() != &site_) return false;
    const std::size_t size = byte_size(from);
    const auto copied = [&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const std::size_t begin, source->position(from, 0, size));
        HEDDLE_TRY_ASSIGN(const std::size_t end, position(to, 0, size));
        HEDDLE_TRY_ASSIGN(Courier* const courier, site_.courier());
        return courier->copy(source->memory(), begin, memory_, end, size);
    }();
    // A copy that failed was tried: no other way is to be taken.
    if (!copied) plugin::report(Error(copied.error()).within(site_.board().name));
    return true;
}

VulkanBuffer* buffer_of(const Tensor& tensor) {
    return plugin::buffer_cast<VulkanBuffer>(root_buffer(tensor));
}

/// Larger contexts are spread over several buffers: drivers find it hard to give more at once.
std::size_t DeviceMemory::max_size() {
    constexpr std::uint64_t most = 1u << 30;
    const Board& board = site_.board();
    return std::min({most, board.buffer_limit, board.allocation_limit});
}

Result<std::unique_ptr<VulkanBuffer>> DeviceMemory::allocate(std::size_t size) {
    const Board& board = site_.board();
    if (size > board.buffer_limit) {
        return failure(Errc::out_of_memory, describe_bytes(size), " are more than the ",
                       describe_bytes(board.buffer_limit), " that a buffer on ", board.name,
                       " may have");
    }
    return VulkanBuffer::make(site_, size);
}

// ---- memory of the host ------------------------------------------------------------------------

Result<ggml_backend_buffer_t> HostMemory::allocate_pinned(std::size_t size) {
    if (site_ == nullptr) return failure(Errc::not_found, "there is no Vulkan device");
    HEDDLE_TRY_ASSIGN(const auto gpu, site_->gpu());
    HEDDLE_TRY_ASSIGN(Memory memory, Memory::make(*gpu, size, Placement::staging));
    return plugin::make_buffer(handle(), std::make_unique<PinnedBuffer>(*site_, std::move(memory)),
                               size);
}

Result<ggml_backend_buffer_t> HostMemory::allocate(std::size_t size) {
    return gpu::or_plain_memory(allocate_pinned(size), size);
}

}  // namespace heddle::vulkan
