#include "backends/sim/device.hpp"

#include <array>
#include <cstdio>

#include "backends/gpu/offload.hpp"
#include "backends/sim/graph_work.hpp"

namespace heddle::sim {
namespace {

std::string describe_device(const Parameters& parameters) {
    constexpr double giga = 1e9;
    return text("Simulated accelerator, ", parameters.flops / giga, " GFLOP/s, memory ",
                parameters.memory_bandwidth / giga, " GB/s, link ",
                parameters.link_bandwidth / giga, " GB/s");
}

/// An address on a bus that no machine has, so that it is nobody else's.
std::string bus_address(int index) {
    std::array<char, 24> address{};
    std::snprintf(address.data(), address.size(), "51d0:%02x:00.0",
                  static_cast<unsigned>(index) & 0xFF);
    return address.data();
}

}  // namespace

SimDevice::SimDevice(ggml_backend_reg_t registration, std::shared_ptr<HostClock> clock,
                     const Parameters& parameters, int index)
    : Device(registration),
      board_(std::move(clock), parameters, index),
      description_(describe_device(parameters)),
      id_(bus_address(index)),
      memory_(handle(), board_),
      pinned_(handle(), board_) {}

ggml_backend_buffer_type_t SimDevice::host_buffer_type() {
    return board_.parameters.pinned ? pinned_.handle() : nullptr;
}

Result<std::unique_ptr<SimStream>> SimDevice::start(const char*) {
    HEDDLE_TRY(board_.timeline.present());
    return std::make_unique<SimStream>(board_);
}

std::string_view SimDevice::objection(const ggml_tensor& node) {
    std::string_view reason;
    if (choose_kernel(board_.parameters, node, &reason) == nullptr) return reason;
    for (const Tensor* source : node.src) {
        const ggml_backend_buffer* buffer = source != nullptr ? source->buffer : nullptr;
        if (buffer == nullptr || buffer->buft == memory_.handle()) continue;
        // Memory of foreign devices is not judged here: whoever asks copies it.
        if (buffer->buft->iface.alloc_buffer == memory_.handle()->iface.alloc_buffer) {
            return "an operand is in memory of another simulated device";
        }
    }
    return {};
}

bool SimDevice::accepts(ggml_backend_buffer_type_t type) {
    return type == memory_.handle() || (board_.parameters.pinned && type == pinned_.handle());
}

bool SimDevice::wants(const ggml_tensor& node) {
    return gpu::batch_of(node) >= board_.parameters.offload_rows;
}

void SimDevice::wait(const SimEvent& event) {
    event.ticket.wait();
    board_.timeline.wait_on_host(event.time);
}

void SimDevice::describe(ggml_backend_dev_props& props) {
    props.caps.host_buffer = board_.parameters.pinned;
}

SimStream* sim_stream(ggml_backend_t stream) {
    return plugin::stream_cast<SimDevice, SimStream>(stream);
}

}  // namespace heddle::sim
