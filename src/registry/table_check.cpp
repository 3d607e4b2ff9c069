#include "registry/table_check.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace heddle {
namespace {

struct Member {
    std::string_view name;
    bool is_there;
};

Result<> require(std::string_view table, std::initializer_list<Member> members) {
    for (const Member& member : members) {
        if (!member.is_there) {
            return failure(Errc::corrupt, "has no ", member.name, " in its table of the ", table);
        }
    }
    return ok();
}

Result<> require_name(const char* name) {
    if (name != nullptr && *name != '\0') return ok();
    return failure(Errc::corrupt, "does not say its name");
}

}  // namespace

Result<> check_tables(ggml_backend_reg_t registration) {
    const ggml_backend_reg_i& table = registration->iface;
    HEDDLE_TRY(require("backend", {{"get_name", table.get_name != nullptr},
                                   {"get_device_count", table.get_device_count != nullptr},
                                   {"get_device", table.get_device != nullptr}}));
    HEDDLE_TRY(require_name(table.get_name(registration)));
    const std::size_t count = table.get_device_count(registration);
    if (count <= kMostDevices) return ok();
    return failure(Errc::corrupt, "claims to have ", count, " devices, more than ", kMostDevices);
}

Result<> check_tables(ggml_backend_dev_t device) {
    const ggml_backend_device_i& table = device->iface;
    HEDDLE_TRY(require("device", {{"get_name", table.get_name != nullptr},
                                  {"get_description", table.get_description != nullptr},
                                  {"get_memory", table.get_memory != nullptr},
                                  {"get_type", table.get_type != nullptr},
                                  {"get_props", table.get_props != nullptr},
                                  {"init_backend", table.init_backend != nullptr},
                                  {"get_buffer_type", table.get_buffer_type != nullptr},
                                  {"supports_op", table.supports_op != nullptr},
                                  {"supports_buft", table.supports_buft != nullptr}}));
    return require_name(table.get_name(device));
}

UsableDevices usable_devices(ggml_backend_reg_t registration) {
    UsableDevices found;
    std::size_t others = 0;  // left out besides the first, which has the sentence
    const std::size_t count =
        std::min(registration->iface.get_device_count(registration), kMostDevices);
    for (std::size_t i = 0; i < count; ++i) {
        const ggml_backend_dev_t device = registration->iface.get_device(registration, i);
        const auto checked = device != nullptr ? check_tables(device) : invalid("is NULL");
        if (checked) {
            found.devices.push_back(device);
        } else if (found.left_out.empty()) {
            found.left_out =
                text("device ", i, " of ", count, " was left out: it ", checked.error().message);
        } else {
            ++others;
        }
    }
    if (others > 0) found.left_out += text(", and ", others, " more");
    return found;
}

}  // namespace heddle
