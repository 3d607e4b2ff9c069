#include "jinja/value.hpp"

#include <algorithm>

namespace heddle::tool::jinja {
namespace {

/// Comparing, printing and destroying go down into values.
constexpr std::size_t kMostHeight = 100;

/// How high what holds `value` is at least.
Result<std::size_t> height_above(const Value& value) {
    // They may hold values themselves.
    if (value.space() != nullptr || value.function() != nullptr) {
        return invalid(value.kind(), " cannot be put into another value");
    }
    std::size_t height = 0;
    if (const Sequence* const sequence = value.sequence()) height = sequence->height;
    if (const Dictionary* const dictionary = value.dictionary()) height = dictionary->height;
    if (height < kMostHeight) return height + 1;
    return invalid("lists and dictionaries are more than ", kMostHeight, " deep in each other");
}

}  // namespace

Result<Value> Value::list(std::vector<Value> items, bool is_tuple) {
    Sequence made{{}, is_tuple};
    for (const Value& item : items) {
        HEDDLE_TRY_ASSIGN(const std::size_t height, height_above(item));
        made.height = std::max(made.height, height);
    }
    made.items = std::move(items);
    return Value(std::make_shared<const Sequence>(std::move(made)));
}

Result<Value> Value::dictionary(std::vector<std::pair<Value, Value>> entries) {
    Dictionary made;
    for (const auto& [key, value] : entries) {
        HEDDLE_TRY_ASSIGN(const std::size_t below_key, height_above(key));
        HEDDLE_TRY_ASSIGN(const std::size_t below_value, height_above(value));
        made.height = std::max({made.height, below_key, below_value});
    }
    made.entries = std::move(entries);
    return Value(std::make_shared<const Dictionary>(std::move(made)));
}

std::int64_t Value::whole() const {
    if (const bool* const truth = as<bool>()) return *truth ? 1 : 0;
    return *as<std::int64_t>();
}

double Value::real() const {
    if (const double* const number = as<double>()) return *number;
    return static_cast<double>(whole());
}

std::string Value::kind() const {
    if (const Undefined* const undefined = as<Undefined>()) return undefined->what + " (undefined)";
    if (is<None>()) return "none";
    if (is<bool>()) return "a truth value";
    if (is_number()) return "a number";
    if (text() != nullptr) return "a text";
    if (sequence() != nullptr) return sequence()->is_tuple ? "a tuple" : "a list";
    if (dictionary() != nullptr) return "a dictionary";
    return space() != nullptr ? "a namespace" : "a function";
}

}  // namespace heddle::tool::jinja
