#include "registry/loader.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "core/log.hpp"
#include "heddle/backend/guard.hpp"
#include "registry/backend_list.hpp"
#include "registry/search.hpp"
#include "registry/table_check.hpp"
#include "registry/trial.hpp"
#include "registry/trust.hpp"

namespace heddle {

namespace fs = std::filesystem;

/// A plug-in that is open, and what it says it is worth here.
struct Loader::Candidate {
    fs::path path;
    Registry::Library library;
    std::optional<int> score;
    int api_version = -1;

    PluginRecord record(PluginStatus status, std::string name, std::string reason) const {
        return {path.native(),     std::move(name),    status,
                std::move(reason), score.value_or(-1), api_version};
    }
};

namespace {

/// Calls into a plug-in; what it throws is an error.
template <class Function>
auto call(std::string_view what, Function&& function) {
    using Outcome = Result<plugin::Unwrapped<std::invoke_result_t<Function>>>;
    try {
        return Outcome(function());
    } catch (const std::bad_alloc&) {
        throw;  // as likely ours
    } catch (const std::exception& error) {
        return Outcome(failure(Errc::device, what, " threw: ", error.what()));
    } catch (...) {
        return Outcome(failure(Errc::device, what, " threw something that is no std::exception"));
    }
}

/// Whether the file is in this process because the program was linked to it.
bool linked_already(const fs::path& path) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) return false;
    const bool is_plugin = dlsym(handle, "ggml_backend_init") != nullptr;
    dlclose(handle);
    return !is_plugin;
}

bool is_or_varies(std::string_view name, std::string_view known) {
    return name == known || (name.starts_with(known) && name[known.size()] == '-');
}

/// Whether a file of this short name is looked for by it, or is no plug-in but what plug-ins are
/// linked with.
bool is_known(std::string_view name) {
    const auto same = [&](std::string_view known) { return is_or_varies(name, known); };
    return name == "base" || std::ranges::any_of(known_backends(), same, &KnownBackend::name);
}

/// Whether the file is in this process.
bool is_open(const fs::path& path) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
}

}  // namespace

/// One file is tried once, unless it has changed since: a plug-in that hangs costs its time once.
Result<> Loader::pass_trial(const fs::path& path) {
    if (trials_.limit.count() <= 0 || is_open(path)) return ok();
    if (trials_.is_ours != nullptr && trials_.is_ours(path)) return ok();
    struct stat status = {};
    if (stat(path.c_str(), &status) != 0) return try_loading(path, trials_.limit);
    const FileState file{status.st_dev, status.st_ino, static_cast<std::uintmax_t>(status.st_size),
                         status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
    const auto known = verdicts_.find(path);
    if (known != verdicts_.end() && known->second.file == file) return known->second.outcome;
    auto outcome = try_loading(path, trials_.limit);
    // Where there was no child nothing is known about the file.
    if (!outcome && outcome.error().code == Errc::io) return outcome;
    verdicts_.insert_or_assign(path, Verdict{file, outcome});
    return outcome;
}

Result<Loader::Candidate> Loader::open(const fs::path& path) {
    if (path.has_parent_path()) HEDDLE_TRY(check_shared_library(path));
    HEDDLE_TRY(pass_trial(path));
    HEDDLE_TRY_ASSIGN(SharedLibrary library, SharedLibrary::open(path));
    Candidate candidate{path, std::make_shared<SharedLibrary>(std::move(library)), {}, -1};
    if (auto* score = candidate.library->function<int()>("ggml_backend_score")) {
        HEDDLE_TRY_ASSIGN(candidate.score, call("ggml_backend_score", score));
        if (candidate.score == 0) {
            return failure(Errc::unsupported, "is not supported on this machine (score 0)");
        }
    }
    return candidate;
}

/// Starts a plug-in that is open and registers it. One that was not asked for by name is declined
/// if its name is taken: two devices called "CPU" could not be told apart.
Result<ggml_backend_reg_t> Loader::start(Candidate& candidate, bool asked_for) {
    auto* init = candidate.library->function<ggml_backend_reg_t()>("ggml_backend_init");
    if (init == nullptr) {
        return failure(Errc::corrupt, "is not a plug-in: it does not export ggml_backend_init");
    }
    HEDDLE_TRY_ASSIGN(const ggml_backend_reg_t registration, call("ggml_backend_init", init));
    if (registration == nullptr) {
        return failure(Errc::device, "did not start: ggml_backend_init gave NULL");
    }
    candidate.api_version = registration->api_version;
    if (registration->api_version != GGML_BACKEND_API_VERSION) {
        return failure(Errc::unsupported, "was built for version ", registration->api_version,
                       " of the plug-in interface, this library has version ",
                       GGML_BACKEND_API_VERSION);
    }
    return call("its table of functions",
                [&] { return enter(candidate, registration, asked_for); });
}

/// Registers a plug-in that has started.
Result<ggml_backend_reg_t> Loader::enter(const Candidate& candidate,
                                         ggml_backend_reg_t registration, bool asked_for) {
    HEDDLE_TRY(check_tables(registration));
    const std::string name(name_of(registration));
    const ggml_backend_reg_t namesake = registry_.find_registration(name);
    if (!asked_for && namesake != nullptr && namesake != registration) {
        return invalid("was not needed: a backend named ", name, " is registered already");
    }
    // Nothing fails for want of memory once it is registered.
    PluginRecord record =
        candidate.record(HEDDLE_PLUGIN_LOADED, name, usable_devices(registration).left_out);
    report_.make_room();
    if (registry_.add(registration, candidate.library, candidate.path.native())) {
        report_.note(std::move(record));
    }
    return registration;
}

Result<ggml_backend_reg_t> Loader::open_and_start(const fs::path& path, bool asked_for) {
    auto opened = open(path);
    if (!opened) {
        reject({path, nullptr, {}, -1}, opened.error());
        return std::move(opened).error();
    }
    Candidate candidate = *std::move(opened);
    auto registration = start(candidate, asked_for);
    if (!registration) reject(candidate, registration.error());
    return registration;
}

void Loader::reject(const Candidate& candidate, const Error& error) {
    report_.note(candidate.record(HEDDLE_PLUGIN_REJECTED, {}, error.message));
}

std::string Loader::doubts_about(const fs::path& path) const {
    if (trust_ == Trust::blind) return {};
    const std::string reason = distrust(path);
    return reason.empty() ? reason
                          : text(reason, " (HEDDLE_UNSAFE_PLUGINS=1 loads it all the same)");
}

bool Loader::trusted(const fs::path& path) {
    const std::string reason = doubts_about(path);
    if (reason.empty()) return true;
    report_.note(Candidate{path, nullptr, {}, -1}.record(HEDDLE_PLUGIN_PASSED_OVER, {}, reason));
    log_line(GGML_LOG_LEVEL_WARN, path.native(), ": was passed over: ", reason);
    return false;
}

Result<ggml_backend_reg_t> Loader::load(const fs::path& path) {
    const std::lock_guard lock(mutex_);
    // Where the system's loader finds a bare name is the administrator's and the user's choice.
    const std::string reason = path.has_parent_path() ? doubts_about(path) : std::string();
    if (!reason.empty()) {
        const Error refused = invalid("is not loaded: ", reason);
        reject({path, nullptr, {}, -1}, refused);
        return invalid(path.native(), ": ", refused.message);
    }
    auto registration = open_and_start(path, true);
    if (!registration) return std::move(registration).error().within(path.native());
    return registration;
}

/// The variants that can run here, best first; files of one score stay in the order they were found
/// in.
std::vector<Loader::Candidate> Loader::score_variants(std::string_view name,
                                                      Directories directories) {
    std::vector<Candidate> candidates;
    for (const fs::path& directory : directories) {
        for (const fs::path& path : variants_in(directory, name)) {
            if (!trusted(path) || linked_already(path)) continue;
            auto opened = open(path);
            if (!opened) {
                reject({path, nullptr, {}, -1}, opened.error());
                continue;
            }
            Candidate candidate = *std::move(opened);
            if (!candidate.score) {
                reject(candidate, invalid("is a variant, but does not export ggml_backend_score"));
            } else if (*candidate.score < 0) {
                reject(candidate, invalid("has the score ", *candidate.score, ", below 0"));
            } else {
                candidates.push_back(std::move(candidate));
            }
        }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return *a.score > *b.score; });
    return candidates;
}

