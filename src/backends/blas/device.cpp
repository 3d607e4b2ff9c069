#include "backends/blas/device.hpp"

#include <algorithm>
#include <thread>

#include "backends/host_memory_check.hpp"
#include "core/graph.hpp"
#include "heddle/backend/nodes.hpp"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "ops/order_check.hpp"

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
    if (!check_node(node)) return kUnsoundNode;
    return product->objection(node);
}

}  // namespace

BlasStream::BlasStream() { set_threads(static_cast<int>(std::thread::hardware_concurrency())); }

void BlasStream::set_threads(int count) { workspace_.threads = std::max(count, 1); }

Result<> BlasStream::compute(ggml_cgraph& graph) {
    HEDDLE_TRY(check_order(nodes_of(graph)));
    for (const Tensor* node : nodes_of(graph)) {
        if (!plugin::wants_computing(*node)) continue;
        auto done = compute_node(*node);
        if (!done) return std::move(done).error().within(plugin::quoted(*node));
    }
    return ok();
}

Result<> BlasStream::compute_node(const Tensor& node) {
    if (const std::string_view reason = objection_to(node); !reason.empty()) {
        return failure(Errc::unsupported, describe_op_of(node), ": ", reason);
    }
    HostMemoryCheck host;
    for (const Tensor* each : {&node, static_cast<const Tensor*>(node.src[0]),
                               static_cast<const Tensor*>(node.src[1])}) {
        if (!host.is_readable(*each)) return invalid(host.problem(*each, describe(*each)));
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
