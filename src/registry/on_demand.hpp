#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "registry/loader.hpp"
#include "registry/registry.hpp"

namespace heddle {

/// Plug-ins that are loaded only when they are asked for by name: the simulated device, and BLAS,
/// which clients would otherwise take for an accelerator and lose by.
///
/// A request is the plug-in's short name, perhaps with parameters behind a colon: "sim",
/// "sim:devices=2,mem=4G". The first one loads the plug-in. Parameters go to its function
/// `heddle_backend_configure` (bool(const char*)), which makes its devices anew; the same
/// parameters again change nothing.
class OnDemand {
public:
    OnDemand(Registry& registry, Loader& loader) : registry_(registry), loader_(loader) {}

    /// What a request gives.
    struct Answer {
        ggml_backend_reg_t registration = nullptr;
        ggml_backend_dev_t device = nullptr;  ///< the first that the request brought about
    };

    /// The plug-in that a request is for, as it is listed; empty if there is none.
    static std::string_view plugin_of(std::string_view request);

    /// Whether a name is a request for such a plug-in.
    static bool is_request(std::string_view name) { return !plugin_of(name).empty(); }

    /// The requests in a list such as "blas,sim:devices=2,mem=4G". Parameters have commas too: what
    /// is no plug-in's name belongs to the parameters before it, if there are any.
    static std::vector<std::string> split(std::string_view list);

    /// Fulfils a request from files in `directories`.
    Result<Answer> fulfil(std::string_view request, Loader::Directories directories);

private:
    /// What a plug-in was last told, and what that gave.
    struct State {
        std::string parameters;
        Answer answer;
    };

    Result<> configure(ggml_backend_reg_t registration, const std::string& parameters);
    Answer answer_of(ggml_backend_reg_t registration, const Registry::Picture& before) const;

    Registry& registry_;
    Loader& loader_;
    std::mutex mutex_;
    std::map<std::string, State, std::less<>> states_;
};

}  // namespace heddle
