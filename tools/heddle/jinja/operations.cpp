#include "jinja/operations.hpp"

#include <algorithm>
#include <cmath>

#include "jinja/builtins.hpp"

namespace heddle::tool::jinja {
namespace {

Error unlike(std::string_view verb, const Value& a, const Value& b) {
    return invalid(a.kind(), " and ", b.kind(), " cannot be ", verb);
}

Result<bool> equal_items(State& state, const std::vector<Value>& a, const std::vector<Value>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        HEDDLE_TRY_ASSIGN(const bool same, equal(state, a[i], b[i]));
        if (!same) return false;
    }
    return true;
}

Result<bool> equal_entries(State& state, const Dictionary& a, const Dictionary& b) {
    if (a.entries.size() != b.entries.size()) return false;
    for (const auto& [key, value] : a.entries) {
        HEDDLE_TRY_ASSIGN(const Value other, entry(state, b, key));
        HEDDLE_TRY_ASSIGN(const bool same, equal(state, value, other));
        if (!same) return false;
    }
    return true;
}

/// Where an index lies; none if outside.
std::optional<std::size_t> place(std::int64_t index, std::size_t size) {
    const auto count = static_cast<std::int64_t>(size);
    if (index < 0) index += count;
    if (index < 0 || index >= count) return std::nullopt;
    return static_cast<std::size_t>(index);
}

Value nothing_at(const Value& key) {
    if (const Text* const name = key.text()) return Undefined{"'" + name->bytes() + "'"};
    return Undefined{"an item"};
}

/// The bounds of a slice, as Python finds them.
struct Range {
    std::int64_t begin, end, step;
};

Result<Range> range_of(const Value& begin, const Value& end, const Value& step,
                       std::size_t length) {
    const auto size = static_cast<std::int64_t>(length);
    const auto number = [](const Value& value, std::int64_t otherwise) -> Result<std::int64_t> {
        if (value.is_undefined() || value.is<None>()) return otherwise;
        if (value.is_whole()) return value.whole();
        return invalid("the bound of a slice is ", value.kind());
    };
    HEDDLE_TRY_ASSIGN(const std::int64_t by, number(step, 1));
    if (by == 0) return invalid("the step of a slice is 0");
    const std::int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? size : size - 1;
    const auto within = [&](std::int64_t at) {
        return std::clamp(at < 0 ? std::max(at, -size - 1) + size : at, lowest, highest);
    };
    HEDDLE_TRY_ASSIGN(std::int64_t first, number(begin, by > 0 ? 0 : size));
    HEDDLE_TRY_ASSIGN(std::int64_t last, number(end, by > 0 ? size : -size - 1));
    // More than the length at a time is one.
    return Range{within(first), within(last), std::clamp(by, -size - 1, size + 1)};
}

}  // namespace

bool is_true(const Value& value) {
    if (value.is_undefined() || value.is<None>()) return false;
    if (value.is_number()) return value.real() != 0;
    if (const Text* const text = value.text()) return !text->empty();
    if (const Sequence* const list = value.sequence()) return !list->items.empty();
    if (const Dictionary* const dictionary = value.dictionary()) {
        return !dictionary->entries.empty();
    }
    return true;
}

Result<bool> equal(State& state, const Value& a, const Value& b) {
    HEDDLE_TRY(state.spend(1));
    if (a.is_number() && b.is_number()) {
        if (a.is_whole() && b.is_whole()) return a.whole() == b.whole();
        return a.real() == b.real();
    }
    if (a.text() != nullptr && b.text() != nullptr) {
        if (a.text()->size() != b.text()->size()) return false;
        HEDDLE_TRY(state.spend_text(a.text()->size()));
        return a.text()->view() == b.text()->view();
    }
    if (a.sequence() != nullptr && b.sequence() != nullptr) {
        if (a.sequence()->is_tuple != b.sequence()->is_tuple) return false;
        return equal_items(state, a.sequence()->items, b.sequence()->items);
    }
    if (a.dictionary() != nullptr && b.dictionary() != nullptr) {
        return equal_entries(state, *a.dictionary(), *b.dictionary());
    }
    if (a.space() != nullptr) return a.space() == b.space();
    if (a.function() != nullptr) return a.function() == b.function();
    return (a.is_undefined() && b.is_undefined()) || (a.is<None>() && b.is<None>());
}

Result<bool> less(const Value& a, const Value& b) {
    if (a.is_number() && b.is_number()) {
        if (a.is_whole() && b.is_whole()) return a.whole() < b.whole();
        return a.real() < b.real();
    }
    if (a.text() != nullptr && b.text() != nullptr) return a.text()->view() < b.text()->view();
    return unlike("put in order", a, b);
}

Result<bool> contains(State& state, const Value& all, const Value& one) {
    if (const Text* const text = all.text()) {
        if (one.text() == nullptr) return invalid(one.kind(), " cannot be in a text");
        HEDDLE_TRY(state.spend_search(text->size(), one.text()->size()));
        return text->view().find(one.text()->view()) != std::string::npos;
    }
    HEDDLE_TRY_ASSIGN(const std::vector<Value> items, items_of(state, all));
    for (const Value& item : items) {
        HEDDLE_TRY_ASSIGN(const bool same, equal(state, item, one));
        if (same) return true;
    }
    return false;
}

