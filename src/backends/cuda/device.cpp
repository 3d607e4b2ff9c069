#include "backends/cuda/device.hpp"

#include <algorithm>

#include "backends/gpu/offload.hpp"
#include "ggml-cuda.h"
#include "heddle/backend/nodes.hpp"

namespace heddle::cuda {

CudaDevice::CudaDevice(ggml_backend_reg_t registration, Board board)
    : Device(registration), board_(std::move(board)), memory_(handle(), board_) {}

plugin::DeviceType CudaDevice::type() {
    return board_.is_integrated ? GGML_BACKEND_DEVICE_TYPE_IGPU : GGML_BACKEND_DEVICE_TYPE_GPU;
}

plugin::MemoryAmount CudaDevice::memory() {
    const auto report = report_memory(board_);
    if (!report) {
        plugin::log(GGML_LOG_LEVEL_WARN, report.error().message);
        return {};
    }
    plugin::MemoryAmount amount{report->free, report->total};
    // Such devices take what the host can give them, which their driver does not count as free.
    if (board_.is_integrated || board_.options.is_managed) {
        if (const std::size_t host = available_host_memory(); host > 0) {
            amount.free = host / static_cast<std::size_t>(board_.sharing);
        }
    }
    return amount;
}

ggml_backend_buffer_type_t CudaDevice::host_buffer_type() {
    return ggml_backend_cuda_host_buffer_type();
}

bool CudaDevice::supports(const ggml_tensor& node) {
    return choose_kernel(node) != nullptr && !has_foreign_operand(node);
}

std::string CudaDevice::objection(const ggml_tensor& node) {
    Objections why;
    if (choose_kernel(node, &why) == nullptr) return why.text_for(node);
    return has_foreign_operand(node) ? "an operand is in memory of another CUDA device" : "";
}

/// Memory of other kinds of device is not judged here: the scheduler copies it.
bool CudaDevice::has_foreign_operand(const ggml_tensor& node) {
    return std::ranges::any_of(node.src, [&](const Tensor* source) {
        const ggml_backend_buffer* buffer = source != nullptr ? source->buffer : nullptr;
        return buffer != nullptr && buffer->buft != memory_.handle() &&
               buffer->buft->iface.alloc_buffer == memory_.handle()->iface.alloc_buffer;
    });
}

bool CudaDevice::wants(const ggml_tensor& node) {
    return gpu::batch_of(node) >= board_.options.offload_batch;
}

void CudaDevice::describe(ggml_backend_dev_props& props) {
    props.caps.host_buffer = board_.options.is_pinned;
    props.caps.mmap_support = !board_.is_integrated;
}

CudaStream* cuda_stream(ggml_backend_t stream) {
    return plugin::stream_cast<CudaDevice, CudaStream>(stream);
}

}  // namespace heddle::cuda
