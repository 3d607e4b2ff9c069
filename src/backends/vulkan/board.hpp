#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/vulkan/api.hpp"
#include "backends/vulkan/facts.hpp"
#include "backends/vulkan/options.hpp"

namespace heddle::vulkan {

/// A device of the driver as it is before anything is made on it.
struct Board {
    std::string name;         ///< "Vulkan0"
    std::string description;  ///< the driver's name of the device
    std::string id;           ///< address on the bus; empty: unknown
    std::string driver;       ///< for people
    std::shared_ptr<const Instance> instance;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    std::uint32_t queue_family = 0;
    std::uint32_t time_bits = 0;  ///< of the queue's clock; 0: it has none
    bool is_integrated = false;
    bool has_budget = false;  ///< the driver says how much memory is left
    std::uint64_t buffer_limit = 0, allocation_limit = 0;
    std::size_t alignment = 16, map_alignment = 64;
    VkPhysicalDeviceProperties properties{};
    VkPhysicalDeviceMemoryProperties memory{};
    DeviceFacts facts;
    Options options;

    /// It is asked for, and the queue has a clock.
    bool is_timing() const { return options.is_timing && time_bits > 0; }
};

/// The devices there are, and sentences about those that are left out.
struct Survey {
    std::vector<Board> boards;
    std::vector<std::string> left_out;
};

/// Fails if `options.visible` names a device that is not there.
Result<Survey> survey_devices(const std::shared_ptr<const Instance>& instance,
                              const Options& options);

/// Numbers separated by commas or blanks, each below `count`.
Result<std::vector<std::size_t>> parse_visible(const std::string& list, std::size_t count);

/// Free and total bytes of the device's own heaps, as the driver reports them; all heaps of an
/// integrated device. Without such a report everything is free.
struct MemoryReport {
    std::size_t free = 0, total = 0;
};
MemoryReport report_memory(const Board& board);

}  // namespace heddle::vulkan
