/// Between a backend's classes and the C tables: exceptions and errors become what C can say.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "../exception.hpp"
#include "ggml-backend-impl.h"

extern "C" {
/// Keeps a sentence for heddle_last_error() and logs it. Weak, because a plug-in may also be loaded
/// by another library with the same tables, which has no such function.
[[gnu::weak]] void heddle_report_error(const char* sentence);
}

namespace heddle::plugin {

/// Sends one line to the program's log.
inline void log(ggml_log_level level, const std::string& line) noexcept {
    ggml_log_callback callback = nullptr;
    void* user_data = nullptr;
    ggml_log_get(&callback, &user_data);
    if (callback == nullptr) return;
    try {
        callback(level, (line + '\n').c_str(), user_data);
    } catch (...) {
    }
}

/// Tells the program about a failure: its log, and heddle_last_error() where there is one.
inline void report(const Error& error) noexcept {
    if (&heddle_report_error != nullptr) return heddle_report_error(error.message.c_str());
    log(GGML_LOG_LEVEL_ERROR, error.message);
}

/// What a function with a status says about a failure.
inline ggml_status status_of(const Error& error) noexcept {
    switch (error.code) {
        case Errc::out_of_memory:
            return GGML_STATUS_ALLOC_FAILED;
        case Errc::aborted:
            return GGML_STATUS_ABORTED;
        default:
            return GGML_STATUS_FAILED;
    }
}

/// `Result<T>` gives T; any other type gives itself.
template <class T>
struct Unwrap {
    using type = T;
};
template <class T>
struct Unwrap<Result<T>> {
    using type = T;
};
template <class T>
using Unwrapped = typename Unwrap<std::remove_cvref_t<T>>::type;

/// Runs `body`, which may return nothing, a value or a Result, and gives a Result. Nothing is
/// thrown.
template <class Body>
auto attempt(Body&& body) noexcept {
    using Returned = std::invoke_result_t<Body>;
    if constexpr (std::is_void_v<Returned>) {
        return attempt([&]() -> Result<> {
            body();
            return ok();
        });
    } else {
        using Outcome = Result<Unwrapped<Returned>>;
        try {
            return Outcome(body());
        } catch (...) {
            return Outcome(current_exception_as_error());
        }
    }
}

/// Reports `error` with the words of `where`, a function that gives a text, in front.
template <class Where>
void report_within(Error error, const Where& where) noexcept {
    try {
        report(std::move(error).within(where()));
    } catch (...) {
        report(error);
    }
}

/// Runs `body`; reports its failure. `where` gives the beginning of the sentence.
template <class Where, class Body>
ggml_status attempt_status(const Where& where, Body&& body) noexcept {
    auto result = attempt(std::forward<Body>(body));
    if (result) return GGML_STATUS_SUCCESS;
    const ggml_status status = status_of(result.error());
    report_within(std::move(result).error(), where);
    return status;
}

/// Runs `body` and gives its value; reports a failure and gives `otherwise`.
template <class T, class Where, class Body>
T attempt_or(T otherwise, const Where& where, Body&& body) noexcept {
    auto result = attempt(std::forward<Body>(body));
    if (result) return *std::move(result);
    report_within(std::move(result).error(), where);
    return otherwise;
}

/// Asks a question that hardly ever fails; should it throw, reports that and gives `otherwise`.
template <class T, class Body>
T ask(T otherwise, Body&& body) noexcept {
    try {
        return body();
    } catch (...) {
        report(current_exception_as_error());
        return otherwise;
    }
}

/// A tensor for sentences: its name in quotes.
inline std::string quoted(const ggml_tensor& tensor) { return text('\'', tensor.name, '\''); }

/// Storage for one T that is never destroyed: what a plug-in hands out lives until the process
/// ends, whatever order static objects go in.
template <class T>
class Immortal {
public:
    template <class... Args>
    T& make(Args&&... args) {
        return *::new (static_cast<void*>(bytes_)) T(std::forward<Args>(args)...);
    }

private:
    alignas(T) std::byte bytes_[sizeof(T)];
};

}  // namespace heddle::plugin
