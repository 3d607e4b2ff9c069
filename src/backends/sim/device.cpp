#include "backends/sim/device.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "backends/gpu/offload.hpp"
#include "backends/sim/graph_work.hpp"
#include "heddle/backend/nodes.hpp"

namespace heddle::sim {
namespace {

std::string describe_device(const Parameters& parameters) {
    constexpr double giga = 1e9;
    return text("Simulated accelerator, ", parameters.flops / giga, " GFLOP/s, memory ",
                parameters.memory_bandwidth / giga, " GB/s, link ",
                parameters.link_bandwidth / giga, " GB/s");
}

/// An address on a bus that no machine has, so that no other device has it.
std::string bus_address(int index) {
    std::array<char, 24> address{};
    const auto number = static_cast<unsigned>(index);
    std::snprintf(address.data(), address.size(), "51d0:%02x:%02x.0", number & 0xFF,
                  number >> 8 & 0x1F);
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

bool SimDevice::supports(const ggml_tensor& node) {
    return choose_kernel(board_.parameters, node) != nullptr && !has_foreign_operand(node);
}

std::string SimDevice::objection(const ggml_tensor& node) {
    Objections why;
    if (choose_kernel(board_.parameters, node, &why) == nullptr) return why.text_for(node);
    return has_foreign_operand(node) ? "an operand is in memory of another simulated device" : "";
}

/// Memory of other kinds of device is not judged here: the scheduler copies it.
bool SimDevice::has_foreign_operand(const ggml_tensor& node) {
    return std::ranges::any_of(node.src, [&](const Tensor* source) {
        const ggml_backend_buffer* buffer = source != nullptr ? source->buffer : nullptr;
        return buffer != nullptr && buffer->buft != memory_.handle() &&
               buffer->buft->iface.alloc_buffer == memory_.handle()->iface.alloc_buffer;
    });
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
