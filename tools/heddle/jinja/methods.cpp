#include <algorithm>
#include <limits>
#include <utility>

#include "jinja/builtins.hpp"

/// Methods of texts, lists and dictionaries, as Python has them.
namespace heddle::tool::jinja {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

/// The same as a filter of that name.
template <const char* const& Name>
Result<Value> by_filter(State& state, const Call& call) {
    return find_filter(Name)->body(state, call);
}

Result<Value> strip(const Call& call, Ends ends) {
    const Text& text = *call.self.text();
    if (call[0].is_undefined() || call[0].is<None>()) return Value(trimmed(text, {}, ends));
    HEDDLE_TRY_ASSIGN(const Text* const which, need_text(call[0], "strip"));
    return Value(which->empty() ? text : trimmed(text, which->view(), ends));
}

Result<Value> strip_both(State&, const Call& call) { return strip(call, Ends::both); }
Result<Value> strip_left(State&, const Call& call) { return strip(call, Ends::left); }
Result<Value> strip_right(State&, const Call& call) { return strip(call, Ends::right); }

/// Whether a text begins or ends with another one, or one of several.
Result<Value> has_end(const Call& call, bool begin) {
    const std::string_view text = call.self.text()->view();
    std::vector<Value> ends{call[0]};
    if (const Sequence* const list = call[0].sequence()) ends = list->items;
    for (const Value& end : ends) {
        HEDDLE_TRY_ASSIGN(const Text* const wanted, need_text(end, "startswith and endswith"));
        if (begin ? text.starts_with(wanted->view()) : text.ends_with(wanted->view())) {
            return Value(true);
        }
    }
    return Value(false);
}

Result<Value> starts_with(State&, const Call& call) { return has_end(call, true); }
Result<Value> ends_with(State&, const Call& call) { return has_end(call, false); }

Result<Value> without_end(const Call& call, bool begin) {
    const Text& text = *call.self.text();
    HEDDLE_TRY_ASSIGN(const Text* const end, need_text(call[0], "removeprefix and removesuffix"));
    if (begin) {
        return Value(text.view().starts_with(end->view()) ? text.part(end->size()) : text);
    }
    return Value(text.view().ends_with(end->view()) ? text.part(0, text.size() - end->size())
                                                    : text);
}

Result<Value> without_prefix(State&, const Call& call) { return without_end(call, true); }
Result<Value> without_suffix(State&, const Call& call) { return without_end(call, false); }

Result<std::size_t> most_splits(const Value& value) {
    if (value.is_undefined()) return kAll;
    HEDDLE_TRY_ASSIGN(const std::int64_t most, need_whole(value, "split"));
    return most < 0 ? kAll : static_cast<std::size_t>(most);
}

/// Words between white space.
std::vector<Value> words_of(const Text& text, std::size_t most) {
    std::vector<Value> words;
    std::size_t at = text.view().find_first_not_of(kWhiteSpace);
    while (at != std::string::npos) {
        std::size_t end = text.view().find_first_of(kWhiteSpace, at);
        if (words.size() == most) end = text.view().find_last_not_of(kWhiteSpace) + 1;
        words.emplace_back(text.part(at, end == std::string::npos ? end : end - at));
        if (end == std::string::npos || words.size() > most) break;
        at = text.view().find_first_not_of(kWhiteSpace, end);
    }
    return words;
}

Result<Value> split(State& state, const Call& call) {
    const Text& text = *call.self.text();
    HEDDLE_TRY_ASSIGN(const std::size_t most, most_splits(call[1]));
    HEDDLE_TRY(state.spend(text.size()));
    if (call[0].is_undefined() || call[0].is<None>()) return Value::list(words_of(text, most));
    HEDDLE_TRY_ASSIGN(const Text* const mark, need_text(call[0], "split"));
    if (mark->empty()) return invalid("split: the separator is empty");
    HEDDLE_TRY(state.spend_search(text.size(), mark->size()));
    std::vector<Value> parts;
    std::size_t at = 0;
    while (parts.size() < most) {
        const std::size_t end = text.view().find(mark->view(), at);
        if (end == std::string::npos) break;
        parts.emplace_back(text.part(at, end - at));
        at = end + mark->size();
    }
    parts.emplace_back(text.part(at));
    return Value::list(std::move(parts));
}

Result<Value> split_right(State& state, const Call& call) {
    const Text& text = *call.self.text();
    HEDDLE_TRY_ASSIGN(const std::size_t most, most_splits(call[1]));
    HEDDLE_TRY_ASSIGN(const Text* const mark, need_text(call[0], "rsplit"));
    if (mark->empty()) return invalid("rsplit: the separator is empty");
    HEDDLE_TRY(state.spend(text.size()));
    HEDDLE_TRY(state.spend_search(text.size(), mark->size()));
    std::vector<Value> parts;
    std::size_t end = text.size();
    while (parts.size() < most && end >= mark->size()) {
        const std::size_t at = text.view().rfind(mark->view(), end - mark->size());
        if (at == std::string::npos) break;
        parts.emplace_back(text.part(at + mark->size(), end - at - mark->size()));
        end = at;
    }
    parts.emplace_back(text.part(0, end));
    std::ranges::reverse(parts);
    return Value::list(std::move(parts));
}

Result<Value> lines(State& state, const Call& call) {
    const Text& text = *call.self.text();
    HEDDLE_TRY(state.spend(text.size()));
    std::vector<Value> parts;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.view().find('\n', at), text.size());
        const bool keeps = is_true(call[0]) && end < text.size();
        parts.emplace_back(text.part(at, end - at + (keeps ? 1 : 0)));
        at = end + 1;
    }
    return Value::list(std::move(parts));
}

