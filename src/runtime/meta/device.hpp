#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/backend.hpp"
#include "runtime/device.hpp"
#include "runtime/meta/split.hpp"

namespace heddle::meta {

class JoinedBuffer;
class JoinedDevice;
class JoinedStream;

/// Memory on all devices of a joined one: "Meta(a,b)".
class JoinedMemory : public plugin::BufferType<JoinedMemory> {
public:
    /// One type for each device, in their order.
    JoinedMemory(JoinedDevice& owner, std::vector<heddle::BufferType*> types);

    const char* name();
    /// As many bytes on each device: whatever is placed there may turn out to be mirrored.
    Result<std::unique_ptr<JoinedBuffer>> allocate(std::size_t size);
    std::size_t alignment();
    std::size_t max_size();
    std::size_t alloc_size(const Tensor& tensor);

    heddle::BufferType& type(std::size_t device) { return *types_[device]; }
    JoinedDevice& owner() { return owner_; }

private:
    JoinedDevice& owner_;
    std::vector<heddle::BufferType*> types_;
};

/// What makes a joined device: equal recipes give the same one.
struct Recipe {
    std::vector<Device*> devices;
    SplitCallback callback = nullptr;
    void* user_data = nullptr;

    bool operator==(const Recipe&) const = default;
};

/// Devices joined into one. Each computes its part of every node.
class JoinedDevice : public plugin::Device<JoinedDevice> {
public:
    JoinedDevice(Recipe recipe, std::vector<BufferType*> types, bool is_talkative);

    const char* name() { return name_.c_str(); }
    const char* description() { return description_.c_str(); }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_META; }
    plugin::MemoryAmount memory();
    ::ggml_backend_buffer_type_t buffer_type() { return memory_.handle(); }
    ::ggml_backend_buffer_type_t host_buffer_type();
    Result<std::unique_ptr<JoinedStream>> start(const char* params);
    bool supports(const Tensor& node);
    bool accepts(::ggml_backend_buffer_type_t type);
    void describe(::ggml_backend_dev_props& properties);

    std::size_t size() const { return recipe_.devices.size(); }
    heddle::Device& device(std::size_t i) const { return *recipe_.devices[i]; }
    const Recipe& recipe() const { return recipe_; }
    /// Whether memory of one is memory of the other: splits are kept with the tensors.
    bool is_over_same_devices(const JoinedDevice& other) const {
        return recipe_.devices == other.recipe_.devices;
    }
    JoinedMemory& memory_type() { return memory_; }
    bool is_talkative() const { return is_talkative_; }  ///< logs how tensors lie

    /// What the program says about a tensor that nothing computes.
    Result<Split> ask(const Tensor& tensor) const;

private:
    bool may_be_cut_so(const Tensor& node);

    Recipe recipe_;
    std::string name_, description_;
    bool is_talkative_;
    JoinedMemory memory_;
};

/// The device of this recipe, made if there is none yet; it is never released. Any thread may call
/// it. `is_talkative` matters only to the first caller.
Result<Device*> join(Recipe recipe, bool is_talkative);

/// The joined device behind an object; null for any other.
JoinedDevice* joined(const Device* device);
JoinedDevice* joined(const BufferType* type);

}  // namespace heddle::meta
