#include "capi/failure.hpp"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#include <unistd.h>
#endif

#include "capi/boundary.hpp"
#include "core/last_error.hpp"
#include "core/log.hpp"
#include "ggml-impl.h"
#include "heddle/heddle.h"

namespace heddle::capi {
namespace {

std::atomic<ggml_abort_callback_t> abort_callback{nullptr};
std::atomic<heddle_error_mode> error_mode{HEDDLE_ERROR_MODE_ABORT};
thread_local constinit heddle_error_mode thread_error_mode = HEDDLE_ERROR_MODE_PROCESS;

}  // namespace

void report(std::string_view sentence) noexcept {
    keep_sentence(sentence);
    log_line(GGML_LOG_LEVEL_ERROR, last_sentence());
}

void report(const Error& error) noexcept { report(std::string_view(error.message)); }

void fail(std::string_view sentence) noexcept {
    keep_sentence(sentence);
    if (heddle_get_error_mode() == HEDDLE_ERROR_MODE_ABORT) stop_program(sentence);
}

void fail(const Error& error) noexcept { fail(std::string_view(error.message)); }

void stop_program(std::string_view message) noexcept {
    keep_sentence(message);  // the callback wants a C string
    if (const auto callback = abort_callback.load()) {
        callback(last_sentence());
    } else {
        std::fprintf(stderr, "%s\n", last_sentence());
        ggml_print_backtrace();
    }
    std::abort();
}

}  // namespace heddle::capi

using namespace heddle;

ggml_abort_callback_t ggml_set_abort_callback(ggml_abort_callback_t callback) {
    return capi::abort_callback.exchange(callback);
}

void ggml_abort(const char* file, int line, const char* fmt, ...) {
    std::fflush(stdout);
    char text[2048];
    const int place = std::snprintf(text, sizeof text, "%s:%d: ", file, line);
    const auto used =
        std::min<std::size_t>(place < 0 ? 0 : static_cast<std::size_t>(place), sizeof text - 1);
    va_list args;
    va_start(args, fmt);
    std::vsnprintf(text + used, sizeof text - used, fmt, args);
    va_end(args);
    capi::stop_program(text);
}

void ggml_print_backtrace(void) {
#if __has_include(<execinfo.h>)
    if (std::getenv("GGML_NO_BACKTRACE") != nullptr) return;
    void* frames[64];
    const int count = backtrace(frames, 64);
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
#endif
}

const char* heddle_last_error(void) { return last_sentence(); }
void heddle_report_error(const char* sentence) {
    if (sentence != nullptr) capi::report(sentence);
}
void heddle_fail(const char* sentence) {
    if (sentence != nullptr) capi::fail(sentence);
}
void heddle_clear_error(void) { forget_sentence(); }
void heddle_set_error_mode(enum heddle_error_mode mode) {
    if (mode != HEDDLE_ERROR_MODE_PROCESS) capi::error_mode.store(mode);
}
enum heddle_error_mode heddle_set_thread_error_mode(enum heddle_error_mode mode) {
    return std::exchange(capi::thread_error_mode, mode);
}
enum heddle_error_mode heddle_get_error_mode(void) {
    const auto mode = capi::thread_error_mode;
    return mode == HEDDLE_ERROR_MODE_PROCESS ? capi::error_mode.load() : mode;
}
