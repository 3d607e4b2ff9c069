/// Shared libraries at run time, for backends that load a driver themselves. C++ linkage.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <memory>

#include "ggml-backend.h"

namespace fs = std::filesystem;

using dl_handle = void;  ///< An open library.

/// Opens a library with its own names kept to itself; null if that fails, see dl_error().
GGML_BACKEND_API dl_handle* dl_load_library(const fs::path& path);

/// The address of `name`; null if the library has no such symbol.
GGML_BACKEND_API void* dl_get_sym(dl_handle* handle, const char* name);

/// Why the last call in this thread failed; never null.
GGML_BACKEND_API const char* dl_error();

/// Closes a library.
struct dl_handle_deleter {
    void operator()(void* handle) const { dlclose(handle); }
};

/// Owns an open library.
using dl_handle_ptr = std::unique_ptr<dl_handle, dl_handle_deleter>;
