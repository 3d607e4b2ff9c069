#include <cmath>

#include "jinja/operations.hpp"

namespace heddle::tool::jinja {
namespace {

constexpr const char* kVerbs[] = {"added",   "subtracted", "multiplied",       "divided",
                                  "divided", "divided",    "raised to a power"};

Error unlike(Arithmetic op, const Value& a, const Value& b) {
    return invalid(a.kind(), " and ", b.kind(), " cannot be ", kVerbs[static_cast<int>(op)]);
}

Error too_large() { return invalid("a whole number of more than 64 bits"); }

Result<Value> power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) return invalid("0 to a negative power");
        return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    }
    std::int64_t made = 1;
    if (base == 1 || base == 0) return Value(exponent == 0 ? made : base);
    if (base == -1) return Value(exponent % 2 == 0 ? made : base);
    for (; exponent > 0; --exponent) {
        if (__builtin_mul_overflow(made, base, &made)) return too_large();
    }
    return Value(made);
}

/// Rounded down, as Python does.
Result<Value> divide_down(std::int64_t a, std::int64_t b, bool remainder) {
    if (b == 0) return invalid("a division by 0");
    if (b == -1) {  // the one quotient that may not fit
        std::int64_t negative = 0;
        if (__builtin_sub_overflow(negative, a, &negative)) return too_large();
        return Value(remainder ? std::int64_t{0} : negative);
    }
    const bool is_off = a % b != 0 && (a % b < 0) != (b < 0);
    if (remainder) return Value(a % b + (is_off ? b : 0));
    return Value(a / b - (is_off ? 1 : 0));
}

Result<Value> compute_whole(Arithmetic op, std::int64_t a, std::int64_t b) {
    std::int64_t made = 0;
    bool is_over = false;
    switch (op) {
        case Arithmetic::add:
            is_over = __builtin_add_overflow(a, b, &made);
            break;
        case Arithmetic::subtract:
            is_over = __builtin_sub_overflow(a, b, &made);
            break;
        case Arithmetic::multiply:
            is_over = __builtin_mul_overflow(a, b, &made);
            break;
        case Arithmetic::divide:
            if (b == 0) return invalid("a division by 0");
            return Value(static_cast<double>(a) / static_cast<double>(b));
        case Arithmetic::floor_divide:
            return divide_down(a, b, false);
        case Arithmetic::modulo:
            return divide_down(a, b, true);
        case Arithmetic::power:
            return power(a, b);
    }
    if (is_over) return too_large();
    return Value(made);
}

Result<Value> compute_real(Arithmetic op, double a, double b) {
    switch (op) {
        case Arithmetic::add:
            return Value(a + b);
        case Arithmetic::subtract:
            return Value(a - b);
        case Arithmetic::multiply:
            return Value(a * b);
        case Arithmetic::power:
            return Value(std::pow(a, b));
        default:
            break;
    }
    if (b == 0) return invalid("a division by 0");
    if (op == Arithmetic::divide) return Value(a / b);
    if (op == Arithmetic::floor_divide) return Value(std::floor(a / b));
    return Value(a - std::floor(a / b) * b);
}

/// A text or a list, so many times.
Result<Value> repeat(State& state, const Value& what, std::int64_t times) {
    const std::size_t count = times > 0 ? static_cast<std::size_t>(times) : 0;
    constexpr std::size_t kMost = std::size_t{1} << 32;  // no product of sizes below overflows
    if (count > kMost) return invalid("repeated ", count, " times; the most is ", kMost);
    if (const Text* const text = what.text()) {
        HEDDLE_TRY(state.spend_text(text->size() * count));
        Text made;
        for (std::size_t i = 0; i < count && !text->empty(); ++i) made.append(*text);
        return Value(std::move(made));
    }
    const auto& items = what.sequence()->items;
    HEDDLE_TRY(state.spend(items.size() * count));
    std::vector<Value> made;
    for (std::size_t i = 0; i < count && !items.empty(); ++i) {
        made.insert(made.end(), items.begin(), items.end());
    }
    return Value::list(std::move(made), what.sequence()->is_tuple);
}

Result<Value> concatenate(State& state, const Sequence& a, const Sequence& b) {
    HEDDLE_TRY(state.spend(a.items.size() + b.items.size()));
    std::vector<Value> items = a.items;
    items.insert(items.end(), b.items.begin(), b.items.end());
    return Value::list(std::move(items), a.is_tuple);
}

bool is_repeatable(const Value& value) {
    return value.text() != nullptr || value.sequence() != nullptr;
}

}  // namespace

Result<Value> compute(State& state, Arithmetic op, const Value& a, const Value& b) {
    if (a.is_whole() && b.is_whole()) return compute_whole(op, a.whole(), b.whole());
    if (a.is_number() && b.is_number()) return compute_real(op, a.real(), b.real());
    if (op == Arithmetic::add && a.text() != nullptr && b.text() != nullptr) {
        return join(state, a, b);
    }
    if (op == Arithmetic::add && a.sequence() != nullptr && b.sequence() != nullptr &&
        a.sequence()->is_tuple == b.sequence()->is_tuple) {
        return concatenate(state, *a.sequence(), *b.sequence());
    }
    if (op == Arithmetic::multiply) {
        if (is_repeatable(a) && b.is_whole()) return repeat(state, a, b.whole());
        if (is_repeatable(b) && a.is_whole()) return repeat(state, b, a.whole());
    }
    return unlike(op, a, b);
}

}  // namespace heddle::tool::jinja
