#include <algorithm>

#include "jinja/builtins.hpp"

/// What can stand behind `is`.
namespace heddle::tool::jinja {
namespace {

template <bool (*Holds)(const Value&)>
Result<Value> when(State&, const Call& call) {
    return Value(Holds(call.self));
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_none(const Value& v) { return v.is<None>(); }
bool is_truth(const Value& v) { return v.is<bool>(); }
bool is_exactly_true(const Value& v) { return v.is<bool>() && *v.as<bool>(); }
bool is_exactly_false(const Value& v) { return v.is<bool>() && !*v.as<bool>(); }
bool is_integer(const Value& v) { return v.is<std::int64_t>(); }
bool is_float(const Value& v) { return v.is<double>(); }
bool is_any_number(const Value& v) { return v.is_number(); }
bool is_text(const Value& v) { return v.text() != nullptr; }
bool is_mapping(const Value& v) { return v.dictionary() != nullptr; }
bool is_callable(const Value& v) { return v.function() != nullptr; }
bool is_sequence(const Value& v) { return is_text(v) || is_mapping(v) || v.sequence() != nullptr; }
bool is_iterable(const Value& v) { return is_sequence(v) || v.is_undefined(); }

/// All letters of a text are of one case, and there are some.
bool is_of_case(const Value& v, char first, char last) {
    if (!is_text(v)) return false;
    const auto between = [](char c, char a, char b) { return c >= a && c <= b; };
    const auto other = first == 'a' ? 'A' : 'a';
    const std::string_view text = v.text()->view();
    return std::ranges::any_of(text, [&](char c) { return between(c, first, last); }) &&
           std::ranges::none_of(text, [&](char c) { return between(c, other, other + 25); });
}
bool is_lower(const Value& v) { return is_of_case(v, 'a', 'z'); }
bool is_upper(const Value& v) { return is_of_case(v, 'A', 'Z'); }

Result<Value> remainder_is(const Call& call, std::string_view who, std::int64_t by,
                           std::int64_t wanted) {
    HEDDLE_TRY_ASSIGN(const std::int64_t number, need_whole(call.self, who));
    if (by == 0) return invalid(who, ": a division by 0");
    return Value(by == -1 || (number % by + by) % by == wanted);
}

Result<Value> odd(State&, const Call& call) { return remainder_is(call, "odd", 2, 1); }
Result<Value> even(State&, const Call& call) { return remainder_is(call, "even", 2, 0); }
Result<Value> divisible(State&, const Call& call) {
    HEDDLE_TRY_ASSIGN(const std::int64_t by, need_whole(call[0], "divisibleby"));
    HEDDLE_TRY_ASSIGN(const std::int64_t number, need_whole(call.self, "divisibleby"));
    if (by == 0) return invalid("divisibleby: a division by 0");
    return Value(by == -1 || number % by == 0);
}

Result<Value> is_equal(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const bool same, equal(state, call.self, call[0]));
    return Value(same);
}
Result<Value> is_not_equal(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const bool same, equal(state, call.self, call[0]));
    return Value(!same);
}
Result<Value> is_less(State&, const Call& call) {
    HEDDLE_TRY_ASSIGN(const bool found, less(call.self, call[0]));
    return Value(found);
}
Result<Value> is_greater(State&, const Call& call) {
    HEDDLE_TRY_ASSIGN(const bool found, less(call[0], call.self));
    return Value(found);
}
Result<Value> is_at_most(State&, const Call& call) {
    HEDDLE_TRY_ASSIGN(const bool found, less(call[0], call.self));
    return Value(!found);
}
Result<Value> is_at_least(State&, const Call& call) {
    HEDDLE_TRY_ASSIGN(const bool found, less(call.self, call[0]));
    return Value(!found);
}
Result<Value> is_in(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const bool found, contains(state, call[0], call.self));
    return Value(found);
}

bool is_not_defined(const Value& v) { return v.is_undefined(); }

constexpr Builtin kTests[] = {
    {"defined", "", when<is_defined>},
    {"undefined", "", when<is_not_defined>},
    {"none", "", when<is_none>},
    {"boolean", "", when<is_truth>},
    {"true", "", when<is_exactly_true>},
    {"false", "", when<is_exactly_false>},
    {"integer", "", when<is_integer>},
    {"float", "", when<is_float>},
    {"number", "", when<is_any_number>},
    {"string", "", when<is_text>},
    {"mapping", "", when<is_mapping>},
    {"sequence", "", when<is_sequence>},
    {"iterable", "", when<is_iterable>},
    {"callable", "", when<is_callable>},
    {"lower", "", when<is_lower>},
    {"upper", "", when<is_upper>},
    {"odd", "", odd},
    {"even", "", even},
    {"divisibleby", "num", divisible},
    {"equalto", "other", is_equal},
    {"eq", "other", is_equal},
    {"==", "other", is_equal},
    {"ne", "other", is_not_equal},
    {"!=", "other", is_not_equal},
    {"lt", "other", is_less},
    {"<", "other", is_less},
    {"lessthan", "other", is_less},
    {"gt", "other", is_greater},
    {">", "other", is_greater},
    {"greaterthan", "other", is_greater},
    {"le", "other", is_at_most},
    {"<=", "other", is_at_most},
    {"ge", "other", is_at_least},
    {">=", "other", is_at_least},
    {"in", "seq", is_in},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
    const auto found = std::ranges::find(kTests, name, &Builtin::name);
    return found == std::end(kTests) ? nullptr : found;
}

}  // namespace heddle::tool::jinja
