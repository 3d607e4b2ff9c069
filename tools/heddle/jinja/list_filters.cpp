#include <algorithm>
#include <cmath>

#include "jinja/builtins.hpp"

/// Filters of lists and dictionaries.
namespace heddle::tool::jinja {
namespace {

using Items = std::vector<Value>;

/// `a.b.0` of a value.
Result<Value> along(State& state, const Value& value, std::string_view path) {
    Value found = value;
    while (true) {
        const std::size_t end = std::min(path.find('.'), path.size());
        const std::string_view step = path.substr(0, end);
        const bool is_number =
            !step.empty() && step.size() < 10 &&
            std::ranges::all_of(step, [](char c) { return c >= '0' && c <= '9'; });
        const Value key = is_number ? Value(std::int64_t{std::stoi(std::string(step))})
                                    : own_text(std::string(step));
        HEDDLE_TRY_ASSIGN(found, item(state, found, key));
        if (end == path.size()) return found;
        path.remove_prefix(end + 1);
    }
}

/// What `sort`, `join` and their like look at: an attribute, or the item itself.
Result<Value> looked_at(State& state, const Value& value, const Value& attribute) {
    if (attribute.is_undefined() || attribute.is<None>()) return value;
    if (attribute.is_whole()) return item(state, value, attribute);
    HEDDLE_TRY_ASSIGN(const Text* const path, need_text(attribute, "attribute"));
    return along(state, value, path->view());
}

Result<Value> join_items(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Items items, items_of(state, call.self));
    Text between;
    if (!call[0].is_undefined()) {
        HEDDLE_TRY_ASSIGN(between, to_text(state, call[0]));
    }
    Text made;
    for (std::size_t i = 0; i < items.size(); ++i) {
        HEDDLE_TRY_ASSIGN(const Value value, looked_at(state, items[i], call[1]));
        HEDDLE_TRY_ASSIGN(const Text text, to_text(state, value));
        if (i > 0) made.append(between);
        HEDDLE_TRY(state.check_text(made.size() + text.size()));
        HEDDLE_TRY(state.spend_text(between.size() + text.size()));
        made.append(text);
    }
    return Value(std::move(made));
}

Result<Value> first(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Items items, items_of(state, call.self));
    return items.empty() ? Value(Undefined{"the first item of nothing"}) : items.front();
}

Result<Value> last(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Items items, items_of(state, call.self));
    return items.empty() ? Value(Undefined{"the last item of nothing"}) : items.back();
}

Result<Value> list(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(Items items, items_of(state, call.self));
    return Value::list(std::move(items));
}

Result<Value> reverse(State& state, const Call& call) {
    if (call.self.text() != nullptr) {
        return slice(state, call.self, Value(), Value(), Value(std::int64_t{-1}));
    }
    HEDDLE_TRY_ASSIGN(Items items, items_of(state, call.self));
    std::ranges::reverse(items);
    return Value::list(std::move(items));
}

Result<Value> without_case(State& state, const Value& key, const Value& with_case) {
    const Text* const text = key.text();
    if (text == nullptr || is_true(with_case)) return key;
    return find_filter("lower")->body(state, {key, {}, {}});
}

Result<Value> unique(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Items items, items_of(state, call.self));
    Items kept, keys;
    for (const Value& value : items) {
        HEDDLE_TRY_ASSIGN(const Value seen, looked_at(state, value, call[1]));
        HEDDLE_TRY_ASSIGN(Value key, without_case(state, seen, call[0]));
        bool is_known = false;
        for (std::size_t i = 0; i < keys.size() && !is_known; ++i) {
            HEDDLE_TRY_ASSIGN(is_known, equal(state, keys[i], key));
        }
        if (is_known) continue;
        keys.push_back(std::move(key));
        kept.push_back(value);
    }
    return Value::list(std::move(kept));
}

Result<Value> pairs(State&, const Call& call) {
    if (call.self.is_undefined()) return Value::list({});
    const Dictionary* const dictionary = call.self.dictionary();
    if (dictionary == nullptr) return invalid("items needs a dictionary, not ", call.self.kind());
    Items items;
    for (const auto& [key, value] : dictionary->entries) {
        HEDDLE_TRY_ASSIGN(Value pair, Value::list({key, value}, true));
        items.push_back(std::move(pair));
    }
    return Value::list(std::move(items));
}

/// Sorts `items` by `keys`, which must be comparable: all numbers or all texts.
Result<Items> sorted(State& state, Items items, const Items& keys, bool descending) {
    for (const Value& key : keys) {
        // Each is compared with some others.
        HEDDLE_TRY(state.spend(16));
        if (key.text() != nullptr) HEDDLE_TRY(state.spend(key.text()->size()));
        if (key.is<double>() && std::isnan(key.real())) return invalid("sort: not a number");
        HEDDLE_TRY(less(keys.front(), key));
    }
    std::vector<std::size_t> order(items.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return *less(keys[descending ? b : a], keys[descending ? a : b]);
    });
    Items made;
    for (const std::size_t at : order) made.push_back(std::move(items[at]));
    return made;
}

