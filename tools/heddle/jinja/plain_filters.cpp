#include <charconv>
#include <cmath>
#include <limits>

#include "jinja/builtins.hpp"

/// Filters of texts, numbers and single values.
namespace heddle::tool::jinja {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

char upper_letter(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
char lower_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

Result<Value> upper(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text text, to_text(state, call.self));
    return Value(text.changed(upper_letter));
}

Result<Value> lower(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text text, to_text(state, call.self));
    return Value(text.changed(lower_letter));
}

Result<Value> capitalize(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text text, to_text(state, call.self));
    bool is_first = true;
    return Value(text.changed([&](char c) {
        return std::exchange(is_first, false) ? upper_letter(c) : lower_letter(c);
    }));
}

/// Words begin behind white space and some marks.
Result<Value> title(State& state, const Call& call) {
    constexpr std::string_view kBefore = "- \t\n\r\v\f({[<";
    HEDDLE_TRY_ASSIGN(const Text text, to_text(state, call.self));
    bool is_inside = false;
    return Value(text.changed([&](char c) {
        const bool ends = kBefore.find(c) != std::string::npos;
        const bool was_inside = std::exchange(is_inside, !ends);
        return was_inside ? lower_letter(c) : upper_letter(c);
    }));
}

Result<Value> trim(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text text, to_text(state, call.self));
    if (call[0].is_undefined() || call[0].is<None>()) return Value(trimmed(text, {}, Ends::both));
    HEDDLE_TRY_ASSIGN(const Text* const which, need_text(call[0], "trim"));
    return Value(which->empty() ? text : trimmed(text, which->view(), Ends::both));
}

Result<Value> replace_filter(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text text, to_text(state, call.self));
    HEDDLE_TRY_ASSIGN(const Text from, to_text(state, call[0]));
    HEDDLE_TRY_ASSIGN(const Text to, to_text(state, call[1]));
    std::size_t most = kAll;
    if (call[2].is_whole() && call[2].whole() >= 0) {
        most = static_cast<std::size_t>(call[2].whole());
    }
    return replace_all(state, text, from, to, most);
}

Result<Value> json(State& state, const Call& call) {
    std::optional<std::size_t> indent;
    if (call[0].is_whole()) {
        constexpr std::int64_t kMost = 16;
        if (call[0].whole() < 0 || call[0].whole() > kMost) {
            return invalid("tojson: an indent of ", call[0].whole(), "; the most is ", kMost);
        }
        indent = static_cast<std::size_t>(call[0].whole());
    }
    HEDDLE_TRY_ASSIGN(Text made, to_json(state, call.self, indent));
    return Value(std::move(made));
}

Result<Value> otherwise(State&, const Call& call) {
    const bool wants_truth = is_true(call[1]);
    const bool is_there = wants_truth ? is_true(call.self) : !call.self.is_undefined();
    if (is_there) return call.self;
    return call[0].is_undefined() ? own_text("") : call[0];
}

Result<Value> count(State&, const Call& call) {
    HEDDLE_TRY_ASSIGN(const std::size_t found, length(call.self));
    return Value(static_cast<std::int64_t>(found));
}

Result<Value> as_text(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(Text text, to_text(state, call.self));
    return Value(std::move(text));
}

/// A number at the beginning of nothing but white space and digits.
template <class Number>
std::optional<Number> parsed(const Text& text) {
    const Text bare = trimmed(text, {}, Ends::both);
    const char* begin = bare.view().data();
    const char* const end = begin + bare.size();
    if (begin != end && *begin == '+') ++begin;
    Number number{};
    const auto [rest, problem] = std::from_chars(begin, end, number);
    if (problem != std::errc() || rest != end) return std::nullopt;
    return number;
}

Value whole_of(double number, const Value& fallback) {
    constexpr double kLimit = 9.2e18;
    if (!(std::fabs(number) < kLimit)) return fallback;
    return static_cast<std::int64_t>(number);
}