Result<Value> join(State& state, const Value& a, const Value& b) {
    HEDDLE_TRY_ASSIGN(Text made, to_text(state, a));
    HEDDLE_TRY_ASSIGN(const Text more, to_text(state, b));
    HEDDLE_TRY(state.spend_text(made.size() + more.size()));
    made.append(more);
    return Value(std::move(made));
}

Result<std::size_t> length(const Value& value) {
    if (const Text* const text = value.text()) return character_starts(text->view()).size() - 1;
    if (const Sequence* const list = value.sequence()) return list->items.size();
    if (const Dictionary* const dictionary = value.dictionary()) return dictionary->entries.size();
    if (value.is_undefined()) return std::size_t{0};
    return invalid(value.kind(), " has no length");
}

Result<std::vector<Value>> items_of(State& state, const Value& value) {
    std::vector<Value> items;
    if (const Text* const text = value.text()) {
        HEDDLE_TRY(state.spend(text->size()));
        const auto starts = character_starts(text->view());
        for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
            items.emplace_back(text->part(starts[i], starts[i + 1] - starts[i]));
        }
    } else if (const Sequence* const list = value.sequence()) {
        HEDDLE_TRY(state.spend(list->items.size()));
        items = list->items;
    } else if (const Dictionary* const dictionary = value.dictionary()) {
        HEDDLE_TRY(state.spend(dictionary->entries.size()));
        for (const auto& [key, of_key] : dictionary->entries) items.push_back(key);
    } else if (!value.is_undefined()) {
        return invalid(value.kind(), " has no items");
    }
    return items;
}

Result<Value> entry(State& state, const Dictionary& dictionary, const Value& key) {
    for (const auto& [name, value] : dictionary.entries) {
        HEDDLE_TRY_ASSIGN(const bool same, equal(state, name, key));
        if (same) return value;
    }
    return nothing_at(key);
}

Result<Value> item(State& state, const Value& of, const Value& key) {
    if (of.is_undefined()) return invalid(of.as<Undefined>()->what, " is undefined");
    if (const Dictionary* const dictionary = of.dictionary()) {
        HEDDLE_TRY_ASSIGN(Value found, entry(state, *dictionary, key));
        if (!found.is_undefined()) return found;
    }
    if (key.text() != nullptr) return attribute(state, of, key.text()->bytes());
    if (!key.is_whole()) return nothing_at(key);
    if (const Sequence* const list = of.sequence()) {
        const auto at = place(key.whole(), list->items.size());
        return at ? list->items[*at] : nothing_at(key);
    }
    if (const Text* const text = of.text()) {
        HEDDLE_TRY(state.spend_text(text->size()));
        const auto starts = character_starts(text->view());
        const auto at = place(key.whole(), starts.size() - 1);
        if (!at) return nothing_at(key);
        return Value(text->part(starts[*at], starts[*at + 1] - starts[*at]));
    }
    return nothing_at(key);
}

Result<Value> attribute(State& state, const Value& of, const std::string& name) {
    if (of.is_undefined()) {
        return invalid(of.as<Undefined>()->what, " is undefined; it has no '", name, "'");
    }
    if (const Namespace* const space = of.space()) {
        for (const auto& [key, value] : space->entries) {
            if (key == name) return value;
        }
        return Value(Undefined{"'" + name + "'"});
    }
    if (const Value method = find_method(of, name); !method.is_undefined()) return method;
    if (const Dictionary* const dictionary = of.dictionary()) {
        return entry(state, *dictionary, own_text(name));
    }
    return Value(Undefined{"'" + name + "'"});
}

Result<Value> slice(State& state, const Value& of, const Value& begin, const Value& end,
                    const Value& step) {
    if (of.text() == nullptr && of.sequence() == nullptr) {
        return invalid(of.kind(), " has no slices");
    }
    std::vector<std::size_t> starts;
    if (const Text* const text = of.text()) starts = character_starts(text->view());
    const std::size_t size = of.text() != nullptr ? starts.size() - 1 : of.sequence()->items.size();
    HEDDLE_TRY(state.spend(size + 1));
    HEDDLE_TRY_ASSIGN(const Range range, range_of(begin, end, step, size));
    Text part;
    std::vector<Value> items;
    for (std::int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end;
         i += range.step) {
        const auto at = static_cast<std::size_t>(i);
        if (of.text() != nullptr) {
            part.append(of.text()->part(starts[at], starts[at + 1] - starts[at]));
        } else {
            items.push_back(of.sequence()->items[at]);
        }
    }
    if (of.text() != nullptr) return Value(std::move(part));
    return Value::list(std::move(items), of.sequence()->is_tuple);
}

Result<Value> call(State& state, const Value& function, Arguments arguments) {
    const Value::FunctionPtr callee = function.function();
    if (callee == nullptr) return invalid(function.kind(), " cannot be called");
    return callee->call(state, std::move(arguments));
}

}  // namespace heddle::tool::jinja
