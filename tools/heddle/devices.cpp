#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <map>

#include "commands.hpp"
#include "console.hpp"
#include "core/printable.hpp"
#include "ggml-backend.h"
#include "heddle/plugins.h"
#include "json_text.hpp"
#include "shared_options.hpp"

namespace heddle::tool {
namespace {

const char* type_name(enum ggml_backend_dev_type type) {
    switch (type) {
        case GGML_BACKEND_DEVICE_TYPE_CPU:
            return "cpu";
        case GGML_BACKEND_DEVICE_TYPE_GPU:
            return "gpu";
        case GGML_BACKEND_DEVICE_TYPE_IGPU:
            return "igpu";
        case GGML_BACKEND_DEVICE_TYPE_ACCEL:
            return "accel";
        case GGML_BACKEND_DEVICE_TYPE_META:
            return "meta";
    }
    return "unknown";
}

std::vector<std::string> features_of(ggml_backend_reg_t reg) {
    std::vector<std::string> names;
    const auto get = reinterpret_cast<ggml_backend_get_features_t>(
        ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features"));
    if (get == nullptr) return names;
    for (const ggml_backend_feature* f = get(reg); f != nullptr && f->name != nullptr; ++f) {
        names.push_back(std::string(f->value) == "1" ? f->name
                                                     : fmt::format("{}={}", f->name, f->value));
    }
    return names;
}

nlohmann::json buffer_type_json(ggml_backend_buffer_type_t type, const char* use) {
    nlohmann::json j{{"name", ggml_backend_buft_name(type)},
                     {"use", use},
                     {"host", ggml_backend_buft_is_host(type)},
                     {"alignment", ggml_backend_buft_get_alignment(type)}};
    const std::size_t most = ggml_backend_buft_get_max_size(type);
    if (most < SIZE_MAX) j["max_size"] = most;
    return j;
}

/// What a device uses by itself, what the host has for it, and what weights may lie in besides.
nlohmann::json buffer_types_of(ggml_backend_dev_t device) {
    auto list = nlohmann::json::array();
    list.push_back(buffer_type_json(ggml_backend_dev_buffer_type(device), "default"));
    if (const auto host = ggml_backend_dev_host_buffer_type(device)) {
        list.push_back(buffer_type_json(host, "transfers from the host"));
    }
    const auto get_more =
        reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
    ggml_backend_buffer_type_t* more = get_more != nullptr ? get_more(device) : nullptr;
    for (; more != nullptr && *more != nullptr; ++more) {
        list.push_back(buffer_type_json(*more, "weights"));
    }
    return list;
}

nlohmann::json device_json(ggml_backend_dev_t device) {
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(device, &props);
    const ggml_backend_reg_t backend = ggml_backend_dev_backend_reg(device);
    nlohmann::json j{{"name", props.name},
                     {"description", props.description},
                     {"type", type_name(props.type)},
                     {"backend", ggml_backend_reg_name(backend)},
                     {"memory_free", props.memory_free},
                     {"memory_total", props.memory_total},
                     {"buffer_types", buffer_types_of(device)},
                     {"capabilities",
                      {{"async", props.caps.async},
                       {"host_buffer", props.caps.host_buffer},
                       {"buffer_from_host_ptr", props.caps.buffer_from_host_ptr},
                       {"events", props.caps.events},
                       {"mmap", props.caps.mmap_support}}},
                     {"features", features_of(backend)}};
    if (props.device_id != nullptr) j["device_id"] = props.device_id;
    return j;
}

nlohmann::json plugins_json() {
    nlohmann::json list = nlohmann::json::array();
    heddle_plugin_info info;
    for (std::size_t i = 0; heddle_plugin_get(i, &info, sizeof info); ++i) {
        list.push_back({{"path", info.path},
                        {"name", info.name},
                        {"status", heddle_plugin_status_name(info.status)},
                        {"reason", info.reason},
                        {"score", info.score},
                        {"api_version", info.api_version}});
    }
    return list;
}

std::string memory_text(const nlohmann::json& device, const char* key) {
    const std::size_t bytes = device[key];
    return bytes == 0 ? "-" : bytes_text(bytes);
}

void print_table(const nlohmann::json& devices) {
    Table table({"device", "type", "memory", "free", "description"});
    table.align_left(1);
    table.align_left(4);
    for (const auto& device : devices) {
        table.add({device["name"], device["type"], memory_text(device, "memory_total"),
                   memory_text(device, "memory_free"), device["description"]});
    }
    table.print();
}

std::string buffer_type_text(const nlohmann::json& type) {
    return fmt::format(
        "{} ({}; {}aligned to {} bytes, {})", type["name"].get<std::string>(),
        type["use"].get<std::string>(), type["host"].get<bool>() ? "memory of the host, " : "",
        type["alignment"].get<std::size_t>(),
        type.contains("max_size") ? "at most " + bytes_text(type["max_size"].get<std::size_t>())
                                  : "of any size");
}

/// What a capability lets a program do.
std::string capability_text(const std::string& name) {
    static const std::map<std::string, std::string> kTexts{
        {"async", "works while the program goes on"},
        {"host_buffer", "has memory of the host for fast transfers"},
        {"buffer_from_host_ptr", "uses memory of the program in place"},
        {"events", "tells when a part of its work is done"},
        {"mmap", "reads mapped files in place"}};
    const auto found = kTexts.find(name);
    return found == kTexts.end() ? name : found->second;
}

/// Lines "  what   text"; further texts stand below the first.
void print_lines(const char* what, const std::vector<std::string>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
        print("  {:<12}{}\n", i == 0 ? what : "", printable(texts[i]));
    }
}

void print_details(const nlohmann::json& device) {
    print("\n{}\n", coloured(device["name"].get<std::string>(), Colour::green));
    print_lines("is", {device["description"].get<std::string>()});
    print_lines("backend", {device["backend"].get<std::string>()});
    if (device.contains("device_id")) print_lines("id", {device["device_id"].get<std::string>()});
    print_lines("memory", {device["memory_total"] == 0
                               ? "none of its own"
                               : fmt::format("{}, {} free", memory_text(device, "memory_total"),
                                             memory_text(device, "memory_free"))});
    std::vector<std::string> texts;
    for (const auto& type : device["buffer_types"]) texts.push_back(buffer_type_text(type));
    print_lines("buffers", texts);
    texts.clear();
    for (const auto& [name, has] : device["capabilities"].items()) {
        if (has.get<bool>()) texts.push_back(capability_text(name));
    }
    print_lines("can", texts);
    std::string features;
    for (const auto& feature : device["features"]) {
        features += (features.empty() ? "" : " ") + feature.get<std::string>();
    }
    if (!features.empty()) print_lines("features", {features});
}

void print_plugins(const nlohmann::json& plugins) {
    print("\n");
    Table table({"backend", "status", "file", "reason"});
    for (std::size_t column : {1, 2, 3}) table.align_left(column);
    for (const auto& plugin : plugins) {
        const std::string name = plugin["name"], path = plugin["path"];
        table.add({name.empty() ? "?" : name, plugin["status"], path.empty() ? "-" : path,
                   plugin["reason"]},
                  plugin["status"] == "rejected" ? Colour::yellow : Colour::plain);
    }
    table.print();
}

/// People who look at the list may not know that there is more; scripts have no use for it.
void tell_of_more(const nlohmann::json& plugins) {
    std::string names;
    for (const auto& plugin : plugins) {
        if (plugin["status"] != heddle_plugin_status_name(HEDDLE_PLUGIN_ON_REQUEST)) continue;
        names += (names.empty() ? "" : ", ") + plugin["name"].get<std::string>();
    }
    if (names.empty() || isatty(STDOUT_FILENO) == 0) return;
    print_note("[on request, with --device: " + names + "; -v shows more]");
}

}  // namespace

void add_devices(CLI::App& app, int&) {
    CLI::App* command = app.add_subcommand("devices", "List the devices of this machine");
    auto json = std::make_shared<bool>(false);
    auto verbose = std::make_shared<bool>(false);
    add_shared_flag(*command, shared::kJson, *json);
    add_shared_flag(*command, shared::kVerbose, *verbose,
                    ": buffer types, capabilities, features and plug-ins");
    command->callback([json, verbose] {
        ggml_backend_load_all();
        nlohmann::json all{{"devices", nlohmann::json::array()}};
        for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
            all["devices"].push_back(device_json(ggml_backend_dev_get(i)));
        }
        all["plugins"] = plugins_json();
        if (*json) {
            print("{}\n", json_text(all));
        } else {
            print_table(all["devices"]);
            if (!*verbose) {
                tell_of_more(all["plugins"]);
                return;
            }
            for (const auto& device : all["devices"]) print_details(device);
            print_plugins(all["plugins"]);
        }
    });
}

}  // namespace heddle::tool
