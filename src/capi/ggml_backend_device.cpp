// Devices, and the registrations that offer them.

#include <algorithm>
#include <cstring>

#include "capi/ggml_backend_boundary.hpp"
#include "core/printable.hpp"
#include "heddle/backend/objection.h"
#include "ops/check.hpp"
#include "runtime/device.hpp"

using namespace heddle;
using capi::require;

// ---- devices -----------------------------------------------------------------------------------

const char* ggml_backend_dev_name(ggml_backend_dev_t device) {
    return capi::made_or_null([&]() -> Result<const char*> {
        HEDDLE_TRY(require(device, "device name", "the device"));
        return name_of(*device);
    });
}

const char* ggml_backend_dev_description(ggml_backend_dev_t device) {
    return capi::made_or_null([&]() -> Result<const char*> {
        HEDDLE_TRY(require(device, "device description", "the device"));
        return description_of(*device);
    });
}

void ggml_backend_dev_memory(ggml_backend_dev_t device, size_t* free, size_t* total) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(device, "device memory", "the device"));
        const DeviceMemory memory = memory_of(*device);
        if (free != nullptr) *free = memory.free;
        if (total != nullptr) *total = memory.total;
        return ok();
    });
}

enum ggml_backend_dev_type ggml_backend_dev_type(ggml_backend_dev_t device) {
    return capi::made([&]() -> Result<DeviceType> {
        HEDDLE_TRY(require(device, "kind of device", "the device"));
        return type_of(*device);
    });
}

void ggml_backend_dev_get_props(ggml_backend_dev_t device, ggml_backend_dev_props* props) {
    if (props != nullptr) *props = {};
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(device, "device properties", "the device"));
        HEDDLE_TRY(require(props, "device properties", "the struct to fill"));
        HEDDLE_TRY_ASSIGN(*props, properties_of(*device));
        return ok();
    });
}

ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device) {
    return capi::made_or_null([&]() -> Result<Registration*> {
        HEDDLE_TRY(require(device, "registration of a device", "the device"));
        return device->reg;
    });
}

ggml_backend_t ggml_backend_dev_init(ggml_backend_dev_t device, const char* params) {
    return capi::made_or_null([&]() -> Result<OwnedStream> {
        HEDDLE_TRY(require(device, "new stream", "the device"));
        return start_stream(*device, params);
    });
}

ggml_backend_buffer_type_t ggml_backend_dev_buffer_type(ggml_backend_dev_t device) {
    return capi::made_or_null([&]() -> Result<BufferType*> {
        HEDDLE_TRY(require(device, "buffer type of a device", "the device"));
        return buffer_type_of(*device);
    });
}

ggml_backend_buffer_type_t ggml_backend_dev_host_buffer_type(ggml_backend_dev_t device) {
    return capi::made_or_null([&]() -> Result<BufferType*> {
        HEDDLE_TRY(require(device, "host buffer type of a device", "the device"));
        return host_buffer_type_of(*device);
    });
}

ggml_backend_buffer_t ggml_backend_dev_buffer_from_host_ptr(ggml_backend_dev_t device, void* ptr,
                                                            size_t size, size_t max_tensor_size) {
    return capi::made_or_null([&]() -> Result<OwnedBuffer> {
        HEDDLE_TRY(require(device, "buffer from host memory", "the device"));
        return buffer_from_host(*device, ptr, size, max_tensor_size);
    });
}

bool ggml_backend_dev_supports_op(ggml_backend_dev_t device, const ggml_tensor* op) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(device, "supported ops", "the device"));
        HEDDLE_TRY(require(op, "supported ops", "the op"));
        return supports_op(*device, *op);
    });
}

bool ggml_backend_dev_supports_buft(ggml_backend_dev_t device, ggml_backend_buffer_type_t buft) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(device, "supported buffer types", "the device"));
        HEDDLE_TRY(require(buft, "supported buffer types", "the buffer type"));
        return supports_buffer_type(*device, *buft);
    });
}

bool ggml_backend_dev_offload_op(ggml_backend_dev_t device, const ggml_tensor* op) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(device, "offloading", "the device"));
        HEDDLE_TRY(require(op, "offloading", "the op"));
        return wants_offload(*device, *op);
    });
}

// ---- registrations -----------------------------------------------------------------------------

const char* ggml_backend_reg_name(ggml_backend_reg_t reg) {
    return capi::made_or_null([&]() -> Result<const char*> {
        HEDDLE_TRY(require(reg, "registration name", "the registration"));
        return name_of(*reg);
    });
}

size_t ggml_backend_reg_dev_count(ggml_backend_reg_t reg) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY(require(reg, "devices of a registration", "the registration"));
        return device_count(*reg);
    });
}

ggml_backend_dev_t ggml_backend_reg_dev_get(ggml_backend_reg_t reg, size_t index) {
    return capi::made_or_null([&]() -> Result<Device*> {
        HEDDLE_TRY(require(reg, "device of a registration", "the registration"));
        return device_at(*reg, index);
    });
}

void* ggml_backend_reg_get_proc_address(ggml_backend_reg_t reg, const char* name) {
    return capi::made_or_null([&]() -> Result<void*> {
        HEDDLE_TRY(require(reg, "function of a registration", "the registration"));
        return find_function(*reg, name);
    });
}

// ---- nodes, as backends outside the library check them -----------------------------------------

namespace {

/// The last answer that a thread was given. A plain array: nothing has to be released with it.
thread_local constinit char fault[1024]{};

const char* keep_fault(std::string_view sentence) noexcept {
    if (sentence.empty()) sentence = "out of memory";  // not even the sentence could be made
    const std::size_t length =
        whole_characters(sentence.substr(0, std::min(sentence.size(), sizeof fault - 1)));
    std::memcpy(fault, sentence.data(), length);
    make_printable({fault, length});
    fault[length] = '\0';
    return fault;
}

}  // namespace

const char* heddle_node_fault(const ggml_tensor* node) {
    const auto sound = capi::guarded([&]() -> Result<> {
        HEDDLE_TRY(require(node, "node fault", "the node"));
        return check_node(*node);
    });
    return sound ? "" : keep_fault(sound.error().message);
}