/// Characters before a byte.
std::int64_t characters(std::string_view text) {
    return static_cast<std::int64_t>(character_starts(text).size()) - 1;
}

Result<Value> find(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text* const wanted, need_text(call[0], "find"));
    const std::string_view text = call.self.text()->view();
    HEDDLE_TRY(state.spend_search(text.size(), wanted->size()));
    const std::size_t at = text.find(wanted->view());
    return Value(at == std::string::npos ? std::int64_t{-1} : characters(text.substr(0, at)));
}

Result<Value> find_last(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text* const wanted, need_text(call[0], "rfind"));
    const std::string_view text = call.self.text()->view();
    HEDDLE_TRY(state.spend_search(text.size(), wanted->size()));
    const std::size_t at = text.rfind(wanted->view());
    return Value(at == std::string::npos ? std::int64_t{-1} : characters(text.substr(0, at)));
}

Result<Value> count_parts(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text* const wanted, need_text(call[0], "count"));
    const std::string_view text = call.self.text()->view();
    HEDDLE_TRY(state.spend_search(text.size(), wanted->size()));
    if (wanted->empty()) return Value(characters(text) + 1);
    std::int64_t found = 0;
    for (std::size_t at = 0; (at = text.find(wanted->view(), at)) != std::string::npos; ++found) {
        at += wanted->size();
    }
    return Value(found);
}

Result<Value> replace(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text* const from, need_text(call[0], "replace"));
    HEDDLE_TRY_ASSIGN(const Text* const to, need_text(call[1], "replace"));
    HEDDLE_TRY_ASSIGN(const std::size_t most, most_splits(call[2]));
    return replace_all(state, *call.self.text(), *from, *to, most);
}

