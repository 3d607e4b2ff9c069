#include "registry/backends.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "core/log.hpp"
#include "registry/search.hpp"
#include "registry/trial.hpp"

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

/// A plug-in that was built with this library lies where those are put, under its name.
bool is_ours(const std::filesystem::path& path) {
    const auto names = OnDemand::names();
    if (std::find(names.begin(), names.end(), plugin_name_in(path)) == names.end()) return false;
    auto directories = plugin_directories();
    directories.push_back(own_directory());
    return std::any_of(directories.begin(), directories.end(), [&](const auto& directory) {
        std::error_code ignored;
        return std::filesystem::equivalent(path.parent_path(), directory, ignored);
    });
}

/// Loads what HEDDLE_BACKENDS asks for, once. Others wait until that is done; a plug-in that looks
/// into the registry while it starts sees what is there so far.
void load_requested(Backends& backends) {
    enum class State { not_yet, under_way, done };
    static std::atomic<State> state{State::not_yet};
    if (state == State::done) return;
    static std::recursive_mutex mutex;
    const std::lock_guard lock(mutex);
    if (state != State::not_yet) return;
    const char* list = std::getenv("HEDDLE_BACKENDS");
    const auto requests = OnDemand::split(list != nullptr ? list : "");
    state = State::under_way;
    for (const std::string& request : requests) {
        const auto answer = backends.on_demand.fulfil(request, on_demand_directories());
        if (answer) continue;
        log_line(GGML_LOG_LEVEL_WARN, "HEDDLE_BACKENDS: ", answer.error().message);
    }
    state = State::done;
}

}  // namespace

Loader::Trials chosen_trials() {
    Loader::Trials trials{kTrialLimit, is_ours};
    const char* text = std::getenv("HEDDLE_PLUGIN_TRIAL");
    if (text == nullptr || *text == '\0') return trials;
    int seconds = 0;
    const char* const end = text + std::strlen(text);
    const auto [rest, problem] = std::from_chars(text, end, seconds);
    if (problem != std::errc() || rest != end || seconds < 0) {
        log_line(GGML_LOG_LEVEL_WARN, "HEDDLE_PLUGIN_TRIAL=", text,
                 " is no number of seconds; plug-ins have ", kTrialLimit.count());
        return trials;
    }
    trials.limit = std::chrono::seconds(seconds);
    return trials;
}

Loader::Trust chosen_trust() {
    const char* const asked = secure_getenv("HEDDLE_UNSAFE_PLUGINS");
    return asked != nullptr && std::string_view(asked) == "1" ? Loader::Trust::blind
                                                              : Loader::Trust::checked;
}

std::vector<std::filesystem::path> on_demand_directories() {
    auto directories = default_search_directories();
    directories.push_back(own_directory());
    return directories;
}

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
    load_requested(*all);
    return *all;
}

std::vector<PluginRecord> plugin_report() { return backends().report.records(); }

}  // namespace heddle
