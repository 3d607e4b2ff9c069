#include "runtime/meta/device.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>

#include "heddle/backend/nodes.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/meta/buffer.hpp"
#include "runtime/meta/states.hpp"
#include "runtime/meta/stream.hpp"

namespace heddle::meta {
namespace {

std::string joined_names(const std::vector<Device*>& devices, std::string_view separator) {
    std::string names;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        if (i > 0) names += separator;
        names += heddle::name_of(*devices[i]);
    }
    return names;
}

/// Never destroyed: programs use their devices until the process ends.
struct Devices {
    std::mutex mutex;
    std::vector<std::unique_ptr<JoinedDevice>> all;
};
Devices& devices() {
    static Devices& made = *new Devices;
    return made;
}

/// Fails unless the devices can be joined; gives a buffer type of each.
Result<std::vector<BufferType*>> check(const Recipe& recipe) {
    if (recipe.devices.empty() || recipe.devices.size() > kMaxDevices) {
        return invalid("joined device: ", recipe.devices.size(), " devices, where 1 to ",
                       kMaxDevices, " can be joined");
    }
    if (recipe.callback == nullptr) {
        return invalid("joined device: the function that says how tensors are split is NULL");
    }
    std::vector<BufferType*> types;
    for (std::size_t i = 0; i < recipe.devices.size(); ++i) {
        Device* const device = recipe.devices[i];
        if (device == nullptr) return invalid("joined device: device ", i, " is NULL");
        if (joined(device) != nullptr) {
            return invalid("joined device: device ", i, ", '", heddle::name_of(*device),
                           "', is a joined one itself");
        }
        HEDDLE_TRY_ASSIGN(BufferType* const type, buffer_type_of(*device));
        if (!std::has_single_bit(alignment_of(*type))) {
            return invalid("joined device: the alignment of ", alignment_of(*type),
                           " bytes of buffer type '", heddle::name_of(*type),
                           "' is not a power of two");
        }
        types.push_back(type);
    }
    return types;
}

}  // namespace

// ---- memory ------------------------------------------------------------------------------------

JoinedMemory::JoinedMemory(JoinedDevice& owner, std::vector<heddle::BufferType*> types)
    : plugin::BufferType<JoinedMemory>(owner.handle()), owner_(owner), types_(std::move(types)) {}

const char* JoinedMemory::name() { return owner_.name(); }

Result<std::unique_ptr<JoinedBuffer>> JoinedMemory::allocate(std::size_t size) {
    std::vector<OwnedBuffer> parts;
    for (heddle::BufferType* type : types_) {
        HEDDLE_TRY_ASSIGN(OwnedBuffer part, heddle::allocate(*type, size));
        parts.push_back(std::move(part));
    }
    return std::make_unique<JoinedBuffer>(owner_, std::move(parts), size, Placing::same_offsets);
}

std::size_t JoinedMemory::alignment() {
    std::size_t largest = 1;
    for (heddle::BufferType* type : types_) largest = std::max(largest, alignment_of(*type));
    return largest;
}

std::size_t JoinedMemory::max_size() {
    std::size_t smallest = SIZE_MAX;
    for (heddle::BufferType* type : types_) smallest = std::min(smallest, max_size_of(*type));
    return smallest;
}

std::size_t JoinedMemory::alloc_size(const Tensor& tensor) {
    std::size_t largest = byte_size(tensor);
    for (heddle::BufferType* type : types_)
        largest = std::max(largest, alloc_size_of(*type, tensor));
    return largest;
}

// ---- device ------------------------------------------------------------------------------------

JoinedDevice::JoinedDevice(Recipe recipe, std::vector<BufferType*> types, bool is_talkative)
    : plugin::Device<JoinedDevice>(nullptr),
      recipe_(std::move(recipe)),
      name_("Meta(" + joined_names(recipe_.devices, ",") + ')'),
      description_("Joined devices: " + joined_names(recipe_.devices, ", ")),
      is_talkative_(is_talkative),
      memory_(*this, std::move(types)) {}