template <bool (*Holds)(char)>
Result<Value> all_are(State&, const Call& call) {
    const std::string_view text = call.self.text()->view();
    return Value(!text.empty() && std::ranges::all_of(text, Holds));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return kWhiteSpace.find(c) != std::string::npos; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_letter_or_digit(char c) { return is_digit(c) || is_letter(c); }

/// Words are letters one after the other.
Result<Value> title(State&, const Call& call) {
    bool is_inside = false;
    return Value(call.self.text()->changed([&](char c) {
        const bool is_of_word = is_letter(c) || static_cast<unsigned char>(c) > 127;
        const bool was_inside = std::exchange(is_inside, is_of_word);
        if (!is_letter(c)) return c;
        return static_cast<char>(was_inside ? c | 0x20 : c & ~0x20);
    }));
}

Result<Value> join_list(State& state, const Call& call) {
    return run(state, *find_filter("join"), call[0], {{call.self}, {}});
}

Result<Value> index_of(State& state, const Call& call) {
    const auto& items = call.self.sequence()->items;
    for (std::size_t i = 0; i < items.size(); ++i) {
        HEDDLE_TRY_ASSIGN(const bool same, equal(state, items[i], call[0]));
        if (same) return Value(static_cast<std::int64_t>(i));
    }
    return invalid("index: the list has no such item");
}

Result<Value> count_items(State& state, const Call& call) {
    std::int64_t found = 0;
    for (const Value& item : call.self.sequence()->items) {
        HEDDLE_TRY_ASSIGN(const bool same, equal(state, item, call[0]));
        if (same) ++found;
    }
    return Value(found);
}

/// Values do not change, as in the sandbox that other programs render templates in.
Result<Value> refuse_change(State&, const Call& call) {
    return invalid(call.self.kind(), " cannot be changed in place");
}

Result<Value> get(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(Value found, entry(state, *call.self.dictionary(), call[0]));
    if (!found.is_undefined()) return found;
    return call[1].is_undefined() ? Value(None{}) : call[1];
}

Result<Value> entries(State& state, const Call& call) {
    return find_filter("items")->body(state, call);
}

Result<Value> keys(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(std::vector<Value> items, items_of(state, call.self));
    return Value::list(std::move(items));
}

Result<Value> values(State& state, const Call& call) {
    HEDDLE_TRY(state.spend(call.self.dictionary()->entries.size()));
    std::vector<Value> items;
    for (const auto& [key, value] : call.self.dictionary()->entries) items.push_back(value);
    return Value::list(std::move(items));
}

Result<Value> copy(State&, const Call& call) { return call.self; }

constexpr const char* kUpper = "upper";
constexpr const char* kLower = "lower";
constexpr const char* kCapitalize = "capitalize";

constexpr Builtin kTextMethods[] = {
    {"strip", "chars?", strip_both},
    {"lstrip", "chars?", strip_left},
    {"rstrip", "chars?", strip_right},
    {"startswith", "prefix", starts_with},
    {"endswith", "suffix", ends_with},
    {"removeprefix", "prefix", without_prefix},
    {"removesuffix", "suffix", without_suffix},
    {"split", "sep? maxsplit?", split},
    {"rsplit", "sep maxsplit?", split_right},
    {"splitlines", "keepends?", lines},
    {"find", "sub", find},
    {"rfind", "sub", find_last},
    {"count", "sub", count_parts},
    {"replace", "old new count?", replace},
    {"join", "items", join_list},
    {"upper", "", by_filter<kUpper>},
    {"lower", "", by_filter<kLower>},
    {"capitalize", "", by_filter<kCapitalize>},
    {"title", "", title},
    {"isdigit", "", all_are<is_digit>},
    {"isspace", "", all_are<is_space>},
    {"isalpha", "", all_are<is_letter>},
    {"isalnum", "", all_are<is_letter_or_digit>},
};

constexpr Builtin kListMethods[] = {
    {"index", "value", index_of},          {"count", "value", count_items},
    {"append", "value", refuse_change},    {"extend", "values", refuse_change},
    {"insert", "at value", refuse_change}, {"pop", "at?", refuse_change},
};

constexpr Builtin kDictionaryMethods[] = {
    {"get", "key default?", get},
    {"items", "", entries},
    {"keys", "", keys},
    {"values", "", values},
    {"copy", "", copy},
    {"update", "* more?", refuse_change},
    {"pop", "key default?", refuse_change},
    {"setdefault", "key default?", refuse_change},
};

}  // namespace

std::span<const Builtin> text_methods() { return kTextMethods; }
std::span<const Builtin> list_methods() { return kListMethods; }
std::span<const Builtin> dictionary_methods() { return kDictionaryMethods; }

}  // namespace heddle::tool::jinja
