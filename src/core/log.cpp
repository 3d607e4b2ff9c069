#include "core/log.hpp"

#include <mutex>
#include <string>

namespace heddle {
namespace {

std::mutex sink_mutex;
LogSink current_sink;

}  // namespace

void set_log_sink(LogSink sink) {
    const std::lock_guard lock(sink_mutex);
    current_sink = sink;
}

LogSink log_sink() {
    const std::lock_guard lock(sink_mutex);
    return current_sink;
}

void log(LogLevel level, std::string_view message) {
    const LogSink sink =
        log_sink();  // called without the lock: a callback may log or change the sink
    if (sink.callback == nullptr) return;
    try {
        sink.callback(level, std::string(message).c_str(), sink.user_data);
    } catch (...) {  // no memory, or whatever the program's function throws
    }
}

}  // namespace heddle
