// Messages: where they go, and what plug-ins write them with.

#include <cstdarg>
#include <cstdio>
#include <new>
#include <string>

#include "core/log.hpp"
#include "ggml-impl.h"

using namespace heddle;

namespace {

/// Until a program says otherwise, messages go to standard error.
[[maybe_unused]] const bool default_sink_installed = [] {
    set_log_sink({ggml_log_callback_default, nullptr});
    return true;
}();

}  // namespace

void ggml_log_callback_default(ggml_log_level, const char* text, void*) {
    if (text == nullptr) return;
    std::fputs(text, stderr);
    std::fflush(stderr);
}

void ggml_log_set(ggml_log_callback log_callback, void* user_data) {
    set_log_sink({log_callback != nullptr ? log_callback : ggml_log_callback_default, user_data});
}

void ggml_log_get(ggml_log_callback* log_callback, void** user_data) {
    const LogSink sink = log_sink();
    if (log_callback != nullptr) *log_callback = sink.callback;
    if (user_data != nullptr) *user_data = sink.user_data;
}

void ggml_log_internal(ggml_log_level level, const char* format, ...) {
    if (format == nullptr) return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    char text[256];
    const int length = std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= 0 && static_cast<std::size_t>(length) < sizeof text) {
        log(level, {text, static_cast<std::size_t>(length)});
    } else if (length > 0) {
        try {
            std::string longer(static_cast<std::size_t>(length), '\0');
            std::vsnprintf(longer.data(), longer.size() + 1, format, again);
            log(level, longer);
        } catch (const std::bad_alloc&) {
            log(level, text);  // as much as there is room for
        }
    }
    va_end(again);
}
