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
#include "registry/backend_list.hpp"
#include "registry/launcher.hpp"
#include "registry/search.hpp"
#include "registry/trial.hpp"

namespace heddle {
namespace {

bool is_switched_off(const KnownBackend& backend) {
    return backend.switched_off_by != nullptr && std::getenv(backend.switched_off_by) != nullptr;
}

/// A plug-in that was built with this library lies where those are put, under its name.
bool is_ours(const std::filesystem::path& path) {
    const std::string name = plugin_name_in(path);
    const auto is_it = [&](const KnownBackend& backend) {
        return backend.is_built && backend.loading != Loading::built_in && backend.name == name;
    };
    if (std::ranges::none_of(known_backends(), is_it)) return false;
    auto directories = plugin_directories();
    directories.push_back(own_directory());
    return std::any_of(directories.begin(), directories.end(), [&](const auto& directory) {
        std::error_code ignored;
        return std::filesystem::equivalent(path.parent_path(), directory, ignored);
    });
}

std::string variable(const char* name) {
    const char* const text = std::getenv(name);
    return text != nullptr ? text : "";
}

/// The plug-ins that the environment asks for, and which variable does. Plug-ins that are looked
/// for are registered later than all of them.
std::vector<std::pair<const char*, std::string>> requests_of_environment() {
    std::vector<std::pair<const char*, std::string>> requests;
    if (wants_mpi(variable)) requests.emplace_back("going on without other machines", "mpi");
    for (std::string& request : OnDemand::split(variable("HEDDLE_BACKENDS"))) {
        requests.emplace_back("HEDDLE_BACKENDS", std::move(request));
    }
    return requests;
}

/// Loads what the environment asks for, once. Others wait until that is done; a plug-in that looks
/// into the registry while it starts sees what is there so far.
void load_requested(Backends& backends) {
    enum class State { not_yet, under_way, done };
    static std::atomic<State> state{State::not_yet};
    if (state == State::done) return;
    static std::recursive_mutex mutex;
    const std::lock_guard lock(mutex);
    if (state != State::not_yet) return;
    state = State::under_way;
    for (const auto& [origin, request] : requests_of_environment()) {
        const auto answer = backends.on_demand.fulfil(request, on_demand_directories());
        if (answer && OnDemand::plugin_of(request) == "mpi" && mpi_goes_last(variable)) {
            backends.registry.keep_last(answer->registration);
        }
        if (answer) continue;
        log_line(GGML_LOG_LEVEL_WARN, origin, ": ", answer.error().message);
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

std::vector<std::string_view> wanted_plugins() {
    std::vector<std::string_view> names;
    for (const KnownBackend& known : known_backends()) {
        if (known.loading == Loading::request || is_switched_off(known)) continue;
        names.push_back(known.name);
    }
    return names;
}

void register_built_in(Backends& backends) {
    for (const KnownBackend& known : known_backends()) {
        if (known.registration == nullptr || is_switched_off(known)) continue;
        const ggml_backend_reg_t registration = known.registration();
        if (registration == nullptr) throw std::bad_alloc();  // nothing else can be wrong
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
