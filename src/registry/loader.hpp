#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "registry/plugin_report.hpp"
#include "registry/registry.hpp"

namespace heddle {

/// Finds plug-in libraries, chooses among their variants, and puts them into a registry.
///
/// Whatever a file turns out to be, it ends as a line in the report; only what works is registered.
/// Calls from several threads wait for each other; a plug-in may load another one while it starts.
class Loader {
public:
    using Directories = std::span<const std::filesystem::path>;

    /// Counts the buffers alive that belong to devices of a backend.
    using CountBuffers = long (*)(ggml_backend_reg_t registration);

    /// Which plug-ins are loaded in a child process first, to see whether they come back.
    struct Trials {
        std::chrono::milliseconds limit{0};                            ///< 0: none is
        bool (*is_ours)(const std::filesystem::path& path) = nullptr;  ///< files that need no trial
    };

    /// Which files are loaded: those that only people with a say in this process could have put
    /// there (see `distrust`), or all.
    enum class Trust { checked, blind };

    /// Without `count_buffers` nothing is known to be alive when a backend is unloaded.
    Loader(Registry& registry, PluginReport& report, CountBuffers count_buffers, Trials trials,
           Trust trust = Trust::checked)
        : registry_(registry),
          report_(report),
          count_buffers_(count_buffers),
          trials_(trials),
          trust_(trust) {}
    Loader(Registry& registry, PluginReport& report, CountBuffers count_buffers = nullptr)
        : Loader(registry, report, count_buffers, Trials()) {}

    /// Loads one file that was named, unless another user could have put it there. A
    /// plug-in that is loaded already gives the same registration again.
    Result<ggml_backend_reg_t> load(const std::filesystem::path& path);

    /// Loads the best variant of the plug-in `name` that `directories` have: the one with the
    /// highest score, else the first file without variants. Gives null if there is none, or none
    /// that works. Files that another user could have put there are passed over.
    ggml_backend_reg_t load_best(std::string_view name, Directories directories);

    /// `load_best` for each of these names.
    void load_all(std::span<const std::string_view> names, Directories directories);

    /// Loads every plug-in of `directories` that has no name of the list of backends, in the order
    /// of names.
    void load_others(Directories directories);

    /// Notes where the plug-in `name`, which is loaded on request, would come from.
    void note_on_request(std::string_view name, Directories directories);

    /// Takes a backend out and closes its library, unless something of it is known to be alive.
    Result<> unload(ggml_backend_reg_t registration);

private:
    struct Candidate;

    /// A file as it was at some moment.
    struct FileState {
        std::uintmax_t device, number, size;
        std::int64_t changed;  ///< nanoseconds
        bool operator==(const FileState&) const = default;
    };
    struct Verdict {
        FileState file;
        Result<> outcome;
    };

    Result<Candidate> open(const std::filesystem::path& path);
    Result<> pass_trial(const std::filesystem::path& path);
    Result<ggml_backend_reg_t> start(Candidate& candidate, bool asked_for);
    Result<ggml_backend_reg_t> enter(const Candidate& candidate, ggml_backend_reg_t registration,
                                     bool asked_for);
    Result<ggml_backend_reg_t> open_and_start(const std::filesystem::path& path, bool asked_for);
    void reject(const Candidate& candidate, const Error& error);
    std::string doubts_about(const std::filesystem::path& path) const;
    bool trusted(const std::filesystem::path& path);
    std::vector<Candidate> score_variants(std::string_view name, Directories directories);

    Registry& registry_;
    PluginReport& report_;
    CountBuffers count_buffers_;
    const Trials trials_;
    const Trust trust_;
    std::map<std::filesystem::path, Verdict> verdicts_;
    std::recursive_mutex mutex_;
};

}  // namespace heddle
