#include "runtime/device.hpp"

namespace heddle {
namespace {

const char* or_unnamed(const char* name) { return name != nullptr ? name : "(unnamed)"; }

Error lacks(Device& device, std::string_view what) {
    return failure(Errc::unsupported, "device '", name_of(device), "' ", what);
}

}  // namespace

const char* name_of(Device& device) {
    return or_unnamed(device.iface.get_name != nullptr ? device.iface.get_name(&device) : nullptr);
}

const char* description_of(Device& device) {
    return or_unnamed(
        device.iface.get_description != nullptr ? device.iface.get_description(&device) : nullptr);
}

DeviceMemory memory_of(Device& device) {
    DeviceMemory memory;
    if (device.iface.get_memory != nullptr) {
        device.iface.get_memory(&device, &memory.free, &memory.total);
    }
    return memory;
}

Result<DeviceType> type_of(Device& device) {
    if (device.iface.get_type == nullptr) return lacks(device, "does not say what kind it is");
    return device.iface.get_type(&device);
}

Result<DeviceProperties> properties_of(Device& device) {
    if (device.iface.get_props == nullptr) return lacks(device, "tells no properties");
    DeviceProperties properties{};
    device.iface.get_props(&device, &properties);
    return properties;
}

Result<OwnedStream> start_stream(Device& device, const char* params) {
    if (device.iface.init_backend == nullptr) return lacks(device, "has no streams");
    if (OwnedStream stream{device.iface.init_backend(&device, params)}) return stream;
    return failure(Errc::device, "device '", name_of(device), "' could not start a stream",
                   params != nullptr ? text(" with parameters '", params, '\'') : std::string());
}

Result<BufferType*> buffer_type_of(Device& device) {
    if (device.iface.get_buffer_type != nullptr) {
        if (BufferType* type = device.iface.get_buffer_type(&device)) return type;
    }
    return lacks(device, "has no buffer type");
}

BufferType* host_buffer_type_of(Device& device) {
    if (device.iface.get_host_buffer_type == nullptr) return nullptr;
    return device.iface.get_host_buffer_type(&device);
}

Result<OwnedBuffer> buffer_from_host(Device& device, void* memory, std::size_t size,
                                     std::size_t max_tensor_size) {
    if (device.iface.buffer_from_host_ptr == nullptr) {
        return lacks(device, "cannot use host memory as a buffer");
    }
    if (memory == nullptr) {
        return invalid("device '", name_of(device), "': the host memory for a buffer is NULL");
    }
    OwnedBuffer made(device.iface.buffer_from_host_ptr(&device, memory, size, max_tensor_size));
    if (made != nullptr) return made;
    return failure(Errc::device, "device '", name_of(device), "' could not make a buffer of ", size,
                   " bytes of host memory at ", memory);
}

bool supports_op(Device& device, const Tensor& op) {
    return device.iface.supports_op != nullptr && device.iface.supports_op(&device, &op);
}

bool supports_buffer_type(Device& device, BufferType& type) {
    return device.iface.supports_buft != nullptr && device.iface.supports_buft(&device, &type);
}

bool wants_offload(Device& device, const Tensor& op) {
    return device.iface.offload_op != nullptr && device.iface.offload_op(&device, &op);
}

const char* name_of(Registration& registration) {
    const auto get_name = registration.iface.get_name;
    return or_unnamed(get_name != nullptr ? get_name(&registration) : nullptr);
}

std::size_t device_count(Registration& registration) {
    const auto count = registration.iface.get_device_count;
    return count != nullptr ? count(&registration) : 0;
}

Result<Device*> device_at(Registration& registration, std::size_t index) {
    const std::size_t count = device_count(registration);
    if (index >= count) {
        return invalid("registration '", name_of(registration), "': device ", index, " of ", count);
    }
    if (registration.iface.get_device != nullptr) {
        if (Device* device = registration.iface.get_device(&registration, index)) return device;
    }
    return failure(Errc::device, "registration '", name_of(registration), "' does not give device ",
                   index);
}

void* find_function(Registration& registration, const char* name) {
    const auto find = registration.iface.get_proc_address;
    return find != nullptr && name != nullptr ? find(&registration, name) : nullptr;
}

}  // namespace heddle
