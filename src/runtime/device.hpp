#pragma once

#include <cstddef>
#include <string_view>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "runtime/objects.hpp"
#include "runtime/owned.hpp"

namespace heddle {

using DeviceType = enum ::ggml_backend_dev_type;  // the C API also has a function of that name
using DeviceProperties = ::ggml_backend_dev_props;

const char* name_of(Device& device);         ///< never null
const char* description_of(Device& device);  ///< never null

struct DeviceMemory {
    std::size_t free = 0, total = 0;  ///< both 0: nothing to report
};
DeviceMemory memory_of(Device& device);

Result<DeviceType> type_of(Device& device);
Result<DeviceProperties> properties_of(Device& device);

/// A new stream. `params` may be null.
Result<OwnedStream> start_stream(Device& device, const char* params);

Result<BufferType*> buffer_type_of(Device& device);
BufferType* host_buffer_type_of(Device& device);  ///< null where the device has none

/// A buffer around host memory that stays the caller's.
Result<OwnedBuffer> buffer_from_host(Device& device, void* memory, std::size_t size,
                                     std::size_t max_tensor_size);

bool supports_op(Device& device, const Tensor& op);
bool supports_buffer_type(Device& device, BufferType& type);
bool wants_offload(Device& device, const Tensor& op);

// ---- registrations -----------------------------------------------------------------------------

const char* name_of(Registration& registration);  ///< never null
std::size_t device_count(Registration& registration);
Result<Device*> device_at(Registration& registration, std::size_t index);

/// A function of the backend's own; null if it has none of that name.
void* find_function(Registration& registration, const char* name);

}  // namespace heddle
