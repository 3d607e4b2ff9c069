#pragma once

#include <string>
#include <utility>

#include "capi/boundary.hpp"
#include "heddle/heddle.h"
#include "runtime/status.hpp"

/// What the functions of `ggml-backend.h` have in common: most of them can say that they failed.
namespace heddle::capi {

/// Reports `error`, which a backend may just have told the reason of.
inline void report_with_reason(const Error& error, bool was_told) noexcept {
    auto sentence = guarded([&]() -> Result<std::string> {
        return was_told ? error.message + ": " + heddle_last_error() : error.message;
    });
    if (!sentence) return report(error);
    report({error.code, *std::move(sentence)});
}

/// The value of `body`'s Result; on failure `report`s and gives `otherwise`.
template <class Body, class T>
T value_or_report(Body&& body, T otherwise) noexcept {
    const std::uint64_t told = failures_told();
    auto result = guarded(std::forward<Body>(body));
    if (result) return *std::move(result);
    report_with_reason(result.error(), failures_told() != told);
    return otherwise;
}

/// What `body` makes; on failure `report`s and gives null, which is how the function says so.
template <class Body>
auto made_or_null(Body&& body) noexcept {
    using Pointer = std::remove_reference_t<decltype(*body())>;
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
    const std::uint64_t told = failures_told();
    auto result = guarded(std::forward<Body>(body));
    if (result) return GGML_STATUS_SUCCESS;
    if (failures_told() == told) report(result.error());
    return to_status(result.error());
}

}  // namespace heddle::capi
