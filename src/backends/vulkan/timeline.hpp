#pragma once

#include <span>
#include <vector>

#include "backends/vulkan/gpu.hpp"

namespace heddle::vulkan {

/// The order of a stream's submissions: a semaphore that counts them. Events keep it alive. Data
/// that a submission brings to the host is handed on when a thread has waited for it.
class Timeline {
public:
    static Result<std::shared_ptr<Timeline>> make(Gpu& gpu);
    ~Timeline();
    Timeline(const Timeline&) = delete;
    Timeline& operator=(const Timeline&) = delete;

    VkSemaphore semaphore() const { return semaphore_; }

    /// The number of the newest submission.
    std::uint64_t last() const { return last_; }
    void advance() { ++last_; }

    /// The number up to which all submissions have finished.
    Result<std::uint64_t> reached() const;

    /// Returns when submission `value` has finished and its data is where it was wanted.
    Result<> wait(std::uint64_t value);

    /// Puts the data of submissions up to `value`, which have finished, where it was wanted.
    void hand_over(std::uint64_t value);

    /// Once submission `value` has finished, `size` bytes at `from` belong at `to`.
    void deliver(std::uint64_t value, std::byte* to, const std::byte* from, std::size_t size);

    /// The newest submission that still brings data into `bytes`; 0: none does.
    std::uint64_t newest_into(std::span<const std::byte> bytes);

private:
    struct Delivery {
        std::uint64_t value;
        std::byte* to;
        const std::byte* from;
        std::size_t size;
    };

    explicit Timeline(Gpu& gpu) : gpu_(gpu.shared_from_this()) {}

    const std::shared_ptr<Gpu> gpu_;
    VkSemaphore semaphore_ = VK_NULL_HANDLE;
    std::atomic<std::uint64_t> last_ = 0;
    std::mutex mutex_;
    std::vector<Delivery> deliveries_;  ///< by value
};

/// Command buffers of one stream. One that has run is used again.
class CommandPool {
public:
    static Result<CommandPool> make(Gpu& gpu);
    ~CommandPool();
    CommandPool(CommandPool&& other) noexcept
        : gpu_(std::move(other.gpu_)),
          pool_(std::exchange(other.pool_, VK_NULL_HANDLE)),
          used_(std::move(other.used_)) {}
    CommandPool& operator=(CommandPool&&) = delete;

    /// One that is being recorded; `reached` is the newest submission that has finished.
    Result<VkCommandBuffer> begin(std::uint64_t reached, VkCommandBufferUsageFlags usage);
    Result<> end(VkCommandBuffer commands);

    /// It may be used again after submission `value`.
    void give_back(VkCommandBuffer commands, std::uint64_t value) {
        used_.push_back({commands, value});
    }

private:
    struct Used {
        VkCommandBuffer commands;
        std::uint64_t value;
    };

    explicit CommandPool(Gpu& gpu) : gpu_(gpu.shared_from_this()) {}

    std::shared_ptr<Gpu> gpu_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    std::vector<Used> used_;
};

/// All that was enqueued before happens before what comes after, and the host sees it.
void full_barrier(const DeviceApi& api, VkCommandBuffer commands);

/// Writes of kernels before are seen by kernels after.
void kernel_barrier(const DeviceApi& api, VkCommandBuffer commands);

}  // namespace heddle::vulkan