Result<Value> to_whole(State&, const Call& call) {
    const Value fallback = call[0].is_undefined() ? Value(std::int64_t{0}) : call[0];
    if (call.self.is_whole()) return Value(call.self.whole());
    if (call.self.is_number()) return whole_of(call.self.real(), fallback);
    if (const Text* const text = call.self.text()) {
        if (const auto number = parsed<std::int64_t>(*text)) return Value(*number);
        if (const auto number = parsed<double>(*text)) return whole_of(*number, fallback);
    }
    return fallback;
}

Result<Value> to_real(State&, const Call& call) {
    if (call.self.is_number()) return Value(call.self.real());
    if (const Text* const text = call.self.text()) {
        if (const auto number = parsed<double>(*text)) return Value(*number);
    }
    return call[0].is_undefined() ? Value(0.0) : call[0];
}

Result<Value> absolute(State& state, const Call& call) {
    if (call.self.is_whole()) {
        if (call.self.whole() >= 0) return Value(call.self.whole());
        return compute(state, Arithmetic::subtract, Value(std::int64_t{0}), call.self);
    }
    if (call.self.is_number()) return Value(std::fabs(call.self.real()));
    return invalid("abs needs a number, not ", call.self.kind());
}

Result<Value> round(State&, const Call& call) {
    if (!call.self.is_number()) return invalid("round needs a number, not ", call.self.kind());
    const Text* const method = call[1].text();
    const double scale =
        std::pow(10.0, call[0].is_whole() ? static_cast<double>(call[0].whole()) : 0.0);
    const double scaled = call.self.real() * scale;
    if (method != nullptr && method->view() == "ceil") return Value(std::ceil(scaled) / scale);
    if (method != nullptr && method->view() == "floor") return Value(std::floor(scaled) / scale);
    return Value(std::nearbyint(scaled) / scale);
}

/// Lines but the first begin with so many spaces, or with a text.
Result<Value> indent(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text text, to_text(state, call.self));
    Text before("    ", Text::Origin::of_template);
    if (call[0].text() != nullptr) before = *call[0].text();
    if (call[0].is_whole()) {
        constexpr std::int64_t kMost = 1000;
        if (call[0].whole() < 0 || call[0].whole() > kMost) {
            return invalid("indent: ", call[0].whole(), " spaces; the most is ", kMost);
        }
        before = Text(std::string(static_cast<std::size_t>(call[0].whole()), ' '),
                      Text::Origin::of_template);
    }
    const bool first = is_true(call[1]), blank = is_true(call[2]);
    Text made;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.view().find('\n', at), text.size());
        const bool wanted = (at == 0 ? first : true) && (blank || end > at || at == 0);
        if (wanted) made.append(before);
        made.append(text.part(at, end - at));
        if (end < text.size()) made.append(text.part(end, 1));
        HEDDLE_TRY(state.spend_text(made.size()));
        at = end + 1;
    }
    return Value(std::move(made));
}

constexpr Builtin kFilters[] = {
    {"upper", "", upper},
    {"lower", "", lower},
    {"capitalize", "", capitalize},
    {"title", "", title},
    {"trim", "chars?", trim},
    {"replace", "old new count?", replace_filter},
    {"tojson", "indent? ensure_ascii?", json},
    {"default", "default_value? boolean?", otherwise},
    {"d", "default_value? boolean?", otherwise},
    {"length", "", count},
    {"count", "", count},
    {"string", "", as_text},
    {"safe", "", as_text},
    {"int", "default?", to_whole},
    {"float", "default?", to_real},
    {"abs", "", absolute},
    {"round", "precision? method?", round},
    {"indent", "width? first? blank?", indent},
    {"format", "*", format_text},
};

}  // namespace

std::span<const Builtin> plain_filters() { return kFilters; }

}  // namespace heddle::tool::jinja
