#include "runtime/meta/stream_group.hpp"

#include <algorithm>

namespace heddle::meta {
namespace {

template <class Function>
Function function_of(Registration& registration, const char* name) {
    return reinterpret_cast<Function>(find_function(registration, name));
}

/// The registration that all devices come from; null if there is no such one.
Registration* common_registration(const JoinedDevice& device) {
    Registration* const first = device.device(0).reg;
    for (std::size_t i = 1; i < device.size(); ++i) {
        if (device.device(i).reg != first) return nullptr;
    }
    return first;
}

}  // namespace

Result<std::unique_ptr<StreamGroup>> StreamGroup::make(JoinedDevice& device, const char* params) {
    std::unique_ptr<StreamGroup> group(new StreamGroup(device));
    for (std::size_t i = 0; i < device.size(); ++i) {
        HEDDLE_TRY_ASSIGN(OwnedStream stream, start_stream(device.device(i), params));
        group->owned_.push_back(std::move(stream));
        group->streams_.push_back(group->owned_.back().get());
        group->order_.push_back(i);
    }
    std::stable_partition(group->order_.begin(), group->order_.end(), [&](std::size_t i) {
        return group->streams_[i]->iface.synchronize != nullptr;
    });
    group->find_helpers();
    return group;
}

/// Only devices of one kind are asked: others do not know each other's objects.
void StreamGroup::find_helpers() {
    Registration* const registration = common_registration(device_);
    if (registration == nullptr || size() < 2) return;
    for (std::size_t i = 0; i < size(); ++i) {
        OwnedEvent event = make_event(device_.device(i));
        const Stream& stream = *streams_[i];
        if (event == nullptr || stream.iface.event_record == nullptr ||
            stream.iface.event_wait == nullptr) {
            events_.clear();
            break;
        }
        events_.push_back(std::move(event));
    }
    const auto start =
        function_of<::ggml_backend_comm_init_t>(*registration, "ggml_backend_comm_init");
    free_communicator_ =
        function_of<::ggml_backend_comm_free_t>(*registration, "ggml_backend_comm_free");
    add_up_ = function_of<::ggml_backend_comm_allreduce_tensor_t>(
        *registration, "ggml_backend_comm_allreduce_tensor");
    if (start != nullptr && add_up_ != nullptr) communicator_ = start(streams_.data(), size());
}

StreamGroup::~StreamGroup() {
    for (Stream* stream : streams_) synchronize(*stream);
    if (communicator_ != nullptr && free_communicator_ != nullptr) {
        free_communicator_(communicator_);
    }
}

Result<> StreamGroup::meet() {
    if (size() < 2) return ok();
    if (events_.empty()) return finish_all();
    for (std::size_t i = 0; i < size(); ++i) HEDDLE_TRY(record(*events_[i], *streams_[i]));
    for (std::size_t i = 0; i < size(); ++i) {
        for (std::size_t j = 0; j < size(); ++j) {
            if (i != j) HEDDLE_TRY(wait_for(*streams_[i], *events_[j]));
        }
    }
    return ok();
}

Result<> StreamGroup::finish_all() {
    Result<> first = ok();
    for (Stream* stream : streams_) {
        auto finished = finish(*stream);
        if (first && !finished) first = std::move(finished);
    }
    return first;
}

bool StreamGroup::add_up(std::span<Tensor* const> tensors) const {
    if (communicator_ == nullptr) return false;
    std::vector<Tensor*> copies(tensors.begin(), tensors.end());
    return add_up_(communicator_, copies.data());
}

}  // namespace heddle::meta
