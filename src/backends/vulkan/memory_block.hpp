#pragma once

#include <cstddef>
#include <vector>

#include "backends/vulkan/gpu.hpp"

namespace heddle::vulkan {

/// Which memory is taken, best first.
enum class Placement {
    device,     ///< fast for kernels; the host may see it
    staging,    ///< the host reads and writes it fast
    arguments,  ///< the host writes it, kernels read it
};

/// A block of memory with a buffer over it, an address for kernels and, where the host can see it,
/// one for the host.
class Memory {
public:
    /// Keeps the device alive, unless it is the device's own.
    static Result<Memory> make(Gpu& gpu, std::size_t size, Placement placement,
                               bool keeps_device = true);
    ~Memory();
    Memory(Memory&& other) noexcept { swap(other); }
    Memory& operator=(Memory&& other) noexcept {
        swap(other);
        return *this;
    }

    Gpu& gpu() const { return *gpu_; }
    VkBuffer buffer() const { return buffer_; }
    VkDeviceAddress address() const { return address_; }
    std::size_t size() const { return size_; }
    std::byte* mapped() const { return mapped_; }  ///< null: the host cannot see it
    bool is_cached() const { return is_cached_; }  ///< the host reads it fast

private:
    Memory() = default;
    void swap(Memory& other) noexcept;
    Result<> allocate(Gpu& gpu, Placement placement);
    Result<bool> allocate_from(std::uint32_t type, std::size_t size);

    std::shared_ptr<Gpu> keeper_;
    Gpu* gpu_ = nullptr;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    VkDeviceAddress address_ = 0;
    std::size_t size_ = 0;
    std::byte* mapped_ = nullptr;
    bool is_cached_ = false;
};

/// Sets of properties to try, the most wanted first.
std::vector<VkMemoryPropertyFlags> wanted_properties(Placement placement, const Board& board);

}  // namespace heddle::vulkan
