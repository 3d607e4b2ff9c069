// ggml-blas.h, and the registration "BLAS".

#include "backends/blas/device.hpp"
#include "ggml-blas.h"
#include "heddle/backend/nodes.hpp"

namespace heddle::blas {
namespace {

class BlasRegistration : public plugin::Registration<BlasRegistration> {
public:
    BlasRegistration() : device_(handle()) {}

    const char* name() { return "BLAS"; }
    std::size_t device_count() { return 1; }
    ggml_backend_dev_t device(std::size_t) { return device_.handle(); }
    void* find(std::string_view name) {
        if (name != "ggml_backend_set_n_threads") return nullptr;
        return reinterpret_cast<void*>(ggml_backend_blas_set_n_threads);
    }

private:
    BlasDevice device_;
};

}  // namespace
}  // namespace heddle::blas

ggml_backend_reg_t ggml_backend_blas_reg(void) {
    return heddle::plugin::registration<heddle::blas::BlasRegistration>();
}

ggml_backend_t ggml_backend_blas_init(void) {
    const ggml_backend_reg_t registration = ggml_backend_blas_reg();
    if (registration == nullptr) return nullptr;
    const ggml_backend_dev_t device = registration->iface.get_device(registration, 0);
    return device->iface.init_backend(device, nullptr);
}

bool ggml_backend_is_blas(ggml_backend_t backend) {
    return heddle::blas::blas_stream(backend) != nullptr;
}

void ggml_backend_blas_set_n_threads(ggml_backend_t backend_blas, int n_threads) {
    heddle::blas::BlasStream* stream = heddle::blas::blas_stream(backend_blas);
    if (stream == nullptr) {
        return heddle::plugin::report(
            heddle::invalid("ggml_backend_blas_set_n_threads: this is not a BLAS stream"));
    }
    stream->set_threads(n_threads);
}
