#include "backends/vulkan/courier.hpp"

#include <algorithm>
#include <cstring>

namespace heddle::vulkan {

Result<std::unique_ptr<Courier>> Courier::make(Gpu& gpu) {
    HEDDLE_TRY_ASSIGN(auto timeline, Timeline::make(gpu));
    HEDDLE_TRY_ASSIGN(CommandPool commands, CommandPool::make(gpu));
    HEDDLE_TRY_ASSIGN(Memory staging,
                      Memory::make(gpu, gpu.board().options.staging, Placement::staging));
    return std::unique_ptr<Courier>(
        new Courier(gpu, std::move(timeline), std::move(commands), std::move(staging)));
}

Result<> Courier::copy_now(VkBuffer from, std::size_t from_offset, VkBuffer to,
                           std::size_t to_offset, std::size_t size) {
    const DeviceApi& api = gpu_.api();
    HEDDLE_TRY_ASSIGN(
        const VkCommandBuffer commands,
        commands_.begin(timeline_->last(), VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    full_barrier(api, commands);
    const VkBufferCopy region{from_offset, to_offset, size};
    api.CmdCopyBuffer(commands, from, to, 1, &region);
    full_barrier(api, commands);
    HEDDLE_TRY(commands_.end(commands));
    const std::uint64_t value = timeline_->last() + 1;
    const VkSemaphore semaphore = timeline_->semaphore();
    VkTimelineSemaphoreSubmitInfo values{};
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &value;
    VkSubmitInfo work{};
    work.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    work.pNext = &values;
    work.commandBufferCount = 1;
    work.pCommandBuffers = &commands;
    work.signalSemaphoreCount = 1;
    work.pSignalSemaphores = &semaphore;
    HEDDLE_TRY(gpu_.submit(work));
    timeline_->advance();
    commands_.give_back(commands, value);
    return timeline_->wait(value);
}

Result<> Courier::write(const Memory& to, std::size_t offset, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < bytes.size(); at += staging_.size()) {
        const std::size_t size = std::min(staging_.size(), bytes.size() - at);
        std::memcpy(staging_.mapped(), bytes.data() + at, size);
        HEDDLE_TRY(copy_now(staging_.buffer(), 0, to.buffer(), offset + at, size));
    }
    return ok();
}

Result<> Courier::read(const Memory& from, std::size_t offset, std::span<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < bytes.size(); at += staging_.size()) {
        const std::size_t size = std::min(staging_.size(), bytes.size() - at);
        HEDDLE_TRY(copy_now(from.buffer(), offset + at, staging_.buffer(), 0, size));
        std::memcpy(bytes.data() + at, staging_.mapped(), size);
    }
    return ok();
}

Result<> Courier::fill(const Memory& to, std::size_t offset, std::size_t size, std::uint8_t value) {
    const std::lock_guard lock(mutex_);
    std::memset(staging_.mapped(), value, std::min(staging_.size(), size));
    for (std::size_t at = 0; at < size; at += staging_.size()) {
        const std::size_t piece = std::min(staging_.size(), size - at);
        HEDDLE_TRY(copy_now(staging_.buffer(), 0, to.buffer(), offset + at, piece));
    }
    return ok();
}

Result<> Courier::copy(const Memory& from, std::size_t from_offset, const Memory& to,
                       std::size_t to_offset, std::size_t size) {
    if (size == 0) return ok();
    const std::lock_guard lock(mutex_);
    return copy_now(from.buffer(), from_offset, to.buffer(), to_offset, size);
}

}  // namespace heddle::vulkan
