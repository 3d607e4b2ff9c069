#pragma once

#include "backends/vulkan/faults.hpp"
#include "backends/vulkan/memory.hpp"
#include "backends/vulkan/replay.hpp"
#include "backends/vulkan/staging.hpp"

namespace heddle::vulkan {

/// A mark in a stream. Until it is recorded it counts as reached.
struct VulkanEvent {
    std::shared_ptr<Timeline> timeline;
    std::uint64_t value = 0;

    Result<> wait_on_host() const { return timeline != nullptr ? timeline->wait(value) : ok(); }
};

/// A queue of a device. Calls enqueue and return.
class VulkanStream {
public:
    static inline ggml_guid guid = {0x9c, 0x41, 0x0d, 0xe7, 0x52, 0xb8, 0x4f, 0x13,
                                    0xa6, 0x3e, 0x7b, 0xc5, 0x28, 0xf0, 0x91, 0x6d};

    static Result<std::unique_ptr<VulkanStream>> make(Site& site);
    ~VulkanStream();
    VulkanStream(const VulkanStream&) = delete;
    VulkanStream& operator=(const VulkanStream&) = delete;

    const char* name() const { return site_.board().name.c_str(); }

    /// Puts nodes side by side that go together, before their memory is planned.
    void optimize(ggml_cgraph& graph) const;

    /// Takes the scratch memory that the graph will need.
    Result<> reserve(ggml_cgraph& graph);

    Result<> compute(ggml_cgraph& graph);
    Result<> synchronize();

    Result<> write_async(Tensor& tensor, std::size_t offset, std::span<const std::byte> bytes);
    Result<> read_async(const Tensor& tensor, std::size_t offset, std::span<std::byte> bytes);

    /// From another stream of the same device; the copy is queued behind that stream's work.
    bool copy_async(ggml_backend_t source, const Tensor& from, Tensor& to);

    Result<> record(VulkanEvent& event);
    Result<> wait(const VulkanEvent& event);

private:
    VulkanStream(Site& site, std::shared_ptr<Gpu> gpu, std::shared_ptr<Timeline> timeline,
                 CommandPool commands, StagingRing staging, Faults faults);

    struct Place {
        const VulkanBuffer* buffer;
        std::size_t offset;
    };
    Result<Place> place_of(const Tensor& tensor, std::size_t offset, std::size_t size) const;

    Result<> open();                         ///< a command buffer for copies
    Result<> submit(VkCommandBuffer graph);  ///< what is open, then the graph if not null
    Result<> flush() { return open_ != VK_NULL_HANDLE ? submit(VK_NULL_HANDLE) : ok(); }
    Result<std::size_t> take_staging(std::size_t size);
    Result<> settle(std::span<const std::byte> bytes);
    Result<> take_scratch(std::size_t size);
    Result<RecordedGraph*> record_graph(const Plan& plan);
    Result<> emit(const Recorder& recorder, std::uint64_t arguments, VkCommandBuffer commands,
                  Stopwatch* stopwatch);
    void forget(RecordedGraph graph);
    Result<> copy_from(VulkanStream& source, const Tensor& from, Tensor& to);

    Site& site_;
    const std::shared_ptr<Gpu> gpu_;
    const std::shared_ptr<Timeline> timeline_;
    CommandPool commands_;
    StagingRing staging_;
    Faults faults_;
    std::optional<Memory> scratch_;
    Replay replay_;
    VkCommandBuffer open_ = VK_NULL_HANDLE;
    std::vector<VulkanEvent> waits_;                     ///< of the next submission
    std::vector<std::shared_ptr<Timeline>> waited_for_;  ///< of other streams, each once
};

}  // namespace heddle::vulkan
