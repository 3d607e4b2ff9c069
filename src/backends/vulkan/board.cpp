#include "backends/vulkan/board.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>

#include "backends/vulkan/matrices.hpp"

namespace heddle::vulkan {
namespace {

/// All that is asked of a device, in one chain each.
struct Answers {
    VkPhysicalDeviceVulkan11Features features11{};
    VkPhysicalDeviceVulkan12Features features12{};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot{};
    MatrixFeatures matrices;
    VkPhysicalDeviceFeatures2 features{};
    VkPhysicalDeviceVulkan11Properties properties11{};
    VkPhysicalDeviceVulkan12Properties properties12{};
    VkPhysicalDeviceMaintenance4Properties maintenance4{};
    VkPhysicalDeviceShaderIntegerDotProductProperties dot_properties{};
    VkPhysicalDevicePCIBusInfoPropertiesEXT bus{};
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV multiprocessors{};
    VkPhysicalDeviceProperties2 properties{};
    VkPhysicalDeviceMemoryProperties2 memory{};
    bool has_bus = false, has_budget = false, is_13 = false;
};

std::vector<std::string> extensions_of(const InstanceApi& api, VkPhysicalDevice device) {
    std::uint32_t count = 0;
    api.EnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> found(count);
    api.EnumerateDeviceExtensionProperties(device, nullptr, &count, found.data());
    std::vector<std::string> names;
    for (const VkExtensionProperties& each : found) names.emplace_back(each.extensionName);
    return names;
}

template <class Struct>
void link(void*& last, Struct& next, VkStructureType type) {
    next.sType = type;
    static_cast<VkBaseOutStructure*>(last)->pNext = reinterpret_cast<VkBaseOutStructure*>(&next);
    last = &next;
}

void ask(const InstanceApi& api, VkPhysicalDevice device, Answers& answers) {
    const std::vector<std::string> extensions = extensions_of(api, device);
    const auto has = [&](const char* name) {
        return std::ranges::find(extensions, name) != extensions.end();
    };
    answers.properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    api.GetPhysicalDeviceProperties2(device, &answers.properties);
    answers.is_13 = answers.properties.properties.apiVersion >= VK_API_VERSION_1_3;
    answers.has_bus = has(VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
    answers.has_budget = has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    answers.features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    void* last = &answers.features;
    link(last, answers.features11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    link(last, answers.features12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    if (answers.is_13) {
        link(last, answers.dot,
             VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
    }
    if (has(kMatrixExtension)) link(last, answers.matrices, MatrixFeatures::kType);
    api.GetPhysicalDeviceFeatures2(device, &answers.features);
    last = &answers.properties;
    link(last, answers.properties11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
    link(last, answers.properties12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
    if (answers.is_13) {
        link(last, answers.maintenance4,
             VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
        link(last, answers.dot_properties,
             VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
    }
    if (answers.has_bus) {
        link(last, answers.bus, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
    }
    if (has(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
        link(last, answers.multiprocessors,
             VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
    }
    api.GetPhysicalDeviceProperties2(device, &answers.properties);
    answers.memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    api.GetPhysicalDeviceMemoryProperties2(device, &answers.memory);
}

/// What every device must have: kernels read bytes and half words through addresses of 64 bits.
std::string_view missing_feature(const Answers& answers) {
    const auto& limits = answers.properties.properties.limits;
    if (answers.properties.properties.apiVersion < VK_API_VERSION_1_2) return "Vulkan 1.2";
    if (answers.features11.storageBuffer16BitAccess == VK_FALSE) return "storageBuffer16BitAccess";
    if (answers.features12.storageBuffer8BitAccess == VK_FALSE) return "storageBuffer8BitAccess";
    if (answers.features12.timelineSemaphore == VK_FALSE) return "timelineSemaphore";
    if (answers.features12.bufferDeviceAddress == VK_FALSE) return "bufferDeviceAddress";
    if (answers.features.features.shaderInt64 == VK_FALSE) return "shaderInt64";
    if (answers.features.features.shaderInt16 == VK_FALSE) return "shaderInt16";
    if (limits.maxPushConstantsSize < 128) return "128 bytes of push constants";
    if (limits.maxComputeSharedMemorySize < 32768) return "32 KiB of shared memory";
    if (limits.maxComputeWorkGroupInvocations < 256) return "workgroups of 256 invocations";
    const auto needed = VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    if ((answers.properties11.subgroupSupportedOperations & needed) != needed ||
        (answers.properties11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0) {
        return "sums and shuffles in subgroups";
    }
    return {};
}

/// Whether there are matrices of the one shape that shaders use.
bool has_matrices(const Instance& instance, VkPhysicalDevice device, const Answers& answers) {
    const auto ask_shapes = reinterpret_cast<AskMatrixShapes>(instance.api().GetInstanceProcAddr(
        instance.handle(), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    if (answers.matrices.cooperativeMatrix == VK_FALSE || ask_shapes == nullptr ||
        answers.features12.vulkanMemoryModel == VK_FALSE ||
        answers.features12.shaderFloat16 == VK_FALSE || answers.properties11.subgroupSize != 32) {
        return false;
    }
    std::uint32_t count = 0;
    ask_shapes(device, &count, nullptr);
    std::vector<MatrixShape> shapes(count);
    ask_shapes(device, &count, shapes.data());
    return std::ranges::any_of(shapes, [](const MatrixShape& shape) {
        return shape.rows == 16 && shape.columns == 16 && shape.depth == 16 &&
               shape.a == VK_COMPONENT_TYPE_FLOAT16_NV && shape.b == VK_COMPONENT_TYPE_FLOAT16_NV &&
               shape.c == VK_COMPONENT_TYPE_FLOAT32_NV &&
               shape.result == VK_COMPONENT_TYPE_FLOAT32_NV && shape.scope == VK_SCOPE_SUBGROUP_NV;
    });
}

DeviceFacts facts_of(const Answers& answers, const Options& options) {
    const auto& properties = answers.properties.properties;
    DeviceFacts facts;
    facts.is_software = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    facts.has_cheap_barriers = !facts.is_software || options.forces_gpu_kernels;
    facts.has_integer_dot =
        options.uses_integer_dot && answers.dot.shaderIntegerDotProduct != VK_FALSE &&
        (options.forces_integer_dot ||
         answers.dot_properties.integerDotProduct4x8BitPackedSignedAccelerated != VK_FALSE);
    facts.has_float16 = options.uses_float16 && answers.features12.shaderFloat16 != VK_FALSE;
    facts.subgroup = answers.properties11.subgroupSize;
    facts.shared_memory = properties.limits.maxComputeSharedMemorySize;
    facts.workgroup = properties.limits.maxComputeWorkGroupInvocations;
    facts.group_count = properties.limits.maxComputeWorkGroupCount[0];
    facts.units = answers.multiprocessors.shaderSMCount > 0 ? answers.multiprocessors.shaderSMCount
                  : facts.is_software                       ? 4
                                                            : 32;
    return facts;
}

std::string bus_address(const VkPhysicalDevicePCIBusInfoPropertiesEXT& bus) {
    std::array<char, 32> address{};
    std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.%x", bus.pciDomain, bus.pciBus,
                  bus.pciDevice, bus.pciFunction);
    return address.data();
}

struct QueueFamily {
    std::uint32_t index, time_bits;
};

/// A family that computes, best without graphics: displays do not wait for such a queue.
std::optional<QueueFamily> compute_family(const InstanceApi& api, VkPhysicalDevice device) {
    std::uint32_t count = 0;
    api.GetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    api.GetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
    std::optional<QueueFamily> any;
    for (std::uint32_t i = 0; i < count; ++i) {
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
        const QueueFamily family{i, families[i].timestampValidBits};
        if ((families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0) return family;
        if (!any) any = family;
    }
    return any;
}

struct Candidate {
    Board board;
    VkPhysicalDeviceType type;
    std::array<std::uint8_t, VK_UUID_SIZE> uuid;
};

Result<Candidate> describe(const std::shared_ptr<const Instance>& instance,
                           VkPhysicalDevice physical, const Options& options) {
    Answers answers;
    ask(instance->api(), physical, answers);
    const VkPhysicalDeviceProperties& properties = answers.properties.properties;
    if (const auto missing = missing_feature(answers); !missing.empty()) {
        return failure(Errc::unsupported, properties.deviceName, " lacks ", missing);
    }
    const auto family = compute_family(instance->api(), physical);
    if (!family) {
        return failure(Errc::unsupported, properties.deviceName, " has no queue that computes");
    }
    Board board;
    board.description = properties.deviceName;
    board.driver = text(answers.properties12.driverName, ' ', answers.properties12.driverInfo);
    if (answers.has_bus) board.id = bus_address(answers.bus);
    board.instance = instance;
    board.physical = physical;
    board.queue_family = family->index;
    board.time_bits = family->time_bits;
    board.is_integrated = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    board.has_budget = answers.has_budget;
    board.allocation_limit = answers.properties11.maxMemoryAllocationSize;
    board.buffer_limit =
        answers.is_13 ? answers.maintenance4.maxBufferSize : board.allocation_limit;
    if (options.buffer_limit > 0) {
        board.buffer_limit = std::min(board.buffer_limit, options.buffer_limit);
    }
    board.alignment = std::max<std::size_t>(properties.limits.minStorageBufferOffsetAlignment, 64);
    board.map_alignment = properties.limits.minMemoryMapAlignment;
    board.properties = properties;
    board.memory = answers.memory.memoryProperties;
    board.facts = facts_of(answers, options);
    board.facts.has_matrix_units = options.uses_matrix_units && board.facts.has_float16 &&
                                   has_matrices(*instance, physical, answers);
    board.options = options;
    Candidate candidate{std::move(board), properties.deviceType, {}};
    std::memcpy(candidate.uuid.data(), answers.properties11.deviceUUID, VK_UUID_SIZE);
    return candidate;
}

bool is_gpu(const Candidate& candidate) {
    return candidate.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ||
           candidate.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
}

/// Every GPU once, whatever number of drivers there are for it; else the first
/// device that is no software.
std::vector<Board> choose_by_type(const std::vector<Candidate>& candidates) {
    std::vector<const Candidate*> chosen;
    for (const Candidate& each : candidates) {
        const auto is_same = [&](const Candidate* other) { return other->uuid == each.uuid; };
        if (is_gpu(each) && std::ranges::none_of(chosen, is_same)) chosen.push_back(&each);
    }
    if (chosen.empty()) {
        const auto is_hardware = [](const Candidate& each) {
            return each.type != VK_PHYSICAL_DEVICE_TYPE_CPU;
        };
        const auto first = std::ranges::find_if(candidates, is_hardware);
        if (first != candidates.end()) chosen.push_back(&*first);
    }
    std::vector<Board> boards;
    for (const Candidate* each : chosen) boards.push_back(each->board);
    return boards;
}

Result<std::vector<VkPhysicalDevice>> devices_of(const Instance& instance) {
    std::uint32_t count = 0;
    const InstanceApi& api = instance.api();
    HEDDLE_TRY(check(api.EnumeratePhysicalDevices(instance.handle(), &count, nullptr),
                     "asking Vulkan for its devices"));
    std::vector<VkPhysicalDevice> devices(count);
    HEDDLE_TRY(check(api.EnumeratePhysicalDevices(instance.handle(), &count, devices.data()),
                     "asking Vulkan for its devices"));
    devices.resize(count);
    return devices;
}

}  // namespace

Result<std::vector<std::size_t>> parse_visible(const std::string& list, std::size_t count) {
    std::vector<std::size_t> numbers;
    for (std::size_t at = list.find_first_not_of(", "); at != std::string::npos;) {
        const std::size_t end = std::min(list.find_first_of(", ", at), list.size());
        std::size_t number = 0;
        const auto [stop, failed] = std::from_chars(list.data() + at, list.data() + end, number);
        if (failed != std::errc{} || stop != list.data() + end || number >= count) {
            return invalid("GGML_VK_VISIBLE_DEVICES is '", list, "': '", list.substr(at, end - at),
                           "' is not one of the ", count, " devices, counted from 0");
        }
        numbers.push_back(number);
        at = list.find_first_not_of(", ", end);
    }
    return numbers;
}

Result<Survey> survey_devices(const std::shared_ptr<const Instance>& instance,
                              const Options& options) {
    HEDDLE_TRY_ASSIGN(const auto devices, devices_of(*instance));
    Survey survey;
    if (options.visible) {
        HEDDLE_TRY_ASSIGN(const auto numbers, parse_visible(*options.visible, devices.size()));
        for (const std::size_t number : numbers) {
            HEDDLE_TRY_ASSIGN(Candidate candidate, describe(instance, devices[number], options));
            survey.boards.push_back(std::move(candidate.board));
        }
    } else {
        std::vector<Candidate> candidates;
        for (const VkPhysicalDevice device : devices) {
            auto candidate = describe(instance, device, options);
            if (candidate) {
                candidates.push_back(*std::move(candidate));
            } else {
                survey.left_out.push_back("Vulkan: " + candidate.error().message);
            }
        }
        survey.boards = choose_by_type(candidates);
    }
    for (std::size_t i = 0; i < survey.boards.size(); ++i) {
        survey.boards[i].name = text("Vulkan", i);
    }
    return survey;
}

MemoryReport report_memory(const Board& board) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
    budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    VkPhysicalDeviceMemoryProperties2 memory{};
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    if (board.has_budget) memory.pNext = &budget;
    board.instance->api().GetPhysicalDeviceMemoryProperties2(board.physical, &memory);
    MemoryReport report;
    for (std::uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; ++i) {
        const VkMemoryHeap& heap = memory.memoryProperties.memoryHeaps[i];
        if (!board.is_integrated && (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) == 0) continue;
        report.total += heap.size;
        const VkDeviceSize most = board.has_budget ? budget.heapBudget[i] : heap.size;
        const VkDeviceSize used = board.has_budget ? budget.heapUsage[i] : 0;
        report.free += most > used ? most - used : 0;
    }
    return report;
}

}  // namespace heddle::vulkan
