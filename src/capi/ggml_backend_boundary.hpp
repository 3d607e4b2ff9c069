#pragma once

#include <string>
#include <utility>

#include "capi/boundary.hpp"
#include "core/last_error.hpp"
#include "heddle/heddle.h"
#include "runtime/status.hpp"

/// What the functions of `ggml-backend.h` have in common: most of them can say that they failed.
namespace heddle::capi {

/// Reports `error`, which a backend may just have told the reason of; it may have it already.
inline void report_with_reason(const Error& error, bool was_told) noexcept {
    auto sentence = guarded([&]() -> Result<std::string> {
        if (!was_told || error.message.ends_with(last_sentence())) return error.message;
        return error.message + ": " + last_sentence();
    });
    if (!sentence) return report(error);
    report({error.code, *std::move(sentence)});
}

/// The value of `body`'s Result; on failure `report`s and gives `otherwise`.
template <class Body, class T>
T value_or_report(Body&& body, T otherwise) noexcept {
    const Listener listener;
    auto result = guarded(std::forward<Body>(body));
    if (result) return to_c(*std::move(result));
    report_with_reason(result.error(), listener.heard());
    return otherwise;
}

/// What `body` makes; on failure `report`s and gives null, which is how the function says so.
template <class Body>
auto made_or_null(Body&& body) noexcept {
    using Pointer = decltype(to_c(*body()));
    return value_or_report(std::forward<Body>(body), Pointer{});
}

/// The answer of `body`; on failure `report`s and says no.
template <class Body>
bool value_or_false(Body&& body) noexcept {
    return value_or_report(std::forward<Body>(body), false);
}

/// The status of `body`; failures are reported.
template <class Body>
Status status_of(Body&& body) noexcept {
    auto result = guarded(std::forward<Body>(body));
    if (result) return GGML_STATUS_SUCCESS;
    report(result.error());
    return to_status(result.error());
}

/// The same for a body that runs a graph: a backend that has told its own reason knows better than
/// the status it returned, so its sentence stays.
template <class Body>
Status computed(Body&& body) noexcept {
    const Listener listener;
    auto result = guarded(std::forward<Body>(body));
    if (result) return GGML_STATUS_SUCCESS;
    if (!listener.heard()) report(result.error());
    return to_status(result.error());
}

/// For functions without a result that hand something to a backend. What the backend itself could
/// not do is no mistake of the caller: its sentence stays and the program goes on.
template <class Body>
bool handed_over(Body&& body) noexcept {
    const Listener listener;
    auto result = guarded(std::forward<Body>(body));
    if (!result && !listener.heard()) fail(result.error());
    return result.has_value();
}

}  // namespace heddle::capi
