#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "jinja/builtins.hpp"

/// `'%s and %02d' | format(a, b)`, as Python's operator % does it.
namespace heddle::tool::jinja {
namespace {

constexpr std::size_t kMostWidth = 1000, kMostDigits = 100;

/// One place in a format.
struct Conversion {
    bool left = false, zeros = false, sign = false;
    std::size_t width = 0;
    int digits = -1;  ///< behind the point
    char kind = 0;
};

Result<Conversion> parse(std::string_view text, std::size_t& at) {
    Conversion made;
    const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
    const auto number = [&] {
        std::size_t value = 0;
        while (peek() >= '0' && peek() <= '9' && value <= kMostWidth) {
            value = value * 10 + static_cast<std::size_t>(text[at++] - '0');
        }
        return value;
    };
    for (; peek() == '-' || peek() == '0' || peek() == '+'; ++at) {
        made.left = made.left || peek() == '-';
        made.zeros = made.zeros || peek() == '0';
        made.sign = made.sign || peek() == '+';
    }
    made.width = number();
    if (peek() == '.') {
        ++at;
        made.digits = static_cast<int>(std::min(number(), kMostDigits));
    }
    made.kind = peek();
    ++at;
    if (made.width > kMostWidth) return invalid("format: a width above ", kMostWidth);
    return made;
}

/// "-ff": the sign before the magnitude, in base 16 too.
std::string whole_text(const Conversion& how, std::int64_t number) {
    const auto magnitude =
        number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    const bool is_decimal = how.kind == 'd' || how.kind == 'i';
    char digits[20];  // of 2^64 - 1
    const char* const end =
        std::to_chars(digits, digits + sizeof digits, magnitude, is_decimal ? 10 : 16).ptr;
    std::string made = number < 0 ? "-" : how.sign ? "+" : "";
    for (const char* digit = digits; digit != end; ++digit) {
        made += how.kind == 'X' ? static_cast<char>(std::toupper(*digit)) : *digit;
    }
    return made;
}

Result<std::string> real_text(const Conversion& how, double number) {
    // Written in full it has as many digits as its power of ten says.
    if (how.kind == 'f' && !(std::fabs(number) < 1e200)) {
        return invalid("format: the number is too large for '%f'");
    }
    const char format[] = {'%', '.', '*', how.kind, '\0'};
    char digits[512];
    std::snprintf(digits, sizeof digits, format, how.digits < 0 ? 6 : how.digits, number);
    std::string made = how.sign && digits[0] != '-' ? "+" : "";
    return made += digits;
}

Result<Text> converted(State& state, const Conversion& how, const Value& value) {
    constexpr auto kOwn = Text::Origin::of_template;
    if (how.kind == 's' || how.kind == 'r') {
        HEDDLE_TRY_ASSIGN(const Text text,
                          how.kind == 's' ? to_text(state, value) : to_source(state, value));
        if (how.digits < 0) return text;
        const auto starts = character_starts(text.view());
        const auto most = std::min(static_cast<std::size_t>(how.digits), starts.size() - 1);
        return text.part(0, starts[most]);
    }
    const bool is_whole = how.kind == 'd' || how.kind == 'i' || how.kind == 'x' || how.kind == 'X';
    const bool is_real = how.kind == 'f' || how.kind == 'e' || how.kind == 'g';
    if (!is_whole && !is_real) return invalid("format: there is no '%", how.kind, "'");
    if (!value.is_number()) return invalid("format: '%", how.kind, "' needs a number");
    constexpr double kLargest = 1e15;  // of a real number that is written as a whole one
    if (is_whole && !value.is_whole() && !(value.real() > -kLargest && value.real() < kLargest)) {
        return invalid("format: the number is too large for '%", how.kind, "'");
    }
    if (is_whole) {
        const auto number =
            value.is_whole() ? value.whole() : static_cast<std::int64_t>(value.real());
        return Text(whole_text(how, number), kOwn);
    }
    HEDDLE_TRY_ASSIGN(std::string made, real_text(how, value.real()));
    return Text(std::move(made), kOwn);
}

/// As wide as it is to be.
Text padded(const Text& text, const Conversion& how) {
    constexpr auto kOwn = Text::Origin::of_template;
    const std::size_t size = character_starts(text.view()).size() - 1;
    if (size >= how.width) return text;
    const std::size_t missing = how.width - size;
    Text made;
    if (how.left) {
        made = text;
        made.append(std::string(missing, ' '), kOwn);
        return made;
    }
    const bool zeros = how.zeros && how.kind != 's' && how.kind != 'r';
    const bool has_sign =
        zeros && !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+');
    if (has_sign) made.append(text.part(0, 1));
    made.append(std::string(missing, zeros ? '0' : ' '), kOwn);
    made.append(text.part(has_sign ? 1 : 0));
    return made;
}

}  // namespace

Result<Value> format_text(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text* const format, need_text(call.self, "format"));
    const std::string_view text = format->view();
    Text made;
    std::size_t used = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('%', at), text.size());
        made.append(format->part(at, end - at));
        at = end + 1;
        if (end == text.size()) break;
        HEDDLE_TRY_ASSIGN(const Conversion how, parse(text, at));
        if (how.kind == '%') {
            made.append(format->part(end, 1));
            continue;
        }
        if (used == call.rest.size()) return invalid("format: more places than values");
        HEDDLE_TRY_ASSIGN(const Text value, converted(state, how, call.rest[used++]));
        made.append(padded(value, how));
        HEDDLE_TRY(state.spend_text(made.size()));
    }
    if (used < call.rest.size()) return invalid("format: more values than places");
    return Value(std::move(made));
}

}  // namespace heddle::tool::jinja