plugin::MemoryAmount JoinedDevice::memory() {
    plugin::MemoryAmount total;
    for (heddle::Device* device : recipe_.devices) {
        const DeviceMemory memory = memory_of(*device);
        total.free += memory.free;
        total.total += memory.total;
    }
    return total;
}

::ggml_backend_buffer_type_t JoinedDevice::host_buffer_type() {
    BufferType* const first = host_buffer_type_of(device(0));
    for (heddle::Device* each : recipe_.devices) {
        if (host_buffer_type_of(*each) != first) return nullptr;
    }
    return first;
}

Result<std::unique_ptr<JoinedStream>> JoinedDevice::start(const char* params) {
    return JoinedStream::make(*this, params);
}

bool JoinedDevice::accepts(::ggml_backend_buffer_type_t type) {
    const JoinedDevice* const owner = joined(type);
    return owner != nullptr && is_over_same_devices(*owner);
}

void JoinedDevice::describe(::ggml_backend_dev_props& properties) {
    properties.caps.mmap_support = true;
    for (heddle::Device* each : recipe_.devices) {
        const auto own = properties_of(*each);
        properties.caps.async &= own && own->caps.async;
        properties.caps.mmap_support &= own && own->caps.mmap_support;
    }
    properties.caps.host_buffer = false;
    properties.caps.buffer_from_host_ptr = false;
    properties.caps.events = false;
}

Result<Split> JoinedDevice::ask(const Tensor& tensor) const {
    return checked(recipe_.callback(&tensor, recipe_.user_data), tensor, size());
}

bool JoinedDevice::supports(const Tensor& node) {
    return std::ranges::all_of(recipe_.devices,
                               [&](heddle::Device* each) { return supports_op(*each, node); }) &&
           may_be_cut_so(node);
}

/// Whether the rules allow the node, as far as its sources say already how they lie. What has no
/// memory yet may lie in any way.
bool JoinedDevice::may_be_cut_so(const Tensor& node) {
    States states(*this);
    NodeSources sources;
    bool knows_all = true, is_any_cut = false;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const Tensor* const source = node.src[i];
        if (source == nullptr) continue;
        if (source->buffer == nullptr || source->op != kNoOp) {
            knows_all = false;
            continue;
        }
        auto split = states.of(*source);
        if (!split) return false;
        is_any_cut |= split->is_cut();
        sources[i] = {source, *std::move(split), false};
    }
    if (knows_all) return derive(node, sources, size()).has_value();
    return !(is_any_cut && takes_mirrored_only(node.op));
}

// ---- all there are -----------------------------------------------------------------------------

Result<Device*> join(Recipe recipe, bool is_talkative) {
    HEDDLE_TRY_ASSIGN(std::vector<BufferType*> types, check(recipe));
    Devices& known = devices();
    const std::lock_guard lock(known.mutex);
    for (const auto& each : known.all) {
        if (each->recipe() == recipe) return static_cast<Device*>(each->handle());
    }
    known.all.push_back(
        std::make_unique<JoinedDevice>(std::move(recipe), std::move(types), is_talkative));
    return static_cast<Device*>(known.all.back()->handle());
}

JoinedDevice* joined(const Device* device) {
    if (device == nullptr || device->reg != nullptr) return nullptr;
    Devices& known = devices();
    const std::lock_guard lock(known.mutex);
    for (const auto& each : known.all) {
        if (each->handle() == device) return each.get();
    }
    return nullptr;
}

JoinedDevice* joined(const BufferType* type) {
    if (type == nullptr) return nullptr;
    JoinedDevice* const owner = joined(device_of(const_cast<BufferType&>(*type)));
    return owner != nullptr && owner->buffer_type() == type ? owner : nullptr;
}

}  // namespace heddle::meta
