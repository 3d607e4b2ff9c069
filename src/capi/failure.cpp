#include "capi/failure.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#include <unistd.h>
#endif

#include "capi/boundary.hpp"
#include "core/log.hpp"
#include "ggml-impl.h"
#include "heddle/heddle.h"

namespace heddle::capi {
namespace {

std::atomic<ggml_abort_callback_t> abort_callback{nullptr};
std::atomic<heddle_error_mode> error_mode{HEDDLE_ERROR_MODE_ABORT};

/// The last sentence of each thread. Kept as long as the thread lives: callers hold pointers to it.
std::string& last_error() noexcept {
    thread_local std::string sentence;
    return sentence;
}

thread_local std::uint64_t failure_count = 0;

void keep(const Error& error) noexcept {
    ++failure_count;
    try {
        last_error() = error.message;
    } catch (const std::exception&) {
        last_error().clear();  // no memory even for the sentence
    }
}

}  // namespace

std::uint64_t failures_told() noexcept { return failure_count; }

void report(const Error& error) noexcept {
    keep(error);
    try {
        log_line(GGML_LOG_LEVEL_ERROR, error.message);
    } catch (const std::exception&) {
    }
}

void fail(const Error& error) noexcept {
    keep(error);
    if (error_mode.load() == HEDDLE_ERROR_MODE_ABORT) stop_program(error.message);
}

void stop_program(std::string_view message) noexcept {
    // Told once more through the buffer of the thread: the callback wants a C string.
    const std::string& sentence = last_error();
    const char* text = sentence == message ? sentence.c_str() : message.data();
    if (const auto callback = abort_callback.load()) {
        callback(text);
    } else {
        std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
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
    const int used = std::snprintf(text, sizeof text, "%s:%d: ", file, line);
    va_list args;
    va_start(args, fmt);
    std::vsnprintf(text + used, sizeof text - static_cast<std::size_t>(used), fmt, args);
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

const char* heddle_last_error(void) { return capi::last_error().c_str(); }
void heddle_report_error(const char* sentence) {
    if (sentence != nullptr) capi::report({Errc::device, sentence});
}
void heddle_clear_error(void) { capi::last_error().clear(); }
void heddle_set_error_mode(enum heddle_error_mode mode) { capi::error_mode.store(mode); }
enum heddle_error_mode heddle_get_error_mode(void) { return capi::error_mode.load(); }
