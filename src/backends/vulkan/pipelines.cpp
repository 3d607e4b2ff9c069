#include "backends/vulkan/pipelines.hpp"

#include <algorithm>
#include <future>
#include <thread>

#include "backends/vulkan/matrices.hpp"
#include "backends/vulkan/pipeline_file.hpp"

namespace heddle::vulkan {

Result<std::unique_ptr<Pipelines>> Pipelines::make(Gpu& gpu) {
    std::unique_ptr<Pipelines> made(new Pipelines(gpu));
    HEDDLE_TRY(made->start());
    return made;
}

Result<> Pipelines::start() {
    const DeviceApi& api = gpu_.api();
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
    VkPipelineLayoutCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    info.pushConstantRangeCount = 1;
    info.pPushConstantRanges = &range;
    HEDDLE_TRY(gpu_.check(api.CreatePipelineLayout(gpu_.handle(), &info, nullptr, &layout_),
                          "making the layout of pipelines"));
    cache_file_ = pipeline_file(gpu_.board());
    const std::vector<std::byte> kept = read_pipeline_file(cache_file_, gpu_.board());
    VkPipelineCacheCreateInfo cache{};
    cache.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    cache.initialDataSize = kept.size();
    cache.pInitialData = kept.data();
    const auto create = [&] {
        return api.CreatePipelineCache(gpu_.handle(), &cache, nullptr, &cache_);
    };
    if (create() == VK_SUCCESS) return ok();
    // A driver may refuse what is broken behind the header.
    cache.initialDataSize = 0;
    cache.pInitialData = nullptr;
    return gpu_.check(create(), "making a cache of pipelines");
}

Pipelines::~Pipelines() {
    const DeviceApi& api = gpu_.api();
    save();
    for (const auto& [key, pipeline] : made_) {
        api.DestroyPipeline(gpu_.handle(), pipeline, nullptr);
    }
    if (cache_ != VK_NULL_HANDLE) api.DestroyPipelineCache(gpu_.handle(), cache_, nullptr);
    if (layout_ != VK_NULL_HANDLE) api.DestroyPipelineLayout(gpu_.handle(), layout_, nullptr);
}

void Pipelines::save() {
    const std::lock_guard lock(mutex_);
    if (cache_file_.empty() || !has_new_) return;
    const DeviceApi& api = gpu_.api();
    std::size_t size = 0;
    if (api.GetPipelineCacheData(gpu_.handle(), cache_, &size, nullptr) != VK_SUCCESS) return;
    std::vector<std::byte> bytes(size);
    // Fails where another thread has compiled something meanwhile: it is kept the next time.
    if (api.GetPipelineCacheData(gpu_.handle(), cache_, &size, bytes.data()) != VK_SUCCESS) return;
    bytes.resize(size);
    write_pipeline_file(cache_file_, bytes);
    has_new_ = false;
}

Result<VkPipeline> Pipelines::compile(const Key& key) {
    const DeviceApi& api = gpu_.api();
    const ShaderCode& code = code_of(key.first);
    const bool has_matrices =
        key.first == Shader::gemm_matrix || key.first == Shader::attention_matrix;
    std::vector<std::uint32_t> changed;
    if (has_matrices) changed = with_khronos_matrices(code.words);
    const std::span<const std::uint32_t> words = has_matrices ? changed : code.words;
    VkShaderModuleCreateInfo source{};
    source.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    source.codeSize = words.size_bytes();
    source.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    HEDDLE_TRY(gpu_.check(api.CreateShaderModule(gpu_.handle(), &source, nullptr, &module),
                          "loading shader ", code.name));
    std::array<VkSpecializationMapEntry, 8> entries{};
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
        entries[i] = {i, static_cast<std::uint32_t>(i * sizeof(std::int32_t)),
                      sizeof(std::int32_t)};
    }
    const VkSpecializationInfo values{static_cast<std::uint32_t>(entries.size()), entries.data(),
                                      sizeof key.second.values, key.second.values.data()};
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.stage.pSpecializationInfo = &values;
    info.layout = layout_;
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult made =
        api.CreateComputePipelines(gpu_.handle(), cache_, 1, &info, nullptr, &pipeline);
    api.DestroyShaderModule(gpu_.handle(), module, nullptr);
    HEDDLE_TRY(gpu_.check(made, "compiling shader ", code.name));
    return pipeline;
}

Result<VkPipeline> Pipelines::get(const Key& key) {
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = made_.find(key); found != made_.end()) return found->second;
    }
    // Outside of the lock: it takes long. Two threads may do it at once; the first to end wins.
    HEDDLE_TRY_ASSIGN(const VkPipeline pipeline, compile(key));
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = made_.try_emplace(key, pipeline);
    if (!is_new) gpu_.api().DestroyPipeline(gpu_.handle(), pipeline, nullptr);
    has_new_ = true;
    return place->second;
}

Result<> Pipelines::prepare(std::vector<Key> keys) {
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(keys, [&](const Key& key) { return made_.contains(key); });
    }
    std::atomic<std::size_t> next = 0;
    const auto compile_some = [&]() -> Result<> {
        for (std::size_t i = next++; i < keys.size(); i = next++) HEDDLE_TRY(get(keys[i]));
        return ok();
    };
    const std::size_t threads =
        std::min<std::size_t>(keys.size(), std::thread::hardware_concurrency());
    std::vector<std::future<Result<>>> others;
    for (std::size_t i = 1; i < threads; ++i) {
        others.push_back(std::async(std::launch::async, compile_some));
    }
    Result<> outcome = compile_some();
    for (std::future<Result<>>& each : others) {
        Result<> ended = each.get();
        if (outcome) outcome = std::move(ended);
    }
    return outcome;
}

}  // namespace heddle::vulkan
