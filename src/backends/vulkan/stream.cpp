#include "backends/vulkan/stream.hpp"

#include <algorithm>
#include <cstring>

#include "backends/gpu/gather_products.hpp"
#include "backends/vulkan/device.hpp"
#include "backends/vulkan/pipelines.hpp"
#include "ggml-impl.h"
#include "heddle/backend/nodes.hpp"

namespace heddle::vulkan {

static_assert(plugin::WritesAsync<VulkanStream> && plugin::ReadsAsync<VulkanStream> &&
              plugin::CopiesAsync<VulkanStream> && plugin::Synchronizes<VulkanStream> &&
              plugin::Optimizes<VulkanStream>);

// ---- life --------------------------------------------------------------------------------------

VulkanStream::VulkanStream(Site& site, std::shared_ptr<Gpu> gpu, std::shared_ptr<Timeline> timeline,
                           CommandPool commands, StagingRing staging, Faults faults)
    : site_(site),
      gpu_(std::move(gpu)),
      timeline_(std::move(timeline)),
      commands_(std::move(commands)),
      staging_(std::move(staging)),
      faults_(std::move(faults)) {}

Result<std::unique_ptr<VulkanStream>> VulkanStream::make(Site& site) {
    HEDDLE_TRY_ASSIGN(auto gpu, site.gpu());
    HEDDLE_TRY_ASSIGN(auto timeline, Timeline::make(*gpu));
    HEDDLE_TRY_ASSIGN(CommandPool commands, CommandPool::make(*gpu));
    HEDDLE_TRY_ASSIGN(Memory staging,
                      Memory::make(*gpu, site.board().options.staging, Placement::staging));
    HEDDLE_TRY_ASSIGN(Faults faults, Faults::make(*gpu));
    return std::unique_ptr<VulkanStream>(
        new VulkanStream(site, std::move(gpu), std::move(timeline), std::move(commands),
                         StagingRing(std::move(staging)), std::move(faults)));
}

VulkanStream::~VulkanStream() {
    if (auto flushed = flush(); flushed) (void)timeline_->wait(timeline_->last()).has_value();
    gpu_->wait_idle();  // kernels may still use the scratch memory, also where waiting has failed
    gpu_->pipelines().save();
}

// ---- submissions -------------------------------------------------------------------------------

Result<> VulkanStream::open() {
    if (open_ != VK_NULL_HANDLE) return ok();
    HEDDLE_TRY_ASSIGN(const std::uint64_t reached, timeline_->reached());
    HEDDLE_TRY_ASSIGN(open_, commands_.begin(reached, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    full_barrier(gpu_->api(), open_);
    return ok();
}

Result<> VulkanStream::submit(VkCommandBuffer graph) {
    std::vector<VkCommandBuffer> all;
    const std::uint64_t value = timeline_->last() + 1;
    if (const VkCommandBuffer copies = std::exchange(open_, VK_NULL_HANDLE)) {
        commands_.give_back(copies, value);
        full_barrier(gpu_->api(), copies);
        HEDDLE_TRY(commands_.end(copies));
        all.push_back(copies);
    }
    if (graph != VK_NULL_HANDLE) all.push_back(graph);
    std::vector<VkSemaphore> semaphores;
    std::vector<std::uint64_t> values;
    for (const VulkanEvent& each : waits_) {
        semaphores.push_back(each.timeline->semaphore());
        values.push_back(each.value);
    }
    const std::vector<VkPipelineStageFlags> stages(waits_.size(),
                                                   VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
    const VkSemaphore own = timeline_->semaphore();
    VkTimelineSemaphoreSubmitInfo numbers{};
    numbers.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    numbers.waitSemaphoreValueCount = static_cast<std::uint32_t>(values.size());
    numbers.pWaitSemaphoreValues = values.data();
    numbers.signalSemaphoreValueCount = 1;
    numbers.pSignalSemaphoreValues = &value;
    VkSubmitInfo work{};
    work.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    work.pNext = &numbers;
    work.waitSemaphoreCount = static_cast<std::uint32_t>(semaphores.size());
    work.pWaitSemaphores = semaphores.data();
    work.pWaitDstStageMask = stages.data();
    work.commandBufferCount = static_cast<std::uint32_t>(all.size());
    work.pCommandBuffers = all.data();
    work.signalSemaphoreCount = 1;
    work.pSignalSemaphores = &own;
    HEDDLE_TRY(gpu_->submit(work));
    timeline_->advance();
    waits_.clear();
    return ok();
}

Result<> VulkanStream::synchronize() {
    HEDDLE_TRY(gpu_->check_alive());
    HEDDLE_TRY(flush());
    HEDDLE_TRY(timeline_->wait(timeline_->last()));
    return faults_.report(site_.board());
}

// ---- computing ---------------------------------------------------------------------------------

void VulkanStream::optimize(ggml_cgraph& graph) const {
    if (!site_.board().options.is_fusing || graph.n_nodes <= 0) return;
    gpu::gather_products({graph.nodes, static_cast<std::size_t>(graph.n_nodes)});
}

void VulkanStream::forget(RecordedGraph graph) {
    commands_.give_back(graph.commands, graph.last_use);
}

Result<> VulkanStream::take_scratch(std::size_t size) {
    if (size == 0 || (scratch_ && scratch_->size() >= size)) return ok();
    HEDDLE_TRY_ASSIGN(Memory larger, Memory::make(*gpu_, size, Placement::device));
    HEDDLE_TRY(synchronize());
    while (auto graph = replay_.take_any()) forget(*std::move(graph));
    scratch_ = std::move(larger);
    return ok();
}

Result<> VulkanStream::reserve(ggml_cgraph& graph) {
    return take_scratch(scratch_of(site_.board().facts, graph));
}

namespace {

Pipelines::Key key_of(const Dispatch& dispatch) {
    return {dispatch.shader, dispatch.specialization};
}

std::vector<Pipelines::Key> keys_of(const Recorder& recorder) {
    std::vector<Pipelines::Key> keys;
    for (const Command& command : recorder.commands()) {
        const auto* dispatch = std::get_if<Dispatch>(&command);
        if (dispatch != nullptr) keys.push_back(key_of(*dispatch));
    }
    return keys;
}

}  // namespace

Result<> VulkanStream::emit(const Recorder& recorder, std::uint64_t arguments,
                            VkCommandBuffer commands, Stopwatch* stopwatch) {
    const DeviceApi& api = gpu_->api();
    const VkPipelineLayout layout = gpu_->pipelines().layout();
    VkPipeline bound = VK_NULL_HANDLE;
    for (const Command& command : recorder.commands()) {
        if (std::holds_alternative<Barrier>(command)) kernel_barrier(api, commands);
        if (std::holds_alternative<Mark>(command)) stopwatch->mark(commands);
        const auto* dispatch = std::get_if<Dispatch>(&command);
        if (dispatch == nullptr) continue;
        HEDDLE_TRY_ASSIGN(const VkPipeline pipeline, gpu_->pipelines().get(key_of(*dispatch)));
        if (pipeline != std::exchange(bound, pipeline)) {
            api.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
        }
        auto push = dispatch->push;
        if (dispatch->arguments >= 0) {
            const std::uint64_t address =
                arguments + static_cast<std::uint64_t>(dispatch->arguments);
            std::memcpy(push.data(), &address, sizeof address);
        }
        api.CmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, dispatch->push_size,
                             push.data());
        const auto& [x, y, z] = dispatch->groups;
        api.CmdDispatch(commands, x, y, z);
    }
    return ok();
}

Result<RecordedGraph*> VulkanStream::record_graph(const Plan& plan) {
    const bool is_timing = site_.board().is_timing();
    Recorder recorder(site_.board().facts, scratch_ ? scratch_->address() : 0);
    plan.record(recorder, is_timing);
    HEDDLE_TRY(gpu_->pipelines().prepare(keys_of(recorder)));
    RecordedGraph graph;
    graph.key = plan.key();
    std::uint64_t arguments = 0;
    if (recorder.arguments_size() > 0) {
        HEDDLE_TRY_ASSIGN(graph.arguments,
                          Memory::make(*gpu_, recorder.arguments_size(), Placement::arguments));
        arguments = graph.arguments->address();
        const auto bytes = recorder.arguments_at(arguments, faults_.address(), gpu_->codebooks());
        std::memcpy(graph.arguments->mapped(), bytes.data(), bytes.size());
    }
    HEDDLE_TRY_ASSIGN(const std::uint64_t reached, timeline_->reached());
    if (is_timing) {
        graph.names = recorder.names();
        const auto parts = static_cast<std::uint32_t>(graph.names.size());
        HEDDLE_TRY_ASSIGN(Stopwatch stopwatch, Stopwatch::make(*gpu_, parts));
        graph.stopwatch.emplace(std::move(stopwatch));
    }
    HEDDLE_TRY_ASSIGN(graph.commands,
                      commands_.begin(reached, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT));
    full_barrier(gpu_->api(), graph.commands);
    Stopwatch* const stopwatch = is_timing ? &*graph.stopwatch : nullptr;
    auto emitted = emit(recorder, arguments, graph.commands, stopwatch);
    if (is_timing) stopwatch->mark(graph.commands);
    full_barrier(gpu_->api(), graph.commands);
    auto ended = commands_.end(graph.commands);
    if (!emitted || !ended) {
        commands_.give_back(graph.commands, 0);
        return emitted ? std::move(ended).error() : std::move(emitted).error();
    }
    if (auto surplus = replay_.take_surplus()) {
        HEDDLE_TRY(timeline_->wait(surplus->last_use));  // its arguments may still be read
        forget(*std::move(surplus));
    }
    return &replay_.add(std::move(graph));
}

Result<> VulkanStream::compute(ggml_cgraph& graph) {
    HEDDLE_TRY(gpu_->check_alive());
    HEDDLE_TRY(faults_.report(site_.board()));  // of graphs before this one
    const bool is_replaying = site_.board().options.is_replaying;
    RecordedGraph* known = is_replaying ? replay_.find(graph.uid) : nullptr;
    if (known == nullptr) {
        HEDDLE_TRY_ASSIGN(const Plan plan, Plan::make(site_, graph));
        if (plan.steps.empty()) return ok();
        HEDDLE_TRY(take_scratch(plan.scratch));
        if (is_replaying) known = replay_.find(plan.key());
        if (known == nullptr) {
            HEDDLE_TRY_ASSIGN(known, record_graph(plan));
        }
        known->uid = graph.uid;
    }
    HEDDLE_TRY(submit(known->commands));
    known->last_use = timeline_->last();
    if (known->stopwatch) {
        HEDDLE_TRY(timeline_->wait(known->last_use));
        HEDDLE_TRY_ASSIGN(const auto times, known->stopwatch->microseconds());
        plugin::log(GGML_LOG_LEVEL_INFO, table_of_times(known->names, times));
    }
    return ok();
}

// ---- copies between host and device ------------------------------------------------------------

Result<VulkanStream::Place> VulkanStream::place_of(const Tensor& tensor, std::size_t offset,
                                                   std::size_t size) const {
    const VulkanBuffer* buffer = buffer_of(tensor);
    if (buffer == nullptr || &buffer->site() != &site_) {
        return invalid(describe(tensor), " is not in memory of ", site_.board().name);
    }
    HEDDLE_TRY_ASSIGN(const std::size_t begin, buffer->position(tensor, offset, size));
    return Place{buffer, begin};
}

Result<std::size_t> VulkanStream::take_staging(std::size_t size) {
    for (bool has_waited = false;; has_waited = true) {
        HEDDLE_TRY_ASSIGN(const std::uint64_t reached, timeline_->reached());
        timeline_->hand_over(reached);  // room of finished reads is used again
        const auto offset = staging_.take(size, timeline_->last() + 1, reached);
        if (offset) return *offset;
        if (has_waited) return failure(Errc::device, "no room for ", size, " bytes of a transfer");
        HEDDLE_TRY(flush());
        HEDDLE_TRY(timeline_->wait(timeline_->last()));
    }
}

/// What this stream, or one that it has waited for, reads into `bytes` is there: the host copies
/// from them now, not in the order of the streams.
Result<> VulkanStream::settle(std::span<const std::byte> bytes) {
    if (timeline_->newest_into(bytes) > timeline_->last()) HEDDLE_TRY(flush());
    HEDDLE_TRY(timeline_->wait(timeline_->newest_into(bytes)));
    for (const auto& other : waited_for_) {
        const std::uint64_t value = other->newest_into(bytes);
        if (value <= other->last()) HEDDLE_TRY(other->wait(value));
    }
    return ok();
}

Result<> VulkanStream::write_async(Tensor& tensor, std::size_t offset,
                                   std::span<const std::byte> bytes) {
    if (bytes.empty()) return ok();
    HEDDLE_TRY_ASSIGN(const Place to, place_of(tensor, offset, bytes.size()));
    const Site::Pinned pinned = site_.find_pinned(bytes.data(), bytes.size());
    const VkBuffer device = to.buffer->memory().buffer();
    if (pinned.buffer != VK_NULL_HANDLE) {
        HEDDLE_TRY(open());
        const VkBufferCopy region{pinned.offset, to.offset, bytes.size()};
        full_barrier(gpu_->api(), open_);
        gpu_->api().CmdCopyBuffer(open_, pinned.buffer, device, 1, &region);
        return ok();
    }
    HEDDLE_TRY(settle(bytes));
    for (std::size_t at = 0; at < bytes.size(); at += staging_.size()) {
        const std::size_t size = std::min(staging_.size(), bytes.size() - at);
        HEDDLE_TRY_ASSIGN(const std::size_t room, take_staging(size));
        HEDDLE_TRY(open());
        std::memcpy(staging_.at(room), bytes.data() + at, size);
        const VkBufferCopy region{room, to.offset + at, size};
        full_barrier(gpu_->api(), open_);
        gpu_->api().CmdCopyBuffer(open_, staging_.buffer(), device, 1, &region);
    }
    return ok();
}

Result<> VulkanStream::read_async(const Tensor& tensor, std::size_t offset,
                                  std::span<std::byte> bytes) {
    if (bytes.empty()) return ok();
    HEDDLE_TRY_ASSIGN(const Place from, place_of(tensor, offset, bytes.size()));
    const Site::Pinned pinned = site_.find_pinned(bytes.data(), bytes.size());
    const VkBuffer device = from.buffer->memory().buffer();
    if (pinned.buffer != VK_NULL_HANDLE) {
        HEDDLE_TRY(open());
        const VkBufferCopy region{from.offset, pinned.offset, bytes.size()};
        full_barrier(gpu_->api(), open_);
        gpu_->api().CmdCopyBuffer(open_, device, pinned.buffer, 1, &region);
        return ok();
    }
    for (std::size_t at = 0; at < bytes.size(); at += staging_.size()) {
        const std::size_t size = std::min(staging_.size(), bytes.size() - at);
        HEDDLE_TRY_ASSIGN(const std::size_t room, take_staging(size));
        HEDDLE_TRY(open());
        const VkBufferCopy region{from.offset + at, room, size};
        full_barrier(gpu_->api(), open_);
        gpu_->api().CmdCopyBuffer(open_, device, staging_.buffer(), 1, &region);
        timeline_->deliver(timeline_->last() + 1, bytes.data() + at, staging_.at(room), size);
    }
    return ok();
}

// ---- copies between streams --------------------------------------------------------------------

bool VulkanStream::copy_async(ggml_backend_t source, const Tensor& from, Tensor& to) {
    VulkanStream* const other = vulkan_stream(source);
    if (other == nullptr || &other->site_ != &site_) return false;
    const std::size_t size = byte_size(to);
    if (!place_of(from, 0, size) || !place_of(to, 0, size)) return false;
    auto copied = copy_from(*other, from, to);
    // A copy that failed was tried: no other way is to be taken.
    if (!copied) plugin::report(std::move(copied).error().within(site_.board().name));
    return true;
}

Result<> VulkanStream::copy_from(VulkanStream& source, const Tensor& from, Tensor& to) {
    const std::size_t size = byte_size(to);
    if (size == 0) return ok();
    HEDDLE_TRY_ASSIGN(const Place begin, place_of(from, 0, size));
    HEDDLE_TRY_ASSIGN(const Place end, place_of(to, 0, size));
    // On the source's queue, behind its work: its memory may be used for something else right
    // after. What this stream still does with the destination comes first, too.
    if (&source != this) {
        HEDDLE_TRY(flush());
        source.waits_.push_back({timeline_, timeline_->last()});
    }
    HEDDLE_TRY(source.open());
    full_barrier(gpu_->api(), source.open_);
    const VkBufferCopy region{begin.offset, end.offset, size};
    gpu_->api().CmdCopyBuffer(source.open_, begin.buffer->memory().buffer(),
                              end.buffer->memory().buffer(), 1, &region);
    if (&source == this) return ok();
    HEDDLE_TRY(source.flush());
    waits_.push_back({source.timeline_, source.timeline_->last()});
    return ok();
}

Result<> VulkanStream::record(VulkanEvent& event) {
    HEDDLE_TRY(gpu_->check_alive());
    HEDDLE_TRY(flush());
    event = {timeline_, timeline_->last()};
    return ok();
}

Result<> VulkanStream::wait(const VulkanEvent& event) {
    if (event.timeline == nullptr || event.timeline == timeline_) return ok();
    HEDDLE_TRY(flush());  // what is open needs not wait
    waits_.push_back(event);
    if (std::ranges::find(waited_for_, event.timeline) == waited_for_.end()) {
        waited_for_.push_back(event.timeline);
    }
    return ok();
}

}  // namespace heddle::vulkan