Result<Value> sort(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(Items items, items_of(state, call.self));
    Items keys;
    for (const Value& value : items) {
        HEDDLE_TRY_ASSIGN(const Value key, looked_at(state, value, call[2]));
        HEDDLE_TRY_ASSIGN(Value lowered, without_case(state, key, call[1]));
        keys.push_back(std::move(lowered));
    }
    HEDDLE_TRY_ASSIGN(Items made, sorted(state, std::move(items), keys, is_true(call[0])));
    return Value::list(std::move(made));
}

Result<Value> sort_entries(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Value all, pairs(state, call));
    const bool by_value = call[1].text() != nullptr && call[1].text()->view() == "value";
    Items items = all.sequence()->items, keys;
    for (const Value& pair : items) {
        const Value& key = pair.sequence()->items[by_value ? 1 : 0];
        HEDDLE_TRY_ASSIGN(Value lowered, without_case(state, key, call[0]));
        keys.push_back(std::move(lowered));
    }
    HEDDLE_TRY_ASSIGN(Items made, sorted(state, std::move(items), keys, is_true(call[2])));
    return Value::list(std::move(made));
}

Result<Value> sum(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Items items, items_of(state, call.self));
    Value total = call[1].is_undefined() ? Value(std::int64_t{0}) : call[1];
    for (const Value& value : items) {
        HEDDLE_TRY_ASSIGN(const Value part, looked_at(state, value, call[0]));
        HEDDLE_TRY_ASSIGN(total, compute(state, Arithmetic::add, total, part));
    }
    return total;
}

Result<Value> extreme(State& state, const Call& call, bool largest) {
    HEDDLE_TRY_ASSIGN(const Items items, items_of(state, call.self));
    if (items.empty()) return Value(Undefined{"the extreme of nothing"});
    const Value* found = &items.front();
    for (const Value& value : items) {
        HEDDLE_TRY_ASSIGN(const bool is_less, largest ? less(*found, value) : less(value, *found));
        if (is_less) found = &value;
    }
    return *found;
}

Result<Value> min(State& state, const Call& call) { return extreme(state, call, false); }
Result<Value> max(State& state, const Call& call) { return extreme(state, call, true); }

Result<Value> map(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Items items, items_of(state, call.self));
    const Builtin* filter = nullptr;
    if (call[1].is_undefined()) {
        HEDDLE_TRY_ASSIGN(const Text* const name, need_text(call[0], "map"));
        filter = find_filter(name->view());
        if (filter == nullptr) return invalid("there is no filter '", name->bytes(), "'");
    }
    Items made;
    for (const Value& value : items) {
        HEDDLE_TRY_ASSIGN(Value mapped, filter == nullptr
                                            ? looked_at(state, value, call[1])
                                            : run(state, *filter, value, {call.rest, {}}));
        if (mapped.is_undefined() && !call[2].is_undefined()) mapped = call[2];
        made.push_back(std::move(mapped));
    }
    return Value::list(std::move(made));
}

/// Keeps the items that pass a test, or those that do not.
Result<Value> choose(State& state, const Call& call, bool wanted, bool by_attribute) {
    HEDDLE_TRY_ASSIGN(const Items items, items_of(state, call.self));
    const Value& named = call[by_attribute ? 1 : 0];
    const Builtin* test = nullptr;
    if (!named.is_undefined()) {
        HEDDLE_TRY_ASSIGN(const Text* const name, need_text(named, "select"));
        test = find_test(name->view());
        if (test == nullptr) return invalid("there is no test '", name->bytes(), "'");
    }
    Items kept;
    for (const Value& value : items) {
        Value tested = value;
        if (by_attribute) {
            HEDDLE_TRY_ASSIGN(tested, looked_at(state, value, call[0]));
        }
        Value passed = tested;
        if (test != nullptr) {
            HEDDLE_TRY_ASSIGN(passed, run(state, *test, tested, {call.rest, {}}));
        }
        if (is_true(passed) == wanted) kept.push_back(value);
    }
    return Value::list(std::move(kept));
}

Result<Value> select(State& s, const Call& call) { return choose(s, call, true, false); }
Result<Value> reject(State& s, const Call& call) { return choose(s, call, false, false); }
Result<Value> selectattr(State& s, const Call& call) { return choose(s, call, true, true); }
Result<Value> rejectattr(State& s, const Call& call) { return choose(s, call, false, true); }

constexpr Builtin kFilters[] = {
    {"join", "d? attribute?", join_items},
    {"first", "", first},
    {"last", "", last},
    {"list", "", list},
    {"reverse", "", reverse},
    {"unique", "case_sensitive? attribute?", unique},
    {"items", "", pairs},
    {"sort", "reverse? case_sensitive? attribute?", sort},
    {"dictsort", "case_sensitive? by? reverse?", sort_entries},
    {"sum", "attribute? start?", sum},
    {"min", "", min},
    {"max", "", max},
    {"map", "filter? * attribute? default?", map},
    {"select", "test? *", select},
    {"reject", "test? *", reject},
    {"selectattr", "attribute test? *", selectattr},
    {"rejectattr", "attribute test? *", rejectattr},
};

}  // namespace

std::span<const Builtin> list_filters() { return kFilters; }

}  // namespace heddle::tool::jinja
