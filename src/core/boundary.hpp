#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>

#include "core/error.hpp"
#include "heddle/exception.hpp"

/// The boundary between C callers and the library. Everything `extern "C"` goes through here, in
/// `ggml-base`, in backends and in the registry: failures become what a C function can say, and no
/// exception crosses.
namespace heddle::capi {

// The last error and the error mode are state of the process, which is in `ggml-base` alone:
// `capi/failure.cpp` defines these functions there. For other libraries `boundary_outside.cpp`
// defines those that take an Error, over the C API.

/// Keeps the sentence for heddle_last_error() and logs it. For functions that can say that they
/// failed.
void report(const Error& error) noexcept;
void report(std::string_view sentence) noexcept;  ///< the same for a failure told by a plug-in

/// For functions that have no way to say so: keeps the sentence, and stops the program through the
/// abort callback unless heddle_set_error_mode() asked to return instead.
void fail(const Error& error) noexcept;
void fail(std::string_view sentence) noexcept;

/// Runs `body`, which gives a Result; an exception becomes one too, whatever a callback throws.
template <class Body>
auto guarded(Body&& body) noexcept -> std::invoke_result_t<Body> {
    try {
        return body();
    } catch (...) {
        return current_exception_as_error();
    }
}

/// `value` as a C caller gets it. An owner lets go: what it owned is the C caller's to free.
template <class T>
T to_c(T value) noexcept {
    return value;
}
template <class T, class Free>
auto to_c(std::unique_ptr<T, Free> owner) noexcept {
    return owner.release();
}

/// The value of `body`'s Result; on failure `fail`s and gives `otherwise`.
template <class Body, class T>
T value_or_fail(Body&& body, T otherwise) noexcept {
    auto result = guarded(std::forward<Body>(body));
    if (result) return to_c(*std::move(result));
    fail(result.error());
    return otherwise;
}

/// The tensor (or graph, context, ...) that `body` makes; on failure `fail`s and gives null.
template <class Body>
auto made(Body&& body) noexcept {
    using Pointer = decltype(to_c(*body()));
    return value_or_fail(std::forward<Body>(body), Pointer{});
}

/// For functions without a result: runs `body`, `fail`s if it fails.
template <class Body>
void done(Body&& body) noexcept {
    if (auto result = guarded(std::forward<Body>(body)); !result) fail(result.error());
}

/// Fails unless `pointer` is one: the first line of defence against a C caller's NULL.
inline Result<> require(const void* pointer, std::string_view function, std::string_view what) {
    if (pointer == nullptr) return invalid(function, ": ", what, " is NULL");
    return ok();
}

/// `fail`s because `what` is NULL.
[[gnu::cold, gnu::noinline]] inline void fail_null(std::string_view function,
                                                   std::string_view what) noexcept {
    done([&] { return require(nullptr, function, what); });
}

/// Whether `pointer` is NULL; `fail`s then. For accessors, which are called so often that they can
/// afford no more than the comparison.
inline bool is_null(const void* pointer, std::string_view function,
                    std::string_view what) noexcept {
    if (pointer != nullptr) [[likely]]
        return false;
    fail_null(function, what);
    return true;
}

/// What `get`, which cannot fail, finds in `object`; nothing, after `fail`ing, if that is NULL. Not
/// noexcept: that would keep the compiler from leaving by a jump to `get`.
template <class Object, class Get>
auto peek(Object* object, std::string_view function, std::string_view what, Get get) {
    using Value = std::remove_cvref_t<decltype(get(*object))>;
    if (is_null(object, function, what)) return Value{};
    return Value(get(*object));
}

/// Whether `count` elements can be read at `from` and written at `to`, as far as can be seen from
/// the addresses; `fail`s if not.
inline bool are_rows(const void* from, const void* to, std::int64_t count,
                     std::string_view function) noexcept {
    if (count <= 0) return false;
    return !is_null(from, function, "the source") && !is_null(to, function, "the destination");
}

}  // namespace heddle::capi
