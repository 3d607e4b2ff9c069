#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <memory>
#include <string>
#include <utility>

#include "backends/gpu/bytes_text.hpp"
#include "core/error.hpp"

/// Vulkan as values: the loader is opened at run time, results are Results with a sentence, handles
/// have owners.
namespace heddle::vulkan {

// The functions that are used, by what they are asked from.
// clang-format off
#define HEDDLE_VK_GLOBAL(X) X(CreateInstance) X(EnumerateInstanceVersion)
#define HEDDLE_VK_INSTANCE(X)                                                       \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceFeatures2)    \
    X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceMemoryProperties2)           \
    X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties) \
    X(CreateDevice) X(GetDeviceProcAddr)
#define HEDDLE_VK_DEVICE(X)                                                 \
    X(DestroyDevice) X(GetDeviceQueue) X(QueueSubmit) X(DeviceWaitIdle)     \
    X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements)         \
    X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory)        \
    X(GetBufferDeviceAddress) X(CreateSemaphore) X(DestroySemaphore)        \
    X(WaitSemaphores) X(GetSemaphoreCounterValue) X(CreateCommandPool)      \
    X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer)   \
    X(EndCommandBuffer) X(CreateShaderModule) X(DestroyShaderModule)        \
    X(CreatePipelineLayout) X(DestroyPipelineLayout) X(DestroyPipeline)     \
    X(CreateComputePipelines) X(CreatePipelineCache) X(DestroyPipelineCache) \
    X(GetPipelineCacheData) X(CmdBindPipeline) X(CmdPushConstants)          \
    X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer)                   \
    X(CreateQueryPool) X(DestroyQueryPool) X(CmdResetQueryPool)             \
    X(CmdWriteTimestamp) X(GetQueryPoolResults)
// clang-format on

#define HEDDLE_VK_MEMBER(name) PFN_vk##name name = nullptr;

/// The loader's own functions and those of an instance.
struct InstanceApi {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
    HEDDLE_VK_GLOBAL(HEDDLE_VK_MEMBER)
    HEDDLE_VK_INSTANCE(HEDDLE_VK_MEMBER)
};

struct DeviceApi {
    HEDDLE_VK_DEVICE(HEDDLE_VK_MEMBER)
};

#undef HEDDLE_VK_MEMBER

/// The name of a result: "VK_ERROR_DEVICE_LOST".
std::string name_of(VkResult result);

/// Success, or a failure whose sentence is `parts` and the result's name.
template <class... Parts>
Result<> check(VkResult result, const Parts&... parts) {
    if (result == VK_SUCCESS) return ok();
    const bool is_memory =
        result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY;
    return failure(is_memory ? Errc::out_of_memory : Errc::device, parts..., ": ", name_of(result));
}

using gpu::describe_bytes;

/// An instance of Vulkan, and the loader that it came from. Lives as long as any of its devices.
class Instance {
public:
    /// `library` is the loader's file. Fails with `not_found` where there is none.
    static Result<std::shared_ptr<const Instance>> open(const std::string& library);
    ~Instance();
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    const InstanceApi& api() const { return api_; }
    VkInstance handle() const { return instance_; }

    /// Functions of a device of this instance.
    Result<DeviceApi> device_api(VkDevice device) const;

private:
    Instance() = default;
    Result<> load(const std::string& library);

    void* library_ = nullptr;
    VkInstance instance_ = VK_NULL_HANDLE;
    InstanceApi api_;
};

}  // namespace heddle::vulkan
