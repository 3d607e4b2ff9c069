#include "backends/cpu/device.hpp"

#include "backends/cpu/large_pages.hpp"
#include "backends/cpu/repack/buffer_type.hpp"
#include "backends/cpu/topology.hpp"
#include "heddle/backend/nodes.hpp"

namespace heddle::cpu {

CpuDevice::CpuDevice(ggml_backend_reg_t registration) : Device(registration), model_(cpu_model()) {}

plugin::MemoryAmount CpuDevice::memory() {
    return {.free = available_memory(), .total = physical_memory()};
}

ggml_backend_buffer_type_t CpuDevice::buffer_type() { return ggml_backend_cpu_buffer_type(); }

bool CpuDevice::supports(const ggml_tensor& node) { return kernel_for(node, nullptr) != nullptr; }

std::string CpuDevice::objection(const ggml_tensor& node) {
    Objections why;
    return kernel_for(node, &why) != nullptr ? std::string() : why.text_for(node);
}

bool CpuDevice::accepts(ggml_backend_buffer_type_t type) {
    return ggml_backend_buft_is_host(type) || is_repack_buffer_type(type);
}

ggml_backend_buffer_t CpuDevice::adopt(void* memory, std::size_t size, std::size_t) {
    return ggml_backend_cpu_buffer_from_ptr(memory, size);
}

ggml_backend_buffer_type_t* CpuDevice::extra_buffer_types() {
    // Clients take the first in which the device can read a weight. All can lie in large pages.
    static ggml_backend_buffer_type_t types[] = {repack_buffer_type(handle()),
                                                 large_page_buffer_type(handle()), nullptr};
    return has_repacked_products() ? types : types + 1;
}

CpuStream* cpu_stream(ggml_backend_t stream) {
    return plugin::stream_cast<CpuDevice, CpuStream>(stream);
}

}  // namespace heddle::cpu
