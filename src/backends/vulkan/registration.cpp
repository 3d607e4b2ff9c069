// ggml-vulkan.h, and the registration "Vulkan".

#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "backends/gpu/environment.hpp"
#include "backends/named_functions.hpp"
#include "backends/vulkan/device.hpp"
#include "core/cache_folder.hpp"
#include "ggml-vulkan.h"
#include "heddle/backend/nodes.hpp"
#include "heddle/backend/reserve.h"

namespace heddle::vulkan {
namespace {

// ---- options -----------------------------------------------------------------------------------

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

std::optional<std::int64_t> number_from(const char* name) {
    return gpu::whole_number("Vulkan", name, std::getenv(name));
}

std::uint64_t bytes_from(const char* name, std::uint64_t otherwise) {
    const std::int64_t number = number_from(name).value_or(-1);
    return number > 0 ? static_cast<std::uint64_t>(number) : otherwise;
}

std::string cache_directory() {
    if (const char* named = std::getenv("HEDDLE_VK_CACHE_DIR")) return named;
    return cache_folder(std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
}

Options options_from_environment() {
    Options options;
    if (const char* loader = std::getenv("HEDDLE_VK_LOADER")) options.loader = loader;
    if (const char* visible = std::getenv("GGML_VK_VISIBLE_DEVICES")) options.visible = visible;
    options.prefers_host_memory = is_set("GGML_VK_PREFER_HOST_MEMORY");
    options.uses_visible_device_memory = !is_set("GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM");
    options.may_spill = is_set("GGML_VK_ALLOW_SYSMEM_FALLBACK");
    options.is_fusing = !is_set("GGML_VK_DISABLE_FUSION");
    options.is_replaying = !is_set("HEDDLE_VK_DISABLE_REPLAY");
    options.is_timing = is_set("GGML_VK_PERF_LOGGER");
    options.uses_float16 = !is_set("GGML_VK_DISABLE_F16");
    options.uses_integer_dot = !is_set("GGML_VK_DISABLE_INTEGER_DOT_PRODUCT");
    options.uses_matrix_units = !is_set("GGML_VK_DISABLE_COOPMAT");
    options.forces_integer_dot = is_set("HEDDLE_VK_FORCE_INT_DOT");
    options.forces_gpu_kernels = is_set("HEDDLE_VK_FORCE_GPU_KERNELS");
    options.offload_batch =
        number_from("GGML_OP_OFFLOAD_MIN_BATCH").value_or(options.offload_batch);
    options.buffer_limit = bytes_from("GGML_VK_FORCE_MAX_BUFFER_SIZE", 0);
    options.cache_directory = cache_directory();
    options.heap_limit = bytes_from("HEDDLE_VK_HEAP", 0);
    options.staging = bytes_from("HEDDLE_VK_STAGING", options.staging);
    options.lose_after = number_from("HEDDLE_VK_LOSE_AFTER").value_or(-1);
    return options;
}

// ---- registration ------------------------------------------------------------------------------

class VulkanRegistration : public plugin::Registration<VulkanRegistration> {
public:
    explicit VulkanRegistration(Survey survey) {
        for (Board& board : survey.boards) {
            devices_.push_back(std::make_unique<VulkanDevice>(handle(), std::move(board)));
        }
        host_.emplace(devices_.empty() ? nullptr : devices_.front()->handle(),
                      devices_.empty() ? nullptr : &devices_.front()->site());
        announce(survey.left_out);
    }

    const char* name() { return GGML_VK_NAME; }
    std::size_t device_count() { return devices_.size(); }
    ggml_backend_dev_t device(std::size_t index) { return devices_[index]->handle(); }
    void* find(std::string_view name);

    ggml_backend_buffer_type_t host_memory() { return host_->handle(); }
    VulkanDevice* device_at(std::size_t index) {
        return index < devices_.size() ? devices_[index].get() : nullptr;
    }

private:
    void announce(const std::vector<std::string>& left_out) const;

    std::vector<std::unique_ptr<VulkanDevice>> devices_;
    std::optional<HostMemory> host_;
};

void VulkanRegistration::announce(const std::vector<std::string>& left_out) const {
    for (const std::string& sentence : left_out) plugin::log(GGML_LOG_LEVEL_WARN, sentence);
    for (const auto& device : devices_) {
        const Board& board = device->board();
        plugin::log(GGML_LOG_LEVEL_DEBUG,
                    text(board.name, ": ", board.description, ", ", board.driver, ", subgroups of ",
                         board.facts.subgroup, ", ", board.facts.shared_memory,
                         " bytes of shared memory, integer dot products ",
                         board.facts.has_integer_dot ? "yes" : "no"));
        if (board.facts.is_software) {
            plugin::log(GGML_LOG_LEVEL_WARN, text(board.name, ": ", board.description,
                                                  " is software: the CPU device is faster"));
        }
        if (board.options.is_timing && !board.is_timing()) {
            plugin::log(GGML_LOG_LEVEL_WARN, text(board.name, ": GGML_VK_PERF_LOGGER is set, but ",
                                                  board.description, " has no clock for its work"));
        }
    }
}

/// What the driver has now; made once, with the reason why it cannot be.
Result<Survey> survey() {
    const Options options = options_from_environment();
    HEDDLE_TRY_ASSIGN(const auto instance, Instance::open(options.loader));
    return survey_devices(instance, options);
}

/// Null where Vulkan cannot be used. Never destroyed: devices are used until the process ends.
VulkanRegistration* the_registration() noexcept {
    return plugin::ask<VulkanRegistration*>(nullptr, [] {
        static VulkanRegistration* const made = []() -> VulkanRegistration* {
            auto found = survey();
            if (!found) {
                plugin::report(std::move(found).error().within("Vulkan"));
                return nullptr;
            }
            return new VulkanRegistration(*std::move(found));
        }();
        return made;
    });
}

/// The device of that number; null, with a sentence, where there is none.
VulkanDevice* known_device(const char* function, std::size_t index) {
    VulkanRegistration* const registration = the_registration();
    VulkanDevice* const device = registration != nullptr ? registration->device_at(index) : nullptr;
    if (device == nullptr) {
        plugin::report(invalid(function, ": device ", index, " is not one of the ",
                               ggml_backend_vk_get_device_count(), " Vulkan devices"));
    }
    return device;
}

// ---- functions found by name -------------------------------------------------------------------

ggml_status stream_reserve(ggml_backend_t stream, ggml_cgraph* graph) {
    return plugin::attempt_status([&] { return std::string("reserve"); },
                                  [&]() -> Result<> {
                                      VulkanStream* const found = vulkan_stream(stream);
                                      if (found == nullptr || graph == nullptr)
                                          return invalid("no Vulkan stream, or no graph");
                                      return found->reserve(*graph);
                                  });
}

ggml_backend_feature* get_features(ggml_backend_reg_t) {
    static std::array<ggml_backend_feature, 2> features{{{"REPLAY", "1"}, {nullptr, nullptr}}};
    return features.data();
}

void* VulkanRegistration::find(std::string_view name) {
    static const std::array functions{
        named("ggml_backend_get_features", get_features),
        named(HEDDLE_STREAM_RESERVE, stream_reserve),
    };
    return find_function(functions, name);
}

}  // namespace
}  // namespace heddle::vulkan

using heddle::vulkan::VulkanDevice;
using heddle::vulkan::VulkanRegistration;

ggml_backend_reg_t ggml_backend_vk_reg(void) {
    VulkanRegistration* const registration = heddle::vulkan::the_registration();
    return registration != nullptr ? registration->handle() : nullptr;
}

ggml_backend_t ggml_backend_vk_init(size_t dev_num) {
    VulkanDevice* const found = heddle::vulkan::known_device("ggml_backend_vk_init", dev_num);
    if (found == nullptr) return nullptr;
    return found->handle()->iface.init_backend(found->handle(), nullptr);
}

bool ggml_backend_is_vk(ggml_backend_t backend) {
    return heddle::vulkan::vulkan_stream(backend) != nullptr;
}

int ggml_backend_vk_get_device_count(void) {
    VulkanRegistration* const registration = heddle::vulkan::the_registration();
    return registration != nullptr ? static_cast<int>(registration->device_count()) : 0;
}

void ggml_backend_vk_get_device_description(int device, char* description,
                                            size_t description_size) {
    if (description == nullptr || description_size == 0) return;
    description[0] = '\0';
    VulkanDevice* const found = heddle::vulkan::known_device(
        "ggml_backend_vk_get_device_description", static_cast<std::size_t>(device));
    if (found == nullptr) return;
    const std::string_view words = found->description();
    description[words.copy(description, description_size - 1)] = '\0';
}

void ggml_backend_vk_get_device_memory(int device, size_t* free, size_t* total) {
    heddle::plugin::MemoryAmount amount;
    VulkanDevice* const found = heddle::vulkan::known_device("ggml_backend_vk_get_device_memory",
                                                             static_cast<std::size_t>(device));
    if (found != nullptr) amount = found->memory();
    if (free != nullptr) *free = amount.free;
    if (total != nullptr) *total = amount.total;
}

ggml_backend_buffer_type_t ggml_backend_vk_buffer_type(size_t dev_num) {
    VulkanDevice* const found =
        heddle::vulkan::known_device("ggml_backend_vk_buffer_type", dev_num);
    return found != nullptr ? found->buffer_type() : nullptr;
}

ggml_backend_buffer_type_t ggml_backend_vk_host_buffer_type(void) {
    VulkanRegistration* const registration = heddle::vulkan::the_registration();
    return registration != nullptr ? registration->host_memory() : nullptr;
}
