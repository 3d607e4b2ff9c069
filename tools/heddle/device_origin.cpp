#include "device_origin.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "heddle/backend/objection.h"
#include "heddle/plugins.h"

namespace heddle::tool {
namespace {

namespace fs = std::filesystem;

/// Whether a file lies beside the library that loads plug-ins, or in its directory for them.
bool is_beside_library(const char* file) {
    Dl_info library{};
    // The address in a pointer to the function may be a stub in this program.
    void* const loader = dlsym(RTLD_DEFAULT, "ggml_backend_load_all");
    if (loader == nullptr || dladdr(loader, &library) == 0) return false;
    std::error_code ignored;
    const fs::path own = fs::path(library.dli_fname).parent_path();
    const fs::path directory = fs::path(file).parent_path();
    return fs::equivalent(directory, own, ignored) ||
           fs::equivalent(directory, own / HEDDLE_PLUGIN_SUBDIRECTORY, ignored);
}

}  // namespace

bool is_ours(ggml_backend_dev_t device) {
    const ggml_backend_reg_t registration = ggml_backend_dev_backend_reg(device);
    const std::string_view name = ggml_backend_reg_name(registration);
    const bool gives_reasons =
        ggml_backend_reg_get_proc_address(registration, HEDDLE_DEVICE_OBJECTION) != nullptr;
    heddle_plugin_info info;
    for (std::size_t i = 0; heddle_plugin_get(i, &info, sizeof info); ++i) {
        if (info.status != HEDDLE_PLUGIN_LOADED || name != info.name) continue;
        if (!gives_reasons || !is_beside_library(info.path)) return false;
    }
    return true;
}

}  // namespace heddle::tool
