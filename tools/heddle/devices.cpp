#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "ggml-backend.h"
#include "heddle/plugins.h"

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

nlohmann::json device_json(ggml_backend_dev_t device) {
    ggml_backend_dev_props props;
    ggml_backend_dev_get_props(device, &props);
    const ggml_backend_buffer_type_t buffer = ggml_backend_dev_buffer_type(device);
    const ggml_backend_buffer_type_t host = ggml_backend_dev_host_buffer_type(device);
    nlohmann::json j{{"name", props.name},
                     {"description", props.description},
                     {"type", type_name(props.type)},
                     {"memory_free", props.memory_free},
                     {"memory_total", props.memory_total},
                     {"buffer_type", ggml_backend_buft_name(buffer)},
                     {"capabilities",
                      {{"async", props.caps.async},
                       {"host_buffer", props.caps.host_buffer},
                       {"buffer_from_host_ptr", props.caps.buffer_from_host_ptr},
                       {"events", props.caps.events},
                       {"mmap", props.caps.mmap_support}}},
                     {"features", features_of(ggml_backend_dev_backend_reg(device))}};
    if (host != nullptr) j["host_buffer_type"] = ggml_backend_buft_name(host);
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
                        {"reason", info.reason}});
    }
    return list;
}

void print_devices(const nlohmann::json& all, bool verbose) {
    Table table({"device", "type", "memory", "free", "description"});
    table.align_left(1);
    table.align_left(4);
    for (const auto& device : all["devices"]) {
        const auto memory = [&](const char* key) {
            const std::size_t bytes = device[key];
            return bytes == 0 ? "-" : bytes_text(bytes);
        };
        table.add({device["name"], device["type"], memory("memory_total"), memory("memory_free"),
                   device["description"]});
    }
    table.print();
    if (!verbose) return;
    for (const auto& device : all["devices"]) {
        fmt::print("\n{}: buffers of type {}", device["name"].get<std::string>(),
                   device["buffer_type"].get<std::string>());
        for (const auto& [name, has] : device["capabilities"].items()) {
            if (has.get<bool>()) fmt::print(", {}", name);
        }
        fmt::print("\n  features:");
        for (const auto& feature : device["features"])
            fmt::print(" {}", feature.get<std::string>());
        fmt::print("\n");
    }
    fmt::print("\nbackends and plug-ins\n");
    Table plugins({"name", "status", "file", "reason"});
    for (std::size_t column : {1, 2, 3}) plugins.align_left(column);
    for (const auto& plugin : all["plugins"]) {
        plugins.add({plugin["name"], plugin["status"], plugin["path"], plugin["reason"]});
    }
    plugins.print();
}

}  // namespace

void add_devices(CLI::App& app, int&) {
    CLI::App* command = app.add_subcommand("devices", "The devices of this machine");
    auto json = std::make_shared<bool>(false);
    auto verbose = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "As JSON, with everything there is to say");
    command->add_flag("-v,--verbose", *verbose, "Also features, capabilities and plug-ins");
    command->callback([json, verbose] {
        ggml_backend_load_all();
        nlohmann::json all{{"devices", nlohmann::json::array()}};
        for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
            all["devices"].push_back(device_json(ggml_backend_dev_get(i)));
        }
        all["plugins"] = plugins_json();
        if (*json) {
            fmt::print("{}\n", all.dump(2));
        } else {
            print_devices(all, *verbose);
        }
    });
}

}  // namespace heddle::tool
