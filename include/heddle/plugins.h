/// What became of every backend: those built in, and every plug-in file that was looked at.
///
/// ggml_backend_load() and ggml_backend_load_all() say little when a plug-in is not there
/// afterwards. Here is the whole story: one record for each built-in backend and for each file,
/// with the reason where it was not taken.
#pragma once

#include "../ggml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What became of a plug-in.
enum heddle_plugin_status GGML_ENUM_INT {
    HEDDLE_PLUGIN_BUILT_IN = 0,     ///< Part of the library; registered.
    HEDDLE_PLUGIN_LOADED = 1,       ///< Loaded and registered.
    HEDDLE_PLUGIN_OUTRANKED = 2,    ///< Works here, but another variant of it scored higher.
    HEDDLE_PLUGIN_REJECTED = 3,     ///< Not usable; the reason says why.
    HEDDLE_PLUGIN_UNLOADED = 4,     ///< Was loaded, and has been taken out again.
    HEDDLE_PLUGIN_ON_REQUEST = 5,   ///< Is loaded when it is asked for by name, such as "BLAS".
    HEDDLE_PLUGIN_PASSED_OVER = 6,  ///< Not opened, because nobody named the file; see the reason.
};

/// A record. Texts are UTF-8, never NULL, and stay valid until the process ends.
struct heddle_plugin_info {
    const char* path;                  ///< The file; "" for a built-in backend.
    const char* name;                  ///< Of its registration, or to ask for it by; "" if unknown.
    const char* reason;                ///< Why it, or a device of it, is not in use; "" if all are.
    enum heddle_plugin_status status;  ///< What became of it.
    int score;                         ///< What it says it is worth here; -1 if it does not say.
    int api_version;                   ///< Plug-in interface it was built for; -1 if unknown.
};

/// Number of records. Grows while plug-ins are loaded; a file looked at again keeps its record.
GGML_API size_t heddle_plugin_count(void);

/// Fills `info` with record number `index`, in the order in which files were first looked at; false
/// if there is none. `info_size` is sizeof *info: the struct may grow at its end.
GGML_API bool heddle_plugin_get(size_t index, struct heddle_plugin_info* info, size_t info_size);

/// A word for a status, such as "rejected". Static; never NULL.
GGML_API const char* heddle_plugin_status_name(enum heddle_plugin_status status);

#ifdef __cplusplus
}
#endif
