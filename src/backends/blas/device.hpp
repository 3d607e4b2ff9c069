#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backends/blas/products.hpp"
#include "heddle/backend.hpp"

namespace heddle::blas {

/// Computes products on the CPU; every call has done its work when it returns.
class BlasStream {
public:
    static inline ggml_guid guid = {0x3d, 0x91, 0x0c, 0x5e, 0x77, 0xa4, 0x4b, 0x1f,
                                    0x9a, 0x63, 0xe8, 0x12, 0x4f, 0xd0, 0xb6, 0x2c};

    BlasStream();

    const char* name() const { return "BLAS"; }
    Result<> compute(ggml_cgraph& graph);
    void set_threads(int count);

private:
    Result<> compute_node(const Tensor& node);

    Workspace workspace_;
};

/// The CPU once more, as an accelerator for products. It has no memory of its own.
class BlasDevice : public plugin::Device<BlasDevice> {
public:
    explicit BlasDevice(ggml_backend_reg_t registration);

    const char* name() { return "BLAS"; }
    const char* description() { return description_.c_str(); }
    plugin::DeviceType type() { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
    ggml_backend_buffer_type_t buffer_type() { return ggml_backend_cpu_buffer_type(); }
    std::unique_ptr<BlasStream> start(const char*) { return std::make_unique<BlasStream>(); }
    std::string_view objection(const ggml_tensor& node);
    bool accepts(ggml_backend_buffer_type_t type) { return ggml_backend_buft_is_host(type); }
    ggml_backend_buffer_t adopt(void* memory, std::size_t size, std::size_t);

private:
    const std::string description_;
};

/// The BlasStream inside `stream`; null for streams of other kinds and for null.
BlasStream* blas_stream(ggml_backend_t stream);

}  // namespace heddle::blas
