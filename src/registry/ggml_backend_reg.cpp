// The C API of the registry and the plug-in loader: all of library `ggml`.

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "core/boundary.hpp"
#include "core/log.hpp"
#include "ggml-backend-dl.h"
#include "ggml-backend.h"
#include "heddle/plugins.h"
#include "registry/backend_list.hpp"
#include "registry/backends.hpp"
#include "registry/search.hpp"
#include "registry/table_check.hpp"

using namespace heddle;

namespace {

/// The value of `body`'s Result; a failure is reported and gives null. Null is what these functions
/// have to say that something is not there.
template <class Body>
auto value_or_null(Body&& body) noexcept {
    auto result = capi::guarded(std::forward<Body>(body));
    if (result) return *std::move(result);
    capi::report(result.error());
    return decltype(*std::move(result)){};
}

template <class Body>
void done_or_reported(Body&& body) noexcept {
    if (auto result = capi::guarded(std::forward<Body>(body)); !result)
        capi::report(result.error());
}

template <class List>
Result<std::size_t> checked_index(std::string_view function, std::size_t index, const List& list) {
    if (index < list.size()) return index;
    return invalid(function, ": index ", index, " of ", list.size());
}

/// A device by its name, or by a request such as "sim:devices=2"; null if there is none.
Result<OnDemand::Answer> answer_request(const char* name) {
    if (!OnDemand::is_request(name)) return OnDemand::Answer{};
    return backends().on_demand.fulfil(name, on_demand_directories());
}

/// Loads what GGML_BACKEND_PATH names: a file, or several with colons between them.
void load_named_files(std::string_view list) {
    std::error_code ignored;
    const bool is_one = std::filesystem::exists(list, ignored);  // its name may have a colon
    while (!list.empty()) {
        const std::size_t end = is_one ? list.size() : std::min(list.find(':'), list.size());
        const std::filesystem::path path = list.substr(0, end);
        list.remove_prefix(std::min(end + 1, list.size()));
        if (path.empty()) continue;
        if (auto loaded = backends().loader.load(path); !loaded) {
            log_line(GGML_LOG_LEVEL_WARN, "GGML_BACKEND_PATH: ", loaded.error().message);
        }
    }
}

}  // namespace

void ggml_backend_register(ggml_backend_reg_t reg) {
    done_or_reported([&]() -> Result<> {
        if (reg == nullptr) return ok();
        if (auto checked = check_tables(reg); !checked) {
            return std::move(checked).error().within("ggml_backend_register: this backend");
        }
        backends().registry.add(reg);
        return ok();
    });
}

void ggml_backend_device_register(ggml_backend_dev_t device) {
    done_or_reported([&]() -> Result<> {
        HEDDLE_TRY(capi::require(device, "ggml_backend_device_register", "the device"));
        if (auto checked = check_tables(device); !checked) {
            return std::move(checked).error().within("ggml_backend_device_register: this device");
        }
        backends().registry.add(device);
        return ok();
    });
}

size_t ggml_backend_reg_count(void) {
    return value_or_null(
        []() -> Result<size_t> { return backends().registry.picture()->entries.size(); });
}

ggml_backend_reg_t ggml_backend_reg_get(size_t index) {
    return value_or_null([&]() -> Result<ggml_backend_reg_t> {
        const auto now = backends().registry.picture();
        HEDDLE_TRY(checked_index("ggml_backend_reg_get", index, now->entries));
        return now->entries[index].registration;
    });
}

ggml_backend_reg_t ggml_backend_reg_by_name(const char* name) {
    return value_or_null([&]() -> Result<ggml_backend_reg_t> {
        HEDDLE_TRY(capi::require(name, "ggml_backend_reg_by_name", "the name"));
        if (ggml_backend_reg_t found = backends().registry.find_registration(name)) return found;
        HEDDLE_TRY_ASSIGN(const OnDemand::Answer answer, answer_request(name));
        return answer.registration;
    });
}

size_t ggml_backend_dev_count(void) {
    return value_or_null(
        []() -> Result<size_t> { return backends().registry.picture()->devices.size(); });
}

ggml_backend_dev_t ggml_backend_dev_get(size_t index) {
    return value_or_null([&]() -> Result<ggml_backend_dev_t> {
        const auto now = backends().registry.picture();
        HEDDLE_TRY(checked_index("ggml_backend_dev_get", index, now->devices));
        return now->devices[index].device;
    });
}

ggml_backend_dev_t ggml_backend_dev_by_name(const char* name) {
    return value_or_null([&]() -> Result<ggml_backend_dev_t> {
        HEDDLE_TRY(capi::require(name, "ggml_backend_dev_by_name", "the name"));
        if (ggml_backend_dev_t found = backends().registry.find_device(name)) return found;
        HEDDLE_TRY_ASSIGN(const OnDemand::Answer answer, answer_request(name));
        return answer.device;
    });
}

