#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/sim/memory.hpp"
#include "backends/sim/stream.hpp"

namespace heddle::sim {

/// A simulated accelerator.
class SimDevice : public plugin::Device<SimDevice> {
public:
    SimDevice(ggml_backend_reg_t registration, std::shared_ptr<HostClock> clock,
              const Parameters& parameters, int index);

    const char* name() { return board_.name.c_str(); }
    const char* description() { return description_.c_str(); }
    const char* id() { return id_.c_str(); }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_GPU; }
    plugin::MemoryAmount memory() { return board_.memory(); }
    ggml_backend_buffer_type_t buffer_type() { return memory_.handle(); }
    ggml_backend_buffer_type_t host_buffer_type();
    Result<std::unique_ptr<SimStream>> start(const char*);
    bool supports(const ggml_tensor& node);
    std::string objection(const ggml_tensor& node);
    bool accepts(ggml_backend_buffer_type_t type);
    bool wants(const ggml_tensor& node);
    std::unique_ptr<SimEvent> make_event() { return std::make_unique<SimEvent>(); }
    void wait(const SimEvent& event);
    void describe(ggml_backend_dev_props& props);

    Timeline& timeline() { return board_.timeline; }

private:
    bool has_foreign_operand(const ggml_tensor& node);

    Board board_;
    const std::string description_;
    const std::string id_;
    SimMemory memory_;
    PinnedMemory pinned_;
};

/// The SimStream inside `stream`; null for streams of other kinds and for null.
SimStream* sim_stream(ggml_backend_t stream);

/// The SimDevice inside `device`; null for devices of other kinds and for null.
SimDevice* sim_device(ggml_backend_dev_t device);

}  // namespace heddle::sim
