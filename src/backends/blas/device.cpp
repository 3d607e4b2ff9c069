#include "backends/blas/device.hpp"

#include <algorithm>
#include <thread>

#include "ops/catalogue.hpp"

/// Only OpenBLAS has it.
extern "C" [[gnu::weak]] char* openblas_get_config(void);

namespace heddle::blas {
namespace {

std::string describe_library() {
    if (&openblas_get_config == nullptr) return "BLAS library";
    const char* words = openblas_get_config();
    return words != nullptr ? words : "OpenBLAS";
}

/// What `node` may not have; the same for `supports_op` and for computing.
std::string_view objection_to(const Tensor& node) {
    const Product* product = find_product(node.op);
    if (product == nullptr) return "only products of matrices are computed here";
    if (node.src[0] == nullptr || node.src[1] == nullptr) return "an operand is missing";
    return product->objection(node);
}

bool is_readable(const Tensor& tensor) {
    return tensor.data != nullptr &&
           (tensor.buffer == nullptr || ggml_backend_buffer_is_host(tensor.buffer));
}

}  // namespace

BlasStream::BlasStream() { set_threads(static_cast<int>(std::thread::hardware_concurrency())); }

void BlasStream::set_threads(int count) { workspace_.threads = std::max(count, 1); }

Result<> BlasStream::compute_node(const ggml_tensor& node) {
    if (const std::string_view reason = objection_to(node); !reason.empty()) {
        return failure(Errc::unsupported, describe_op_of(node), ": ", reason);
    }
    for (const Tensor* each : {&node, static_cast<const Tensor*>(node.src[0]),
                               static_cast<const Tensor*>(node.src[1])}) {
        if (!is_readable(*each)) return invalid(describe(*each), " is not in host memory");
    }
    return find_product(node.op)->run(node, workspace_);
}

BlasDevice::BlasDevice(ggml_backend_reg_t registration)
    : Device(registration), description_(describe_library()) {}

std::string_view BlasDevice::objection(const ggml_tensor& node) { return objection_to(node); }

ggml_backend_buffer_t BlasDevice::adopt(void* memory, std::size_t size, std::size_t) {
    return ggml_backend_cpu_buffer_from_ptr(memory, size);
}

BlasStream* blas_stream(ggml_backend_t stream) {
    return plugin::stream_cast<BlasDevice, BlasStream>(stream);
}

}  // namespace heddle::blas