ggml_backend_dev_t ggml_backend_dev_by_type(enum ggml_backend_dev_type type) {
    return value_or_null(
        [&]() -> Result<ggml_backend_dev_t> { return backends().registry.find_device(type); });
}

ggml_backend_t ggml_backend_init_by_name(const char* name, const char* params) {
    const ggml_backend_dev_t device = ggml_backend_dev_by_name(name);
    return device != nullptr ? ggml_backend_dev_init(device, params) : nullptr;
}

ggml_backend_t ggml_backend_init_by_type(enum ggml_backend_dev_type type, const char* params) {
    const ggml_backend_dev_t device = ggml_backend_dev_by_type(type);
    return device != nullptr ? ggml_backend_dev_init(device, params) : nullptr;
}

ggml_backend_t ggml_backend_init_best(void) {
    for (enum ggml_backend_dev_type type :
         {GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU,
          GGML_BACKEND_DEVICE_TYPE_CPU}) {
        const ggml_backend_dev_t device = ggml_backend_dev_by_type(type);
        if (device != nullptr) return ggml_backend_dev_init(device, nullptr);
    }
    return nullptr;
}

ggml_backend_reg_t ggml_backend_load(const char* path) {
    return value_or_null([&]() -> Result<ggml_backend_reg_t> {
        HEDDLE_TRY(capi::require(path, "ggml_backend_load", "the path"));
        return backends().loader.load(path);
    });
}

void ggml_backend_unload(ggml_backend_reg_t reg) {
    done_or_reported([&]() -> Result<> {
        auto unloaded = backends().loader.unload(reg);
        if (!unloaded && unloaded.error().code == Errc::not_found) return ok();  // as documented
        return unloaded;
    });
}

void ggml_backend_load_all(void) { ggml_backend_load_all_from_path(nullptr); }

void ggml_backend_load_all_from_path(const char* dir_path) {
    done_or_reported([&]() -> Result<> {
        const auto directories = dir_path != nullptr ? std::vector<std::filesystem::path>{dir_path}
                                                     : default_search_directories();
        Loader& loader = backends().loader;
        loader.load_all(wanted_plugins(), directories);
        if (dir_path == nullptr) loader.load_others(plugin_directories());
        const auto on_request = dir_path != nullptr ? directories : on_demand_directories();
        for (std::string_view name : plugins_on_request()) {
            loader.note_on_request(name, on_request);
        }
        if (const char* more = secure_getenv("GGML_BACKEND_PATH")) load_named_files(more);
        return ok();
    });
}

// Records of plug-ins.

namespace {

/// A text that never goes away, for callers who keep pointers. There are few different ones.
const char* lasting(const std::string& text) {
    static std::mutex mutex;
    static auto* const texts = new std::set<std::string>;
    const std::lock_guard lock(mutex);
    return texts->insert(text).first->c_str();
}

}  // namespace

size_t heddle_plugin_count(void) {
    return value_or_null([]() -> Result<size_t> { return plugin_report().size(); });
}

bool heddle_plugin_get(size_t index, struct heddle_plugin_info* info, size_t info_size) {
    return value_or_null([&]() -> Result<bool> {
        HEDDLE_TRY(capi::require(info, "heddle_plugin_get", "the record"));
        constexpr std::size_t kLargest = 4096;  // no later version of the record has more bytes
        if (info_size > kLargest) {
            return invalid("heddle_plugin_get: a record of ", info_size, " bytes, at most ",
                           kLargest);
        }
        const auto records = plugin_report();
        if (index >= records.size()) return false;
        const PluginRecord& record = records[index];
        const heddle_plugin_info filled{lasting(record.path),   lasting(record.name),
                                        lasting(record.reason), record.status,
                                        record.score,           record.api_version};
        std::memset(info, 0, info_size);
        std::memcpy(info, &filled, std::min(info_size, sizeof filled));
        return true;
    });
}

const char* heddle_plugin_status_name(enum heddle_plugin_status status) {
    switch (status) {
        case HEDDLE_PLUGIN_BUILT_IN:
            return "built in";
        case HEDDLE_PLUGIN_LOADED:
            return "loaded";
        case HEDDLE_PLUGIN_OUTRANKED:
            return "outranked";
        case HEDDLE_PLUGIN_REJECTED:
            return "rejected";
        case HEDDLE_PLUGIN_UNLOADED:
            return "unloaded";
        case HEDDLE_PLUGIN_ON_REQUEST:
            return "on request";
        case HEDDLE_PLUGIN_PASSED_OVER:
            return "passed over";
    }
    return "unknown";
}

// Shared libraries, for backends that load a driver.

dl_handle* dl_load_library(const fs::path& path) {
    return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* dl_get_sym(dl_handle* handle, const char* name) { return dlsym(handle, name); }

const char* dl_error() {
    const char* reason = dlerror();
    return reason != nullptr ? reason : "";
}
