#pragma once

#include <memory>
#include <string>

#include "backends/cpu/stream.hpp"
#include "heddle/backend.hpp"

namespace heddle::cpu {

/// The CPU and its memory.
class CpuDevice : public plugin::Device<CpuDevice> {
public:
    explicit CpuDevice(ggml_backend_reg_t registration);

    const char* name() { return "CPU"; }
    const char* description() { return model_.c_str(); }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_CPU; }
    plugin::MemoryAmount memory();
    ggml_backend_buffer_type_t buffer_type();
    std::unique_ptr<CpuStream> start(const char*) { return std::make_unique<CpuStream>(); }

    /// Look at operands wherever they are: what asks copies them here first.
    bool supports(const ggml_tensor& node);
    std::string objection(const ggml_tensor& node);

    bool accepts(ggml_backend_buffer_type_t type);
    ggml_backend_buffer_t adopt(void* memory, std::size_t size, std::size_t);

    /// Buffer types for weights, best first, with a null pointer behind the last.
    ggml_backend_buffer_type_t* extra_buffer_types();

private:
    const std::string model_;
};

/// The CpuStream inside `stream`; null for streams of other kinds and for null.
CpuStream* cpu_stream(ggml_backend_t stream);

/// The registration "CPU", made by the first call.
ggml_backend_reg_t cpu_registration();

}  // namespace heddle::cpu
