#include "backends/vulkan/api.hpp"

#include <dlfcn.h>

namespace heddle::vulkan {
namespace {

/// Semaphores that count and addresses of buffers are part of it.
constexpr std::uint32_t kLeastVersion = VK_API_VERSION_1_2;

std::string words_of_version(std::uint32_t version) {
    return text(VK_API_VERSION_MAJOR(version), '.', VK_API_VERSION_MINOR(version));
}

template <class Function>
Result<> take(Function& function, PFN_vkVoidFunction found, const char* name) {
    function = reinterpret_cast<Function>(found);
    return found != nullptr ? ok() : failure(Errc::unsupported, "Vulkan has no function vk", name);
}

}  // namespace

std::string name_of(VkResult result) {
    switch (result) {
        case VK_ERROR_OUT_OF_HOST_MEMORY:
            return "out of host memory";
        case VK_ERROR_OUT_OF_DEVICE_MEMORY:
            return "out of device memory";
        case VK_ERROR_INITIALIZATION_FAILED:
            return "initialization failed";
        case VK_ERROR_DEVICE_LOST:
            return "the device is lost; this process cannot use it any more";
        case VK_ERROR_INCOMPATIBLE_DRIVER:
            return "there is no driver";
        case VK_ERROR_TOO_MANY_OBJECTS:
            return "too many objects";
        case VK_TIMEOUT:
            return "timeout";
        default:
            return text("VkResult ", static_cast<int>(result));
    }
}

Result<> Instance::load(const std::string& library) {
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
        return failure(Errc::not_found, "there is no Vulkan loader: ", dlerror());
    }
    api_.GetInstanceProcAddr =
        reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library_, "vkGetInstanceProcAddr"));
    if (api_.GetInstanceProcAddr == nullptr) {
        return failure(Errc::not_found, library, " is no Vulkan loader");
    }
#define HEDDLE_VK_TAKE(name) \
    HEDDLE_TRY(take(api_.name, api_.GetInstanceProcAddr(instance_, "vk" #name), #name));
    HEDDLE_VK_GLOBAL(HEDDLE_VK_TAKE)
    std::uint32_t version = 0;
    HEDDLE_TRY(check(api_.EnumerateInstanceVersion(&version), "asking Vulkan for its version"));
    if (version < kLeastVersion) {
        return failure(Errc::unsupported, "the Vulkan loader has version ",
                       words_of_version(version), ", and ", words_of_version(kLeastVersion),
                       " is needed");
    }
    const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                        .pNext = nullptr,
                                        .pApplicationName = "heddle",
                                        .applicationVersion = 1,
                                        .pEngineName = nullptr,
                                        .engineVersion = 0,
                                        .apiVersion = version};
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    HEDDLE_TRY(check(api_.CreateInstance(&info, nullptr, &instance_), "making an instance"));
    HEDDLE_VK_INSTANCE(HEDDLE_VK_TAKE)
#undef HEDDLE_VK_TAKE
    return ok();
}

Result<std::shared_ptr<const Instance>> Instance::open(const std::string& library) {
    std::shared_ptr<Instance> made(new Instance);
    HEDDLE_TRY(made->load(library));
    return std::shared_ptr<const Instance>(std::move(made));
}

Instance::~Instance() {
    if (instance_ != VK_NULL_HANDLE && api_.DestroyInstance != nullptr) {
        api_.DestroyInstance(instance_, nullptr);
    }
    if (library_ != nullptr) dlclose(library_);
}

Result<DeviceApi> Instance::device_api(VkDevice device) const {
    DeviceApi api;
#define HEDDLE_VK_TAKE(name) \
    HEDDLE_TRY(take(api.name, api_.GetDeviceProcAddr(device, "vk" #name), #name));
    HEDDLE_VK_DEVICE(HEDDLE_VK_TAKE)
#undef HEDDLE_VK_TAKE
    return api;
}

}  // namespace heddle::vulkan
