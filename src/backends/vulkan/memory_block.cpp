#include "backends/vulkan/memory_block.hpp"

#include <algorithm>

namespace heddle::vulkan {
namespace {

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kShared =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

Result<VkBuffer> make_buffer(Gpu& gpu, std::size_t size) {
    VkBufferCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = size;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    VkBuffer buffer = VK_NULL_HANDLE;
    HEDDLE_TRY(gpu.check(gpu.api().CreateBuffer(gpu.handle(), &info, nullptr, &buffer),
                         "making a buffer of ", describe_bytes(size)));
    return buffer;
}

}  // namespace

std::vector<VkMemoryPropertyFlags> wanted_properties(Placement placement, const Board& board) {
    const Options& options = board.options;
    if (placement == Placement::staging) return {kShared | kCached, kShared};
    if (placement == Placement::arguments) return {kLocal | kShared, kShared};
    if (options.prefers_host_memory) return {kShared, kLocal};
    std::vector<VkMemoryPropertyFlags> sets;
    if (options.uses_visible_device_memory) sets.push_back(kLocal | kShared);
    sets.push_back(kLocal);
    if (board.is_integrated || options.may_spill) sets.push_back(kShared);
    return sets;
}

Result<Memory> Memory::make(Gpu& gpu, std::size_t size, Placement placement, bool keeps_device) {
    HEDDLE_TRY(gpu.check_alive());
    const std::uint64_t limit = gpu.board().options.heap_limit;
    if (limit > 0 && gpu.live_bytes() + size > limit) {
        return failure(Errc::out_of_memory, "allocating ", describe_bytes(size), " on ",
                       gpu.board().name, ": ", describe_bytes(gpu.live_bytes()), " of ",
                       describe_bytes(limit), " are taken");
    }
    Memory made;
    made.gpu_ = &gpu;
    if (keeps_device) made.keeper_ = gpu.shared_from_this();
    made.size_ = std::max<std::size_t>(size, 16);
    HEDDLE_TRY_ASSIGN(made.buffer_, make_buffer(gpu, made.size_));
    HEDDLE_TRY(made.allocate(gpu, placement));
    VkBufferDeviceAddressInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
    info.buffer = made.buffer_;
    made.address_ = gpu.api().GetBufferDeviceAddress(gpu.handle(), &info);
    gpu.live_bytes() += made.size_;
    return made;
}

Result<> Memory::allocate(Gpu& gpu, Placement placement) {
    VkMemoryRequirements needs{};
    gpu.api().GetBufferMemoryRequirements(gpu.handle(), buffer_, &needs);
    const VkPhysicalDeviceMemoryProperties& memory = gpu.board().memory;
    for (const VkMemoryPropertyFlags wanted : wanted_properties(placement, gpu.board())) {
        for (std::uint32_t type = 0; type < memory.memoryTypeCount; ++type) {
            const VkMemoryType& offered = memory.memoryTypes[type];
            if ((needs.memoryTypeBits >> type & 1u) == 0) continue;
            if ((offered.propertyFlags & wanted) != wanted) continue;
            if (memory.memoryHeaps[offered.heapIndex].size < needs.size) continue;
            HEDDLE_TRY_ASSIGN(const bool is_made, allocate_from(type, needs.size));
            if (is_made) return ok();
        }
    }
    return failure(Errc::out_of_memory, "allocating ", describe_bytes(size_), " on ",
                   gpu.board().name, ": no memory of a suitable type is left");
}

Result<bool> Memory::allocate_from(std::uint32_t type, std::size_t size) {
    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.pNext = &flags;
    info.allocationSize = size;
    info.memoryTypeIndex = type;
    const DeviceApi& api = gpu_->api();
    const VkResult allocated = api.AllocateMemory(gpu_->handle(), &info, nullptr, &memory_);
    if (allocated == VK_ERROR_OUT_OF_DEVICE_MEMORY || allocated == VK_ERROR_OUT_OF_HOST_MEMORY) {
        return false;
    }
    HEDDLE_TRY(gpu_->check(allocated, "allocating ", describe_bytes(size)));
    HEDDLE_TRY(gpu_->check(api.BindBufferMemory(gpu_->handle(), buffer_, memory_, 0), "binding ",
                           describe_bytes(size)));
    const auto properties = gpu_->board().memory.memoryTypes[type].propertyFlags;
    if ((properties & kShared) != kShared) return true;
    void* mapped = nullptr;
    HEDDLE_TRY(gpu_->check(api.MapMemory(gpu_->handle(), memory_, 0, VK_WHOLE_SIZE, 0, &mapped),
                           "mapping memory"));
    mapped_ = static_cast<std::byte*>(mapped);
    is_cached_ = (properties & kCached) != 0;
    return true;
}

Memory::~Memory() {
    if (gpu_ == nullptr) return;
    if (address_ != 0) gpu_->live_bytes() -= size_;
    if (buffer_ != VK_NULL_HANDLE) gpu_->api().DestroyBuffer(gpu_->handle(), buffer_, nullptr);
    if (memory_ != VK_NULL_HANDLE) gpu_->api().FreeMemory(gpu_->handle(), memory_, nullptr);
}

void Memory::swap(Memory& other) noexcept {
    std::swap(keeper_, other.keeper_);
    std::swap(gpu_, other.gpu_);
    std::swap(buffer_, other.buffer_);
    std::swap(memory_, other.memory_);
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    std::swap(is_cached_, other.is_cached_);
}

}  // namespace heddle::vulkan