ggml_backend_reg_t Loader::load_best(std::string_view name, Directories directories) {
    const std::lock_guard lock(mutex_);
    // All stay open until one of them works, so that none is opened twice.
    std::vector<Candidate> candidates = score_variants(name, directories);
    const Candidate* winner = nullptr;
    ggml_backend_reg_t chosen = nullptr;
    for (Candidate& candidate : candidates) {
        if (winner != nullptr) {
            report_.note(candidate.record(HEDDLE_PLUGIN_OUTRANKED, {},
                                          text("scores ", *candidate.score, "; ",
                                               winner->path.native(), " scores ", *winner->score)));
        } else if (auto registration = start(candidate, false)) {
            winner = &candidate;
            chosen = *registration;
        } else {
            reject(candidate, registration.error());
        }
    }
    if (chosen != nullptr) return chosen;

    for (const fs::path& directory : directories) {
        const fs::path path = directory / plugin_file_name(name);
        std::error_code ignored;
        if (!fs::exists(path, ignored) || !trusted(path) || linked_already(path)) continue;
        if (auto registration = open_and_start(path, false)) return *registration;
    }
    return nullptr;
}

void Loader::load_all(std::span<const std::string_view> names, Directories directories) {
    for (std::string_view name : names) load_best(name, directories);
}

void Loader::load_others(Directories directories) {
    const std::lock_guard lock(mutex_);
    for (const fs::path& directory : directories) {
        for (const fs::path& path : plugin_files_in(directory)) {
            if (is_known(plugin_name_in(path)) || !trusted(path) || linked_already(path)) continue;
            (void)open_and_start(path, false);  // the report has the reason
        }
    }
}

void Loader::note_on_request(std::string_view name, Directories directories) {
    for (const fs::path& directory : directories) {
        const fs::path path = directory / plugin_file_name(name);
        std::error_code ignored;
        if (!fs::exists(path, ignored)) continue;
        report_.note_if_new({path.native(), std::string(name), HEDDLE_PLUGIN_ON_REQUEST,
                             "is loaded when it is asked for by name", -1, -1});
        return;
    }
}

Result<> Loader::unload(ggml_backend_reg_t registration) {
    const std::lock_guard lock(mutex_);
    // What needs memory comes first: a backend is unloaded and noted so, or neither.
    const bool is_known = registry_.has(registration);
    const std::string name(is_known ? name_of(registration) : "");
    const long alive = is_known && count_buffers_ != nullptr ? count_buffers_(registration) : 0;
    std::string what = "was unloaded";
    std::string open =
        text("; its library stays open, because ", alive, " of its buffers are alive");
    what.reserve(what.size() + open.size());
    HEDDLE_TRY_ASSIGN(const Registry::Entry entry, registry_.remove(registration));
    if (alive > 0 && entry.library != nullptr) {
        entry.library->keep_open();
        what += open;
        log_line(GGML_LOG_LEVEL_WARN, name, ": ", what);
    }
    report_.note_unloaded(entry.origin, name, std::move(what));
    return ok();
}

}  // namespace heddle
