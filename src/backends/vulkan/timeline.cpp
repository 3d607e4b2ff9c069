#include "backends/vulkan/timeline.hpp"

#include <algorithm>
#include <cstring>

namespace heddle::vulkan {

// ---- timeline ----------------------------------------------------------------------------------

Result<std::shared_ptr<Timeline>> Timeline::make(Gpu& gpu) {
    std::shared_ptr<Timeline> made(new Timeline(gpu));
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    info.pNext = &type;
    HEDDLE_TRY(gpu.check(gpu.api().CreateSemaphore(gpu.handle(), &info, nullptr, &made->semaphore_),
                         "making a semaphore"));
    return made;
}

Timeline::~Timeline() {
    if (semaphore_ != VK_NULL_HANDLE) {
        // The driver may still be about to leave the semaphore that it has just counted up.
        gpu_->wait_idle();
        gpu_->api().DestroySemaphore(gpu_->handle(), semaphore_, nullptr);
    }
}

Result<std::uint64_t> Timeline::reached() const {
    HEDDLE_TRY(gpu_->check_alive());
    std::uint64_t value = 0;
    HEDDLE_TRY(gpu_->check(gpu_->api().GetSemaphoreCounterValue(gpu_->handle(), semaphore_, &value),
                           "asking for the state of a stream"));
    return value;
}

Result<> Timeline::wait(std::uint64_t value) {
    if (value == 0) return ok();
    HEDDLE_TRY(gpu_->check_alive());
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore_;
    info.pValues = &value;
    HEDDLE_TRY(gpu_->check(gpu_->api().WaitSemaphores(gpu_->handle(), &info, UINT64_MAX),
                           "waiting for work"));
    hand_over(value);
    return ok();
}

void Timeline::hand_over(std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    const auto is_later = [&](const Delivery& each) { return each.value > value; };
    const auto end = std::ranges::find_if(deliveries_, is_later);
    for (auto each = deliveries_.begin(); each != end; ++each) {
        std::memcpy(each->to, each->from, each->size);
    }
    deliveries_.erase(deliveries_.begin(), end);
}

void Timeline::deliver(std::uint64_t value, std::byte* to, const std::byte* from,
                       std::size_t size) {
    const std::lock_guard lock(mutex_);
    deliveries_.push_back({value, to, from, size});
}

std::uint64_t Timeline::newest_into(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    std::uint64_t newest = 0;
    for (const Delivery& each : deliveries_) {
        const bool is_apart =
            each.to + each.size <= bytes.data() || bytes.data() + bytes.size() <= each.to;
        if (!is_apart) newest = std::max(newest, each.value);
    }
    return newest;
}

// ---- command buffers ---------------------------------------------------------------------------

Result<CommandPool> CommandPool::make(Gpu& gpu) {
    CommandPool made(gpu);
    VkCommandPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = gpu.board().queue_family;
    HEDDLE_TRY(gpu.check(gpu.api().CreateCommandPool(gpu.handle(), &info, nullptr, &made.pool_),
                         "making a pool of command buffers"));
    return made;
}

CommandPool::~CommandPool() {
    if (pool_ != VK_NULL_HANDLE) gpu_->api().DestroyCommandPool(gpu_->handle(), pool_, nullptr);
}

Result<VkCommandBuffer> CommandPool::begin(std::uint64_t reached, VkCommandBufferUsageFlags usage) {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    const auto is_free = [&](const Used& each) { return each.value <= reached; };
    if (const auto found = std::ranges::find_if(used_, is_free); found != used_.end()) {
        commands = found->commands;
        used_.erase(found);
    } else {
        VkCommandBufferAllocateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
        info.commandPool = pool_;
        info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
        info.commandBufferCount = 1;
        HEDDLE_TRY(gpu_->check(gpu_->api().AllocateCommandBuffers(gpu_->handle(), &info, &commands),
                               "making a command buffer"));
    }
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = usage;
    HEDDLE_TRY(
        gpu_->check(gpu_->api().BeginCommandBuffer(commands, &info), "recording a command buffer"));
    return commands;
}

Result<> CommandPool::end(VkCommandBuffer commands) {
    return gpu_->check(gpu_->api().EndCommandBuffer(commands), "recording a command buffer");
}

// ---- barriers ----------------------------------------------------------------------------------

void full_barrier(const DeviceApi& api, VkCommandBuffer commands) {
    VkMemoryBarrier all{};
    all.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    all.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    all.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                        VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
                        VK_ACCESS_HOST_READ_BIT;
    constexpr VkPipelineStageFlags work =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    api.CmdPipelineBarrier(commands, work, work | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0,
                           nullptr, 0, nullptr);
}

void kernel_barrier(const DeviceApi& api, VkCommandBuffer commands) {
    VkMemoryBarrier writes{};
    writes.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    writes.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    writes.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    api.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                           VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &writes, 0, nullptr, 0,
                           nullptr);
}

}  // namespace heddle::vulkan
