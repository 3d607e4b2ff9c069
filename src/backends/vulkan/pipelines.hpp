#pragma once

#include <map>

#include "backends/vulkan/gpu.hpp"
#include "backends/vulkan/shaders.hpp"

namespace heddle::vulkan {

/// Compiled shaders of a device, made when they are first needed. Any thread may ask.
class Pipelines {
public:
    static Result<std::unique_ptr<Pipelines>> make(Gpu& gpu);
    ~Pipelines();
    Pipelines(const Pipelines&) = delete;
    Pipelines& operator=(const Pipelines&) = delete;

    /// A shader and the values of its constants.
    using Key = std::pair<Shader, Specialization>;

    Result<VkPipeline> get(const Key& key);

    /// Compiles those that are not there yet, on as many threads as the host has cores: drivers
    /// take up to a tenth of a second for each.
    Result<> prepare(std::vector<Key> keys);

    /// One for all shaders: they read buffers through addresses, so there are no descriptors.
    VkPipelineLayout layout() const { return layout_; }

    /// Keeps on disk what was compiled since the last time.
    void save();

private:
    explicit Pipelines(Gpu& gpu) : gpu_(gpu) {}
    Result<> start();
    Result<VkPipeline> compile(const Key& key);

    Gpu& gpu_;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    VkPipelineCache cache_ = VK_NULL_HANDLE;
    std::string cache_file_;  ///< empty: pipelines are not kept
    std::mutex mutex_;
    std::map<Key, VkPipeline> made_;
    bool has_new_ = false;
};

}  // namespace heddle::vulkan
