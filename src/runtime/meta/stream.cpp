#include "runtime/meta/stream.hpp"

#include <algorithm>

#include "runtime/meta/access.hpp"
#include "runtime/meta/buffer.hpp"

namespace heddle::meta {
namespace {

/// Graphs that are computed alternately, such as the pieces of one that a scheduler has cut.
constexpr std::size_t kMaxPlans = 16;

struct Located {
    const Tensor* root;
    Parts parts;
};

Result<Located> locate(JoinedDevice& device, const Tensor& tensor) {
    const Tensor& root = tensor.view_src != nullptr ? *tensor.view_src : tensor;
    JoinedBuffer* const buffer = joined(root.buffer);
    if (buffer == nullptr || !buffer->device().is_over_same_devices(device)) {
        return invalid(heddle::describe(tensor), " has no memory of '", device.name(), '\'');
    }
    HEDDLE_TRY_ASSIGN(Parts parts, buffer->parts_behind(tensor));
    return Located{&root, std::move(parts)};
}

}  // namespace

Result<std::unique_ptr<JoinedStream>> JoinedStream::make(JoinedDevice& device, const char* params) {
    HEDDLE_TRY_ASSIGN(std::unique_ptr<StreamGroup> group, StreamGroup::make(device, params));
    return std::unique_ptr<JoinedStream>(new JoinedStream(device, std::move(group)));
}

JoinedStream::~JoinedStream() {
    // Plans go after the work that uses them.
    static_cast<void>(group_->finish_all());
}

/// Graphs with the same number are the same; number 0 says nothing.
Result<Plan*> JoinedStream::plan_for(const Graph& graph) {
    const auto known = std::ranges::find_if(
        plans_, [&](const auto& plan) { return graph.uid != 0 && plan->uid() == graph.uid; });
    if (known != plans_.end()) {
        plans_.splice(plans_.begin(), plans_, known);
        return plans_.front().get();
    }
    HEDDLE_TRY_ASSIGN(std::unique_ptr<Plan> plan, Plan::make(device_, graph));
    const auto is_used_up = [](const auto& old) { return old->uid() == 0; };
    if (plans_.size() >= kMaxPlans || std::ranges::any_of(plans_, is_used_up)) {
        HEDDLE_TRY(group_->finish_all());
        std::erase_if(plans_, is_used_up);
        if (plans_.size() >= kMaxPlans) plans_.pop_back();
    }
    plans_.push_front(std::move(plan));
    return plans_.front().get();
}

Result<> JoinedStream::compute(Graph& graph) {
    if (graph.n_nodes == 0) return ok();
    HEDDLE_TRY_ASSIGN(Plan* const plan, plan_for(graph));
    return plan->run(*group_);
}

Result<> JoinedStream::synchronize() { return group_->finish_all(); }

Result<> JoinedStream::write_async(Tensor& tensor, std::size_t offset,
                                   std::span<const std::byte> bytes) {
    HEDDLE_TRY_ASSIGN(Located place, locate(device_, tensor));
    return write_parts(*place.root, place.parts, tensor.view_offs + offset, bytes,
                       group_->streams());
}

Result<> JoinedStream::read_async(const Tensor& tensor, std::size_t offset,
                                  std::span<std::byte> bytes) {
    HEDDLE_TRY_ASSIGN(const Located place, locate(device_, tensor));
    return read_parts(*place.root, place.parts, tensor.view_offs + offset, bytes,
                      group_->streams());
}

JoinedStream* joined(Stream* stream) {
    return plugin::stream_cast<JoinedDevice, JoinedStream>(stream);
}

}  // namespace heddle::meta
