#pragma once

#include <string_view>

#include "backends/vulkan/stream.hpp"

namespace heddle::vulkan {

class VulkanDevice : public plugin::Device<VulkanDevice> {
public:
    VulkanDevice(ggml_backend_reg_t registration, Board board)
        : Device(registration), site_(std::move(board)), memory_(handle(), site_) {}

    const char* name() { return board().name.c_str(); }
    const char* description() { return board().description.c_str(); }
    const char* id() { return board().id.empty() ? nullptr : board().id.c_str(); }
    plugin::DeviceType type();
    plugin::MemoryAmount memory();
    ggml_backend_buffer_type_t buffer_type() { return memory_.handle(); }
    ggml_backend_buffer_type_t host_buffer_type();
    Result<std::unique_ptr<VulkanStream>> start(const char*) { return VulkanStream::make(site_); }
    bool supports(const ggml_tensor& node);
    std::string objection(const ggml_tensor& node);
    bool accepts(ggml_backend_buffer_type_t type) { return type == memory_.handle(); }
    bool wants(const ggml_tensor& node);
    Result<std::unique_ptr<VulkanEvent>> make_event() { return std::make_unique<VulkanEvent>(); }
    Result<> wait(const VulkanEvent& event) { return event.wait_on_host(); }
    void describe(ggml_backend_dev_props& props) {
        props.caps.mmap_support = !board().is_integrated;
    }

    const Board& board() const { return site_.board(); }
    Site& site() { return site_; }

private:
    bool has_foreign_operand(const ggml_tensor& node);

    Site site_;
    DeviceMemory memory_;
};

/// The VulkanStream inside `stream`; null for streams of other kinds and for null.
VulkanStream* vulkan_stream(ggml_backend_t stream);

}  // namespace heddle::vulkan
