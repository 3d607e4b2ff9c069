#include "registry/backends.hpp"

#include <cstdlib>
#include <memory>
#include <new>

#include "core/log.hpp"

// Each backend library has one such function. Those that this build was not linked with are
// declared and never called.
extern "C" {
ggml_backend_reg_t ggml_backend_cuda_reg(void);
ggml_backend_reg_t ggml_backend_metal_reg(void);
ggml_backend_reg_t ggml_backend_sycl_reg(void);
ggml_backend_reg_t ggml_backend_vk_reg(void);
ggml_backend_reg_t ggml_backend_webgpu_reg(void);
ggml_backend_reg_t ggml_backend_zdnn_reg(void);
ggml_backend_reg_t ggml_backend_virtgpu_reg(void);
ggml_backend_reg_t ggml_backend_opencl_reg(void);
ggml_backend_reg_t ggml_backend_zendnn_reg(void);
ggml_backend_reg_t ggml_backend_hexagon_reg(void);
ggml_backend_reg_t ggml_backend_cann_reg(void);
ggml_backend_reg_t ggml_backend_blas_reg(void);
ggml_backend_reg_t ggml_backend_rpc_reg(void);
ggml_backend_reg_t ggml_backend_openvino_reg(void);
ggml_backend_reg_t ggml_backend_et_reg(void);
ggml_backend_reg_t ggml_backend_cpu_reg(void);
}

namespace heddle {
namespace {

/// A backend that is part of this build.
struct BuiltIn {
    ggml_backend_reg_t (*registration)(void);
    const char* switched_off_by = nullptr;  ///< environment variable; set to anything
    bool is_always_there = false;           ///< it fails for want of memory only
};

/// In the order in which they are registered: "the first device of a kind" and the placement of
/// weights go by it, so the processor comes last. The empty row lets a build without any compile.
constexpr BuiltIn kBuiltIn[] = {
#ifdef GGML_USE_CUDA
    {ggml_backend_cuda_reg},
#endif
#ifdef GGML_USE_METAL
    {ggml_backend_metal_reg},
#endif
#ifdef GGML_USE_SYCL
    {ggml_backend_sycl_reg},
#endif
#ifdef GGML_USE_VULKAN
    {ggml_backend_vk_reg, "GGML_DISABLE_VULKAN"},
#endif
#ifdef GGML_USE_WEBGPU
    {ggml_backend_webgpu_reg},
#endif
#ifdef GGML_USE_ZDNN
    {ggml_backend_zdnn_reg},
#endif
#ifdef GGML_USE_VIRTGPU
    {ggml_backend_virtgpu_reg},
#endif
#ifdef GGML_USE_OPENCL
    {ggml_backend_opencl_reg},
#endif
#ifdef GGML_USE_ZENDNN
    {ggml_backend_zendnn_reg},
#endif
#ifdef GGML_USE_HEXAGON
    {ggml_backend_hexagon_reg},
#endif
#ifdef GGML_USE_CANN
    {ggml_backend_cann_reg},
#endif
#ifdef GGML_USE_BLAS
    {ggml_backend_blas_reg},
#endif
#ifdef GGML_USE_RPC
    {ggml_backend_rpc_reg},
#endif
#ifdef GGML_USE_OPENVINO
    {ggml_backend_openvino_reg},
#endif
#ifdef GGML_USE_ET
    {ggml_backend_et_reg},
#endif
#ifdef GGML_USE_CPU
    {ggml_backend_cpu_reg, nullptr, true},
#endif
    {nullptr},
};

}  // namespace

void register_built_in(Backends& backends) {
    for (const BuiltIn& built_in : kBuiltIn) {
        if (built_in.registration == nullptr) continue;
        if (built_in.switched_off_by && std::getenv(built_in.switched_off_by)) continue;
        const ggml_backend_reg_t registration = built_in.registration();
        if (registration == nullptr && built_in.is_always_there) throw std::bad_alloc();
        if (registration == nullptr) continue;  // it has said why
        backends.registry.add(registration);
        backends.report.note({{},
                              std::string(name_of(registration)),
                              HEDDLE_PLUGIN_BUILT_IN,
                              {},
                              -1,
                              registration->api_version});
    }
}

Backends& backends() {
    static Backends* const all = [] {
        auto made = std::make_unique<Backends>();
        register_built_in(*made);
        return made.release();
    }();
    return *all;
}

std::vector<PluginRecord> plugin_report() { return backends().report.records(); }

}  // namespace heddle
