/// Heddle's own small C API: its version; what went wrong, and what shall happen then.
///
/// The functions of `ggml*.h` and `gguf.h` say that they failed as far as their signature allows
/// (a status, NULL, false). The sentence that says why is here.
#pragma once

#include "../ggml/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The version of Heddle itself, such as "0.3.0". ggml_version() is that of the interface, which
/// stays ggml's.
GGML_API const char* heddle_version(void);

/// What functions do that fail and have no way to report it, such as those that build tensors.
enum heddle_error_mode GGML_ENUM_INT {
    /// They call the abort callback (see ggml_set_abort_callback()) and stop the program.
    HEDDLE_ERROR_MODE_ABORT = 0,
    /// They return NULL or zero, change nothing, and leave the sentence in heddle_last_error().
    HEDDLE_ERROR_MODE_RETURN = 1,
    /// For heddle_set_thread_error_mode() only: what the process has chosen.
    HEDDLE_ERROR_MODE_PROCESS = 2,
};

/// The sentence of the last failure in the calling thread, UTF-8, without a newline.
///
/// Never NULL; "" if nothing failed since the thread began or since heddle_clear_error(). Calls
/// that succeed leave it alone. The text belongs to the library and is valid until the next failure
/// in the same thread.
GGML_API const char* heddle_last_error(void);

/// Leaves `sentence` as the last failure of the calling thread and logs it. For plug-ins, which
/// fail on the other side of a table that can only say that they did. NULL is ignored.
GGML_API void heddle_report_error(const char* sentence);

/// For functions that fail and have no way to say so: leaves `sentence` as the last failure of the
/// calling thread and does what the error mode asks for, so it may not return. NULL is ignored.
GGML_API void heddle_fail(const char* sentence);

/// Empties the calling thread's sentence.
GGML_API void heddle_clear_error(void);

/// Chooses the error mode of the whole process. The initial one is HEDDLE_ERROR_MODE_ABORT, which
/// is what programs written for ggml expect. Callable at any time, from any thread.
GGML_API void heddle_set_error_mode(enum heddle_error_mode mode);

/// Chooses the error mode of the calling thread alone, above that of the process;
/// HEDDLE_ERROR_MODE_PROCESS ends that. Gives the thread's mode from before.
GGML_API enum heddle_error_mode heddle_set_thread_error_mode(enum heddle_error_mode mode);

/// The error mode that holds for the calling thread.
GGML_API enum heddle_error_mode heddle_get_error_mode(void);

#ifdef __cplusplus
}
#endif
