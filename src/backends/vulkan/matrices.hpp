#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <span>
#include <vector>

/// Matrix units as VK_KHR_cooperative_matrix offers them. Vulkan's headers know it from 1.3.255 on,
/// glslc from 2023.6 on; older systems are to build this, too. So what is used of it is declared
/// here, and shaders are written with the older extension of NVIDIA, which says the same in other
/// words.
namespace heddle::vulkan {

inline constexpr const char* kMatrixExtension = "VK_KHR_cooperative_matrix";

struct MatrixFeatures {
    static constexpr auto kType = static_cast<VkStructureType>(1000506000);
    VkStructureType sType = kType;
    void* pNext = nullptr;
    VkBool32 cooperativeMatrix = VK_FALSE, robustBufferAccess = VK_FALSE;
};

struct MatrixShape {
    VkStructureType sType = static_cast<VkStructureType>(1000506001);
    void* pNext = nullptr;
    std::uint32_t rows = 0, columns = 0, depth = 0;
    VkComponentTypeNV a{}, b{}, c{}, result{};  // numbered alike in both extensions
    VkBool32 saturates = VK_FALSE;
    VkScopeNV scope{};
};

using AskMatrixShapes = VkResult(VKAPI_PTR*)(VkPhysicalDevice device, std::uint32_t* count,
                                             MatrixShape* shapes);

/// A shader's words with Khronos' matrices in place of NVIDIA's. Its matrices must have types of
/// their own for each place in a product: their sizes are constants of different numbers.
std::vector<std::uint32_t> with_khronos_matrices(std::span<const std::uint32_t> words);

}  // namespace heddle::vulkan
