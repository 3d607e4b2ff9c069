// The log as backends and programs outside `ggml-base` see it: the sink is in that library, and
// this goes through its C API.

#include <string>

#include "core/log.hpp"

namespace heddle {

void log(LogLevel level, std::string_view message) {
    ggml_log_callback callback = nullptr;
    void* user_data = nullptr;
    ggml_log_get(&callback, &user_data);
    if (callback == nullptr) return;
    try {
        callback(level, std::string(message).c_str(), user_data);
    } catch (...) {  // no memory, or whatever the program's function throws
    }
}

}  // namespace heddle
