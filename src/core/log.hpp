#pragma once

#include <new>
#include <string_view>

#include "core/error.hpp"
#include "ggml.h"

namespace heddle {

using LogLevel = ::ggml_log_level;

/// Where messages go. The library itself never prints: it hands text to this sink, and drops it
/// where there is none. Process-wide, because that is what programs set; safe to change at any
/// time.
struct LogSink {
    ggml_log_callback callback = nullptr;
    void* user_data = nullptr;
};

void set_log_sink(LogSink sink);
LogSink log_sink();

/// One finished message; a line break is the caller's to add. Lost where there is no memory for it.
void log(LogLevel level, std::string_view message);

template <class... Parts>
void log_line(LogLevel level, const Parts&... parts) {
    try {
        log(level, text(parts..., '\n'));
    } catch (const std::bad_alloc&) {
    }
}

}  // namespace heddle
