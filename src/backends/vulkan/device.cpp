#include "backends/vulkan/device.hpp"

#include <algorithm>

#include "backends/gpu/offload.hpp"
#include "ggml-vulkan.h"
#include "heddle/backend/nodes.hpp"

namespace heddle::vulkan {

plugin::DeviceType VulkanDevice::type() {
    return board().is_integrated ? GGML_BACKEND_DEVICE_TYPE_IGPU : GGML_BACKEND_DEVICE_TYPE_GPU;
}

plugin::MemoryAmount VulkanDevice::memory() {
    const MemoryReport report = report_memory(board());
    plugin::MemoryAmount amount{report.free, report.total};
    if (board().options.heap_limit > 0) {
        amount.total = std::min<std::size_t>(amount.total, board().options.heap_limit);
        amount.free = std::min(amount.free, amount.total);
    }
    // Without a report of the driver's, what this process has taken is known all the same.
    const auto gpu = site_.gpu_if_made();
    if (gpu != nullptr && !board().has_budget) {
        amount.free -= std::min<std::size_t>(amount.free, gpu->live_bytes());
    }
    return amount;
}

ggml_backend_buffer_type_t VulkanDevice::host_buffer_type() {
    return ggml_backend_vk_host_buffer_type();
}

bool VulkanDevice::supports(const ggml_tensor& node) {
    return choose_kernel(node, board().facts) != nullptr && !has_foreign_operand(node);
}

std::string VulkanDevice::objection(const ggml_tensor& node) {
    Objections why;
    if (choose_kernel(node, board().facts, &why) == nullptr) return why.text_for(node);
    return has_foreign_operand(node) ? "an operand is in memory of another Vulkan device" : "";
}

/// Memory of other kinds of device is not judged here: the scheduler copies it.
bool VulkanDevice::has_foreign_operand(const ggml_tensor& node) {
    return std::ranges::any_of(node.src, [&](const Tensor* source) {
        const ggml_backend_buffer* buffer = source != nullptr ? source->buffer : nullptr;
        return buffer != nullptr && buffer->buft != memory_.handle() &&
               buffer->buft->iface.alloc_buffer == memory_.handle()->iface.alloc_buffer;
    });
}

bool VulkanDevice::wants(const ggml_tensor& node) {
    return gpu::batch_of(node) >= board().options.offload_batch;
}

VulkanStream* vulkan_stream(ggml_backend_t stream) {
    return plugin::stream_cast<VulkanDevice, VulkanStream>(stream);
}

}  // namespace heddle::vulkan
