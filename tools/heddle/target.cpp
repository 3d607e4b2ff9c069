#include "target.hpp"

#include <algorithm>

#include "heddle/heddle.h"
#include "heddle/plugins.h"
#include "nearest.hpp"

namespace heddle::tool {
namespace {

bool is_device(const std::string& name) {
    return std::ranges::any_of(api::Device::all(),
                               [&](const api::Device& each) { return each.name() == name; });
}

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> names;
    std::size_t begin = 0;
    while (begin <= list.size()) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        if (end > begin) names.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

}  // namespace

Result<api::Device> device_named(const std::string& name) {
    auto found = api::Device::find(name);
    if (found || found.error().code != Errc::not_found) return found;
    std::vector<std::string> names;
    std::string available, on_request;
    for (const api::Device& each : api::Device::all()) {
        names.push_back(each.name());
        available += (available.empty() ? "" : ", ") + each.name();
    }
    heddle_plugin_info plugin;
    for (std::size_t i = 0; heddle_plugin_get(i, &plugin, sizeof plugin); ++i) {
        if (plugin.status != HEDDLE_PLUGIN_ON_REQUEST) continue;
        names.emplace_back(plugin.name);
        on_request += std::string(on_request.empty() ? "; on request: " : ", ") + plugin.name;
    }
    const std::string meant = did_you_mean(name, names);
    return failure(Errc::not_found, "no device is called '", name, "'",
                   meant.empty() ? "; available: " + available + on_request : meant);
}

std::vector<std::string> device_names(const std::string& list) {
    std::vector<std::string> names = split(list);
    // Parameters of plug-ins have commas of their own; devices of other machines have colons in
    // their names.
    if (list.find(':') == std::string::npos || std::ranges::all_of(names, is_device)) return names;
    return {list};
}

bool is_plugin_file(std::string_view name) {
    return name.find('/') != std::string_view::npos || name.ends_with(".so");
}

Result<std::vector<std::string>> plugin_devices(const std::string& file) {
    const ggml_backend_reg_t plugin = ggml_backend_load(file.c_str());
    if (plugin == nullptr) return failure(Errc::not_found, heddle_last_error());
    std::vector<std::string> names;
    for (const api::Device& device : api::Device::all()) {  // some may have been left out
        if (ggml_backend_dev_backend_reg(device.c()) == plugin) names.push_back(device.name());
    }
    if (names.empty()) {
        return failure(Errc::not_found, file, ": ", ggml_backend_reg_name(plugin),
                       " has no devices here");
    }
    return names;
}

Result<api::Device> find_device(const std::string& name) {
    return name == "best" ? api::Device::best() : device_named(name);
}

Result<Target> Target::open(const std::string& name) {
    HEDDLE_TRY_ASSIGN(const api::Device device, find_device(name));
    auto stream = device.start();
    if (!stream) return std::move(stream).error().within("device " + device.name());
    return Target(*std::move(stream));
}

bool Target::set_fusion(heddle_cpu_fusion fusion) const {
    const auto set = device().function<heddle_cpu_set_fusion_t>("heddle_cpu_set_fusion");
    return set != nullptr && set(stream_.c(), fusion);
}

std::vector<std::string> Target::instruction_sets() const {
    std::vector<std::string> names;
    const auto list = device().function<heddle_cpu_isa_names_t>("heddle_cpu_isa_names");
    if (list == nullptr) return names;
    for (const char* const* name = list(); *name != nullptr; ++name) names.emplace_back(*name);
    return names;
}

Result<> Target::use_instruction_set(const std::string& name) const {
    const auto set = device().function<heddle_cpu_set_isa_t>("heddle_cpu_set_isa");
    if (set == nullptr) {
        return failure(Errc::unsupported, "device ", this->name(),
                       " has no choice of instruction sets; '", name, "' was asked for");
    }
    if (!set(name.c_str())) return invalid(heddle_last_error());
    return ok();
}

}  // namespace heddle::tool
