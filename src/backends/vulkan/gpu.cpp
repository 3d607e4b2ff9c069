#include "backends/vulkan/gpu.hpp"

#include <cstring>

#include "backends/gpu/codebooks.hpp"
#include "backends/vulkan/matrices.hpp"
#include "backends/vulkan/memory_block.hpp"
#include "backends/vulkan/pipelines.hpp"

namespace heddle::vulkan {
namespace {

/// A device with what kernels need, and of what they can use all there is.
VkResult create_device(const Board& board, VkDevice* device) {
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue{};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = board.queue_family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot{};
    dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
    dot.shaderIntegerDotProduct = VK_TRUE;
    VkPhysicalDeviceVulkan12Features features12{};
    features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    MatrixFeatures matrices;
    matrices.cooperativeMatrix = VK_TRUE;
    if (board.facts.has_integer_dot) features12.pNext = &dot;
    if (board.facts.has_matrix_units) {
        matrices.pNext = features12.pNext;
        features12.pNext = &matrices;
        features12.vulkanMemoryModel = VK_TRUE;
    }
    features12.storageBuffer8BitAccess = VK_TRUE;
    features12.timelineSemaphore = VK_TRUE;
    features12.bufferDeviceAddress = VK_TRUE;
    features12.shaderFloat16 = board.facts.has_float16 ? VK_TRUE : VK_FALSE;
    VkPhysicalDeviceVulkan11Features features11{};
    features11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    features11.pNext = &features12;
    features11.storageBuffer16BitAccess = VK_TRUE;
    VkPhysicalDeviceFeatures2 features{};
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features.pNext = &features11;
    features.features.shaderInt64 = VK_TRUE;
    features.features.shaderInt16 = VK_TRUE;
    std::vector<const char*> extensions;
    if (board.has_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    if (board.facts.has_matrix_units) extensions.push_back(kMatrixExtension);
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = &features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    return board.instance->api().CreateDevice(board.physical, &info, nullptr, device);
}

}  // namespace

Gpu::Gpu(const Board& board) : board_(board) {}

Result<std::shared_ptr<Gpu>> Gpu::make(const Board& board) {
    std::shared_ptr<Gpu> gpu(new Gpu(board));
    HEDDLE_TRY(gpu->start());
    return gpu;
}

Result<> Gpu::start() {
    HEDDLE_TRY(check(create_device(board_, &device_), "making a logical device"));
    HEDDLE_TRY_ASSIGN(api_, board_.instance->device_api(device_));
    api_.GetDeviceQueue(device_, board_.queue_family, 0, &queue_);
    HEDDLE_TRY_ASSIGN(pipelines_, Pipelines::make(*this));
    return load_codebooks();
}

Result<> Gpu::load_codebooks() {
    HEDDLE_TRY_ASSIGN(Memory memory,
                      Memory::make(*this, sizeof(gpu::Codebooks), Placement::arguments, false));
    std::memcpy(memory.mapped(), &gpu::kCodebooks, sizeof(gpu::Codebooks));
    codebooks_ = std::make_unique<Memory>(std::move(memory));
    return ok();
}

Gpu::~Gpu() {
    if (api_.DestroyDevice == nullptr) return;  // it was never made whole
    api_.DeviceWaitIdle(device_);
    codebooks_.reset();
    pipelines_.reset();
    api_.DestroyDevice(device_, nullptr);
}

VkDeviceAddress Gpu::codebooks() const { return codebooks_->address(); }

Result<> Gpu::check_alive() const {
    if (!is_lost_) return ok();
    return failure(Errc::device, board_.name, " was lost; this process cannot use it any more");
}

Result<> Gpu::submit(const VkSubmitInfo& work) {
    HEDDLE_TRY(check_alive());
    const std::lock_guard lock(queue_mutex_);
    const bool is_to_fail =
        board_.options.lose_after >= 0 && submissions_++ >= board_.options.lose_after;
    if (is_to_fail) api_.DeviceWaitIdle(device_);  // of a device that is lost nothing runs any more
    const VkResult result =
        is_to_fail ? VK_ERROR_DEVICE_LOST : api_.QueueSubmit(queue_, 1, &work, VK_NULL_HANDLE);
    return check(result, "submitting work");
}

void Gpu::wait_idle() {
    const std::lock_guard lock(queue_mutex_);
    (void)check(api_.DeviceWaitIdle(device_), "waiting for all work").has_value();
}

Result<std::shared_ptr<Gpu>> LazyGpu::get() {
    const std::lock_guard lock(mutex_);
    if (gpu_ == nullptr) {
        HEDDLE_TRY_ASSIGN(gpu_, Gpu::make(board_));
    }
    return gpu_;
}

std::shared_ptr<Gpu> LazyGpu::peek() {
    const std::lock_guard lock(mutex_);
    return gpu_;
}

}  // namespace heddle::vulkan
