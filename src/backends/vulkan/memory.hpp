#pragma once

#include <map>

#include "backends/gpu/host_memory.hpp"
#include "backends/vulkan/courier.hpp"
#include "core/tensor.hpp"
#include "heddle/backend.hpp"

/// Memory of Vulkan devices, and memory of the host that they can copy from and to.
namespace heddle::vulkan {

/// The logical device with what blocking calls need; null pointers until something is made.
class Site {
public:
    explicit Site(Board board) : lazy_(std::move(board)) {}
    const Board& board() const { return lazy_.board(); }
    Result<std::shared_ptr<Gpu>> gpu() { return lazy_.get(); }
    std::shared_ptr<Gpu> gpu_if_made() { return lazy_.peek(); }
    Result<Courier*> courier();

    /// Host memory that the device can copy: the buffer over it and the place of `host` in it.
    struct Pinned {
        VkBuffer buffer = VK_NULL_HANDLE;
        std::size_t offset = 0;
    };
    Pinned find_pinned(const std::byte* host, std::size_t size);
    void add_pinned(const Memory& memory);
    void remove_pinned(const Memory& memory);

private:
    LazyGpu lazy_;
    std::mutex mutex_;
    std::unique_ptr<Courier> courier_;
    std::map<const std::byte*, const Memory*> pinned_;
};

/// Memory of a device. Every call has done its work when it returns and is ordered after nothing
/// that streams have queued.
class VulkanBuffer {
public:
    static Result<std::unique_ptr<VulkanBuffer>> make(Site& site, std::size_t size);

    /// Waits for all work of the device: a run that failed on another one may still use the memory.
    ~VulkanBuffer() { memory_.gpu().wait_idle(); }
    VulkanBuffer(const VulkanBuffer&) = delete;
    VulkanBuffer& operator=(const VulkanBuffer&) = delete;

    /// The address that kernels use.
    void* base() const { return reinterpret_cast<void*>(memory_.address()); }
    Site& site() const { return site_; }
    const Memory& memory() const { return memory_; }

    Result<> write(std::size_t offset, std::span<const std::byte> bytes);
    Result<> read(std::size_t offset, std::span<std::byte> bytes);
    Result<> fill(std::size_t offset, std::size_t size, std::uint8_t value);

    /// From memory of the same device; false for other memory.
    bool copy(const Tensor& from, Tensor& to);

    /// Where the bytes of `tensor` from `offset` on begin in this buffer. Fails unless all of
    /// `size` bytes lie inside.
    Result<std::size_t> position(const Tensor& tensor, std::size_t offset, std::size_t size) const;

private:
    VulkanBuffer(Site& site, Memory memory, std::size_t size)
        : site_(site), memory_(std::move(memory)), size_(size) {}

    Site& site_;
    const Memory memory_;
    const std::size_t size_;
};

/// The VulkanBuffer that `tensor` lies in, views included; null for any other memory.
VulkanBuffer* buffer_of(const Tensor& tensor);

/// Device memory as a buffer type.
class DeviceMemory : public plugin::BufferType<DeviceMemory> {
public:
    DeviceMemory(ggml_backend_dev_t device, Site& site) : BufferType(device), site_(site) {}

    const char* name() { return site_.board().name.c_str(); }
    std::size_t alignment() { return site_.board().alignment; }
    std::size_t max_size();
    Result<std::unique_ptr<VulkanBuffer>> allocate(std::size_t size);

private:
    Site& site_;
};

/// Host memory that devices transfer without a copy in between.
class PinnedBuffer : public gpu::HostBytes<PinnedBuffer> {
public:
    PinnedBuffer(Site& site, Memory memory) : site_(site), memory_(std::move(memory)) {
        site_.add_pinned(memory_);
    }
    ~PinnedBuffer() {
        memory_.gpu().wait_idle();
        site_.remove_pinned(memory_);
    }
    PinnedBuffer(const PinnedBuffer&) = delete;
    PinnedBuffer& operator=(const PinnedBuffer&) = delete;

    void* base() const { return memory_.mapped(); }

private:
    Site& site_;
    const Memory memory_;
};

/// Such memory; ordinary memory of the host where that is refused or there is no device.
class HostMemory : public plugin::BufferType<HostMemory> {
public:
    HostMemory(ggml_backend_dev_t device, Site* site) : BufferType(device), site_(site) {}

    const char* name() { return "Vulkan_Host"; }
    std::size_t alignment() { return site_ != nullptr ? site_->board().map_alignment : 64; }
    bool is_host() { return true; }
    Result<ggml_backend_buffer_t> allocate(std::size_t size);

private:
    Result<ggml_backend_buffer_t> allocate_pinned(std::size_t size);

    Site* site_;  ///< null: there is no device
};

}  // namespace heddle::vulkan
