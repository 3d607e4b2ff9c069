/// Failures as values: `Error` and `Result`, for everything in Heddle's C++ API.
#pragma once

#include <cassert>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace heddle {

/// What kind of failure it was, for programs. The sentence in `Error` is for people.
enum class Errc {
    invalid_argument,  ///< the caller asked for something that cannot be
    out_of_memory,     ///< an arena, a buffer or the system had no room
    unsupported,       ///< understood, but nobody here can do it
    not_found,         ///< no such file, device, key, tensor
    corrupt,           ///< data from outside contradicts itself
    io,                ///< the operating system refused to read or write
    aborted,           ///< a callback asked to stop
    device,            ///< a driver or a device failed
};

/// A failure: a code for programs, a sentence for people.
struct Error {
    Errc code = Errc::invalid_argument;
    std::string message;

    /// The same failure, told from one level further out: "model.gguf: key 3: ...".
    Error within(std::string_view where) && {
        message.insert(0, ": ").insert(0, where);
        return std::move(*this);
    }
};

/// The parts one after the other as text. Only failures and names are put together with it.
template <class... Parts>
[[gnu::cold, gnu::noinline]] std::string text(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return std::move(out).str();
}

/// A failure of kind `code` whose sentence is made of `parts`.
template <class... Parts>
[[gnu::cold]] Error failure(Errc code, const Parts&... parts) {
    return {code, text(parts...)};
}

/// The commonest failure: the caller's values do not fit together.
template <class... Parts>
[[gnu::cold]] Error invalid(const Parts&... parts) {
    return {Errc::invalid_argument, text(parts...)};
}

/// A T, or the reason there is none. Same shape as C++23's std::expected<T, Error>.
template <class T = std::monostate>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool has_value() const { return state_.index() == 0; }
    explicit operator bool() const { return has_value(); }

    T& operator*() & { return value(); }
    const T& operator*() const& { return const_cast<Result*>(this)->value(); }
    T operator*() && { return std::move(value()); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &const_cast<Result*>(this)->value(); }

    const Error& error() const& {
        assert(!has_value() && "asked a success for its error");
        return *std::get_if<1>(&state_);
    }
    Error error() && {
        assert(!has_value() && "asked a success for its error");
        return std::move(*std::get_if<1>(&state_));
    }

    /// The value, or `fallback` where there is none.
    T value_or(T fallback) && { return has_value() ? std::move(value()) : std::move(fallback); }

private:
    T& value() {
        assert(has_value() && "a Result was used before it was checked");
        return *std::get_if<0>(&state_);
    }

    std::variant<T, Error> state_;
};

/// Success of something that returns nothing else.
inline Result<> ok() { return std::monostate{}; }

}  // namespace heddle

/// Leaves the function with the error of `expression`, if it failed.
#define HEDDLE_TRY(expression)                               \
    do {                                                     \
        if (auto heddle_tried = (expression); !heddle_tried) \
            return std::move(heddle_tried).error();          \
    } while (false)

/// Leaves the function with the error of `expression`; otherwise initialises `declaration` with its
/// value.
#define HEDDLE_TRY_ASSIGN(declaration, expression) \
    HEDDLE_TRY_ASSIGN_NAMED(HEDDLE_PASTE(heddle_result_, __LINE__), declaration, expression)
#define HEDDLE_TRY_ASSIGN_NAMED(result, declaration, expression) \
    auto result = (expression);                                  \
    if (!result) return std::move(result).error();               \
    declaration = *std::move(result)
#define HEDDLE_PASTE(a, b) HEDDLE_PASTE_NOW(a, b)
#define HEDDLE_PASTE_NOW(a, b) a##b
