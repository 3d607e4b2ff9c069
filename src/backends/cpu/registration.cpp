#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/device.hpp"
#include "backends/cpu/hbm_buffer.hpp"
#include "backends/cpu/isa.hpp"
#include "backends/cpu/repack/buffer_type.hpp"
#include "backends/named_functions.hpp"
#include "core/boundary.hpp"
#include "core/hooks.h"
#include "ggml-cpu.h"
#include "heddle/backend.hpp"
#include "heddle/backend/nodes.hpp"
#include "heddle/cpu.h"

namespace heddle::cpu {
namespace {

class CpuRegistration : public plugin::Registration<CpuRegistration> {
public:
    CpuRegistration() : device_(handle()) {}

    const char* name() { return "CPU"; }
    std::size_t device_count() { return 1; }
    ggml_backend_dev_t device(std::size_t) { return device_.handle(); }
    void* find(std::string_view name);

    CpuDevice& device() { return device_; }

private:
    CpuDevice device_;
};

CpuDevice& device_in(ggml_backend_dev_t device) {
    return *static_cast<CpuDevice*>(device->context);
}

// ---- features ----------------------------------------------------------------------------------

std::vector<ggml_backend_feature> list_features() {
    const Features& has = used_features();
    static const std::string sve_bytes = std::to_string(has.sve_bytes);
    std::vector<ggml_backend_feature> list;
    const auto add = [&](bool present, const char* name, const char* value = "1") {
        if (present) list.push_back({name, value});
    };
    add(has.sse3, "SSE3");
    add(has.ssse3, "SSSE3");
    add(has.avx, "AVX");
    add(has.avx2, "AVX2");
    add(has.f16c, "F16C");
    add(has.fma, "FMA");
    add(has.bmi2, "BMI2");
    add(has.avx512, "AVX512");
    add(has.avx512_vbmi, "AVX512_VBMI");
    add(has.avx512_vnni, "AVX512_VNNI");
    add(has.neon, "NEON");
    add(has.arm_fma, "ARM_FMA");
    add(has.matmul_int8, "MATMUL_INT8");
    add(has.sve, "SVE");
    add(has.dotprod, "DOTPROD");
    add(has.sve_bytes > 0, "SVE_CNT", sve_bytes.c_str());
    add(has.riscv_v, "RISCV_V");
    add(has.vsx, "VSX");
    add(has.wasm_simd, "WASM_SIMD");
    add(static_cast<bool>(memkind_allocator()), "CPU_HBM");
    add(has_repacked_products(), "REPACK");
    list.push_back({nullptr, nullptr});
    return list;
}

ggml_backend_feature* features(ggml_backend_reg_t) {
    static std::vector<ggml_backend_feature> list = list_features();
    return list.data();
}

// ---- functions found by name -------------------------------------------------------------------

ggml_backend_buffer_type_t* extra_buffer_types(ggml_backend_dev_t device) {
    return device_in(device).extra_buffer_types();
}

ggml_backend_buffer_type_t hbm_type() {
    return hbm_buffer_type(memkind_allocator(), ggml_backend_reg_dev_get(cpu_registration(), 0));
}

bool set_isa(const char* name) {
    const auto chosen = capi::guarded([&] { return use_isa(name == nullptr ? "best" : name); });
    if (!chosen) capi::report(chosen.error());
    return chosen.has_value();
}

const char* const* isa_list() { return isa_names().data(); }

bool set_fusion(ggml_backend_t backend, heddle_cpu_fusion fusion) {
    const auto set = capi::guarded([&]() -> Result<> {
        CpuStream* stream = cpu_stream(backend);
        if (stream == nullptr) return invalid("heddle_cpu_set_fusion: this is not a CPU stream");
        const auto number = static_cast<int>(fusion);
        if (number < HEDDLE_CPU_FUSION_OFF || number > HEDDLE_CPU_FUSION_ALWAYS) {
            return invalid("heddle_cpu_set_fusion: there is no fusion ", number);
        }
        stream->settings.fusion = static_cast<Fusion>(number);
        return ok();
    });
    if (!set) capi::report(set.error());
    return set.has_value();
}

bool fused_with(ggml_backend_t backend, const ggml_cgraph* graph, int* with) {
    const auto found = capi::guarded([&]() -> Result<> {
        CpuStream* stream = cpu_stream(backend);
        if (stream == nullptr) return invalid("heddle_fused_with: this is not a CPU stream");
        HEDDLE_TRY(capi::require(graph, "heddle_fused_with", "the graph"));
        return find_fused(*graph, stream->settings, with);
    });
    if (!found) capi::report(found.error());
    return found.has_value();
}

void* CpuRegistration::find(std::string_view name) {
    static const std::array functions{
        named("ggml_backend_set_n_threads", ggml_backend_cpu_set_n_threads),
        named("ggml_backend_dev_get_extra_bufts", extra_buffer_types),
        named("ggml_backend_get_features", features),
        named("ggml_backend_set_abort_callback", ggml_backend_cpu_set_abort_callback),
        named("ggml_backend_cpu_numa_init", ggml_numa_init),
        named("ggml_backend_cpu_is_numa", ggml_is_numa),
        named("ggml_backend_cpu_set_use_ref", ggml_backend_cpu_set_use_ref),
        named("ggml_threadpool_new", ggml_threadpool_new),
        named("ggml_threadpool_free", ggml_threadpool_free),
        named("ggml_backend_cpu_set_threadpool", ggml_backend_cpu_set_threadpool),
        named("ggml_backend_cpu_hbm_buffer_type", hbm_type),
        named("heddle_cpu_set_isa", set_isa),
        named("heddle_cpu_isa_names", isa_list),
        named("heddle_cpu_set_fusion", set_fusion),
        named("heddle_fused_with", fused_with),
        named(kKernelForName, kernel_for),
    };
    return find_function(functions, name);
}

/// Makes the host buffer types the CPU device's for as long as this library is there.
struct HostMemoryClaim {
    explicit HostMemoryClaim(ggml_backend_dev_t device) { heddle_set_host_device(device); }
    ~HostMemoryClaim() { heddle_set_host_device(nullptr); }
};

/// How good this library is on this machine: more features used, more points. See
/// `ggml_backend_score`.
[[maybe_unused]] int score() {
    const Features& has = used_features();
    return 1 + (has.fma ? 1 : 0) + (has.f16c ? 2 : 0) + (has.ssse3 ? 4 : 0) + (has.bmi2 ? 8 : 0) +
           (has.avx ? 16 : 0) + (has.avx2 ? 32 : 0) + (has.avx512 ? 128 : 0) +
           (has.avx512_vbmi ? 256 : 0) + (has.avx512_vnni ? 1024 : 0);
}

}  // namespace

ggml_backend_reg_t cpu_registration() {
    const ggml_backend_reg_t registration = plugin::registration<CpuRegistration>();
    if (registration == nullptr) return nullptr;
    static const HostMemoryClaim claim(registration->iface.get_device(registration, 0));
    return registration;
}

}  // namespace heddle::cpu

ggml_backend_reg_t ggml_backend_cpu_reg(void) {
    ggml_cpu_init();
    return heddle::cpu::cpu_registration();
}

GGML_BACKEND_DL_IMPL(ggml_backend_cpu_reg)
GGML_BACKEND_DL_SCORE_IMPL(heddle::cpu::score)
