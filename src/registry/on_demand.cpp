#include "registry/on_demand.hpp"

#include <algorithm>

#include "heddle/heddle.h"
#include "registry/backend_list.hpp"

namespace heddle {
namespace {

std::string_view plugin_part(std::string_view request) {
    return request.substr(0, request.find(':'));
}

bool knows(const Registry::Picture& picture, ggml_backend_reg_t registration) {
    return std::any_of(
        picture.entries.begin(), picture.entries.end(),
        [&](const Registry::Entry& entry) { return entry.registration == registration; });
}

}  // namespace

std::vector<std::string> OnDemand::split(std::string_view list) {
    std::vector<std::string> requests;
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(','), list.size());
        const std::string_view part = list.substr(0, end);
        list.remove_prefix(std::min(end + 1, list.size()));
        const bool continues = !requests.empty() && !is_request(part) &&
                               requests.back().find(':') != std::string::npos;
        if (continues) {
            requests.back().append(",").append(part);
        } else if (!part.empty()) {
            requests.emplace_back(part);
        }
    }
    return requests;
}

/// Only plug-ins of the list are loaded by a lookup: a mistyped device name must not make the
/// library run code from some file.
std::string_view OnDemand::plugin_of(std::string_view request) {
    const auto names = plugins_on_request();
    const auto known = std::ranges::find_if(
        names, [&](std::string_view name) { return same_name(name, plugin_part(request)); });
    return known != names.end() ? *known : std::string_view{};
}

Result<> OnDemand::configure(ggml_backend_reg_t registration, const std::string& parameters) {
    void* found =
        registration->iface.get_proc_address != nullptr
            ? registration->iface.get_proc_address(registration, "heddle_backend_configure")
            : nullptr;
    if (found == nullptr) {
        if (parameters.empty()) return ok();
        return failure(Errc::unsupported, "takes no parameters, was given '", parameters, "'");
    }
    heddle_clear_error();
    if (reinterpret_cast<bool (*)(const char*)>(found)(parameters.c_str())) return ok();
    const std::string reason = heddle_last_error();  // left there by the plug-in
    if (parameters.empty()) {
        return failure(Errc::device, reason.empty() ? "does not start" : reason);
    }
    return invalid("does not accept the parameters '", parameters, "'", reason.empty() ? "" : ": ",
                   reason);
}

OnDemand::Answer OnDemand::answer_of(ggml_backend_reg_t registration,
                                     const Registry::Picture& before) const {
    Answer answer{registration, nullptr};
    const auto now = registry_.picture();
    for (const Registry::Listed& listed : now->devices) {
        if (listed.source != registration) continue;
        if (answer.device == nullptr) answer.device = listed.device;
        const bool is_new =
            std::none_of(before.devices.begin(), before.devices.end(),
                         [&](const Registry::Listed& old) { return old.device == listed.device; });
        if (is_new) return {registration, listed.device};
    }
    return answer;  // the devices are the old ones: the first of them
}

Result<OnDemand::Answer> OnDemand::fulfil(std::string_view request,
                                          Loader::Directories directories) {
    const std::string_view name = plugin_of(request);
    if (name.empty()) return failure(Errc::not_found, "there is no plug-in for '", request, "'");
    const bool has_parameters = plugin_part(request).size() < request.size();
    const std::string parameters(has_parameters ? request.substr(name.size() + 1) : "");

    const std::lock_guard lock(mutex_);
    const auto before = registry_.picture();
    const auto known = states_.find(name);
    const bool loaded = known != states_.end() && knows(*before, known->second.answer.registration);
    if (loaded && (!has_parameters || known->second.parameters == parameters)) {
        return known->second.answer;
    }

    const ggml_backend_reg_t registration =
        loaded ? known->second.answer.registration : loader_.load_best(name, directories);
    if (registration == nullptr) {
        return failure(Errc::not_found, "there is no ", name, " plug-in that works here");
    }
    if (auto configured = configure(registration, parameters); !configured) {
        if (!knows(*before, registration)) (void)loader_.unload(registration);
        return std::move(configured).error().within(name);
    }
    registry_.refresh(registration);
    const Answer answer = answer_of(registration, *before);
    states_.insert_or_assign(std::string(name), State{parameters, answer});
    return answer;
}

}  // namespace heddle
