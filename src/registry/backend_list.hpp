#pragma once

#include <span>
#include <string_view>

#include "ggml-backend.h"

namespace heddle {

/// How a backend gets into the registry.
enum class Loading {
    built_in,  ///< part of this library
    found,     ///< a plug-in that `ggml_backend_load_all` looks for
    request,   ///< a plug-in that is loaded when it is named
};

/// A row of `src/backends/list.txt`.
struct KnownBackend {
    std::string_view name;
    Loading loading;
    bool is_built;                             ///< by this build of Heddle
    const char* switched_off_by;               ///< environment variable, set to anything; or null
    ggml_backend_reg_t (*registration)(void);  ///< of a built-in one
};

/// All of them, in the order in which they are registered and looked for.
std::span<const KnownBackend> known_backends();

/// Names of the plug-ins that are loaded in one of the two ways, in that order. A plug-in that
/// takes the place of a built-in backend is looked for by the backend's name.
std::span<const std::string_view> plugins_found();
std::span<const std::string_view> plugins_on_request();

}  // namespace heddle
