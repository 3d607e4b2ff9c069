#pragma once

#include <span>
#include <string>
#include <string_view>

#include "jinja/operations.hpp"

/// Filters, tests, methods and functions that templates find.
namespace heddle::tool::jinja {

/// The arguments of a call, in the order of the parameters; undefined where there is none.
struct Call {
    const Value& self;  ///< what it is applied to; undefined for functions
    std::vector<Value> values;
    std::vector<Value> rest;  ///< more than have names, where that is allowed

    const Value& operator[](std::size_t i) const { return values[i]; }
};

struct Builtin {
    std::string_view name;
    /// Names of parameters. One with '?' may be left out, '*' stands for any number.
    std::string_view parameters;
    Result<Value> (*body)(State& state, const Call& call);
};

/// Finds which argument is which; fails for too many, too few and unknown ones.
Result<Value> run(State& state, const Builtin& builtin, const Value& self, Arguments arguments);

/// None if there is none of that name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
Value find_method(const Value& of, const std::string& name);

/// Functions that every template knows.
void add_functions(State& state);

/// Lists of filters: of texts and numbers, and of lists.
std::span<const Builtin> plain_filters();
std::span<const Builtin> list_filters();

/// Methods by what they belong to.
std::span<const Builtin> text_methods();
std::span<const Builtin> list_methods();
std::span<const Builtin> dictionary_methods();

// What builtins have in common.

Result<const Text*> need_text(const Value& value, std::string_view who);
/// Of the filter `format`.
Result<Value> format_text(State& state, const Call& call);
Result<std::int64_t> need_whole(const Value& value, std::string_view who);
Result<Value> replace_all(State& state, const Text& text, const Text& from, const Text& to,
                          std::size_t most);

}  // namespace heddle::tool::jinja
