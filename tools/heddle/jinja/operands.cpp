#include <charconv>

#include "jinja/builtins.hpp"
#include "jinja/parser.hpp"

/// What operators stand between: names, literals, calls, filters and tests.
namespace heddle::tool::jinja {
namespace {

ExpressionPtr constant(Value value) {
    return expression([value = std::move(value)](State&) -> Result<Value> { return value; });
}

Result<std::vector<Value>> values_of(const std::vector<ExpressionPtr>& parts, State& state) {
    std::vector<Value> values;
    for (const ExpressionPtr& part : parts) {
        HEDDLE_TRY_ASSIGN(Value value, part->value(state));
        values.push_back(std::move(value));
    }
    return values;
}

ExpressionPtr sequence(std::vector<ExpressionPtr> parts, bool is_tuple) {
    return expression([parts = std::move(parts), is_tuple](State& state) -> Result<Value> {
        HEDDLE_TRY_ASSIGN(std::vector<Value> values, values_of(parts, state));
        return Value::list(std::move(values), is_tuple);
    });
}

Result<Value> value_or_nothing(const ExpressionPtr& part, State& state) {
    return part == nullptr ? Result<Value>(Value()) : part->value(state);
}

}  // namespace

Result<Arguments> ExpressionParser::CallSource::arguments(State& state) const {
    Arguments made;
    HEDDLE_TRY_ASSIGN(made.values, values_of(values, state));
    for (const auto& [name, part] : named) {
        HEDDLE_TRY_ASSIGN(Value value, part->value(state));
        made.named.emplace_back(name, std::move(value));
    }
    return made;
}

Result<ExpressionParser::CallSource> ExpressionParser::read_arguments() {
    CallSource source;
    HEDDLE_TRY(expect_mark("("));
    while (!skip_mark(")")) {
        if (now().kind == Kind::name && next().kind == Kind::mark && next().words == "=") {
            std::string name = take().words;
            take();
            HEDDLE_TRY_ASSIGN(ExpressionPtr value, read_expression());
            source.named.emplace_back(std::move(name), std::move(value));
        } else {
            if (!source.named.empty()) return fail("an argument without a name behind one with");
            HEDDLE_TRY_ASSIGN(ExpressionPtr value, read_expression());
            source.values.push_back(std::move(value));
        }
        if (!is_mark(")")) HEDDLE_TRY(expect_mark(","));
    }
    return source;
}

Result<ExpressionPtr> ExpressionParser::read_tuple(bool with_condition) {
    std::vector<ExpressionPtr> parts;
    bool is_tuple = false;
    while (true) {
        HEDDLE_TRY_ASSIGN(ExpressionPtr part, read_expression(with_condition));
        parts.push_back(std::move(part));
        if (!skip_mark(",")) break;
        is_tuple = true;
        // A comma may come last.
        if (is_mark(")") || now().kind == Kind::end_tag || now().kind == Kind::end_output) break;
    }
    if (!is_tuple) return std::move(parts.front());
    return sequence(std::move(parts), true);
}

Result<ExpressionPtr> ExpressionParser::read_primary() {
    if (now().kind == Kind::name) return read_named();
    if (skip_mark("(")) return read_in_brackets();
    if (skip_mark("[")) return read_list();
    if (skip_mark("{")) return read_dictionary();
    return read_literal();
}

Result<ExpressionPtr> ExpressionParser::read_literal() {
    const Token token = now();
    const char* const begin = token.words.data();
    const char* const end = begin + token.words.size();
    if (token.kind == Kind::text) {
        std::string words;
        while (now().kind == Kind::text) words += take().words;
        return constant(own_text(std::move(words)));
    }
    if (token.kind == Kind::whole) {
        std::int64_t number = 0;
        if (std::from_chars(begin, end, number).ec != std::errc()) {
            return fail("the number " + token.words + " has more than 64 bits");
        }
        take();
        return constant(number);
    }
    if (token.kind == Kind::real) {
        double number = 0;
        if (std::from_chars(begin, end, number).ec != std::errc()) {
            return fail("the number " + token.words + " is out of range");
        }
        take();
        return constant(number);
    }
    return unexpected();
}

Result<ExpressionPtr> ExpressionParser::read_named() {
    const std::string name = take().words;
    if (name == "true" || name == "True") return constant(true);
    if (name == "false" || name == "False") return constant(false);
    if (name == "none" || name == "None") return constant(None{});
    return expression([name](State& state) -> Result<Value> { return state.find(name); });
}

Result<ExpressionPtr> ExpressionParser::read_in_brackets() {
    if (skip_mark(")")) return sequence({}, true);
    HEDDLE_TRY_ASSIGN(ExpressionPtr made, read_tuple());
    HEDDLE_TRY(expect_mark(")"));
    return made;
}

Result<ExpressionPtr> ExpressionParser::read_list() {
    std::vector<ExpressionPtr> parts;
    while (!skip_mark("]")) {
        HEDDLE_TRY_ASSIGN(ExpressionPtr part, read_expression());
        parts.push_back(std::move(part));
        if (!is_mark("]")) HEDDLE_TRY(expect_mark(","));
    }
    return sequence(std::move(parts), false);
}

Result<ExpressionPtr> ExpressionParser::read_dictionary() {
    std::vector<std::pair<ExpressionPtr, ExpressionPtr>> parts;
    while (!skip_mark("}")) {
        HEDDLE_TRY_ASSIGN(ExpressionPtr key, read_expression());
        HEDDLE_TRY(expect_mark(":"));
        HEDDLE_TRY_ASSIGN(ExpressionPtr value, read_expression());
        parts.emplace_back(std::move(key), std::move(value));
        if (!is_mark("}")) HEDDLE_TRY(expect_mark(","));
    }
    return expression([parts = std::move(parts)](State& state) -> Result<Value> {
        std::vector<std::pair<Value, Value>> entries;
        for (const auto& [key, value] : parts) {
            HEDDLE_TRY_ASSIGN(Value name, key->value(state));
            HEDDLE_TRY_ASSIGN(Value of_name, value->value(state));
            entries.emplace_back(std::move(name), std::move(of_name));
        }
        return Value::dictionary(std::move(entries));
    });
}

Result<ExpressionPtr> ExpressionParser::read_postfix(ExpressionPtr of) {
    const Level level(*this);
    while (true) {
        if (is_mark(".")) {
            HEDDLE_TRY(go_deeper());
            HEDDLE_TRY_ASSIGN(of, read_attribute(std::move(of)));
        } else if (is_mark("[")) {
            HEDDLE_TRY(go_deeper());
            HEDDLE_TRY_ASSIGN(of, read_subscript(std::move(of)));
        } else if (is_mark("(")) {
            HEDDLE_TRY(go_deeper());
            HEDDLE_TRY_ASSIGN(CallSource source, read_arguments());
            of = expression([callee = std::move(of),
                             source = std::move(source)](State& state) -> Result<Value> {
                HEDDLE_TRY_ASSIGN(const Value function, callee->value(state));
                HEDDLE_TRY_ASSIGN(Arguments arguments, source.arguments(state));
                return call(state, function, std::move(arguments));
            });
        } else {
            return of;
        }
    }
}

Result<ExpressionPtr> ExpressionParser::read_attribute(ExpressionPtr of) {
    take();
    if (now().kind == Kind::whole) {
        HEDDLE_TRY_ASSIGN(ExpressionPtr number, read_literal());
        return expression(
            [of = std::move(of), number = std::move(number)](State& state) -> Result<Value> {
                HEDDLE_TRY_ASSIGN(const Value value, of->value(state));
                HEDDLE_TRY_ASSIGN(const Value key, number->value(state));
                return item(state, value, key);
            });
    }
    HEDDLE_TRY_ASSIGN(const std::string name, take_name());
    return expression([of = std::move(of), name](State& state) -> Result<Value> {
        HEDDLE_TRY_ASSIGN(const Value value, of->value(state));
        return attribute(state, value, name);
    });
}

Result<ExpressionPtr> ExpressionParser::read_subscript(ExpressionPtr of) {
    take();
    ExpressionPtr parts[3];  // of a slice, or the key alone
    std::size_t colons = 0;
    while (!skip_mark("]")) {
        if (skip_mark(":")) {
            if (++colons > 2) return fail("a slice has more than two colons");
            continue;
        }
        if (parts[colons] != nullptr) return unexpected();
        HEDDLE_TRY_ASSIGN(parts[colons], read_expression());
    }
    if (colons == 0) {
        if (parts[0] == nullptr) return fail("there is nothing between brackets");
        return expression(
            [of = std::move(of), key = std::move(parts[0])](State& state) -> Result<Value> {
                HEDDLE_TRY_ASSIGN(const Value value, of->value(state));
                HEDDLE_TRY_ASSIGN(const Value at, key->value(state));
                return item(state, value, at);
            });
    }
    return expression([of = std::move(of), begin = std::move(parts[0]), end = std::move(parts[1]),
                       step = std::move(parts[2])](State& state) -> Result<Value> {
        HEDDLE_TRY_ASSIGN(const Value value, of->value(state));
        HEDDLE_TRY_ASSIGN(const Value first, value_or_nothing(begin, state));
        HEDDLE_TRY_ASSIGN(const Value last, value_or_nothing(end, state));
        HEDDLE_TRY_ASSIGN(const Value by, value_or_nothing(step, state));
        return slice(state, value, first, last, by);
    });
}

Result<ExpressionPtr> ExpressionParser::read_filters(ExpressionPtr input) {
    const Level level(*this);
    while (true) {
        if (skip_mark("|")) {
            HEDDLE_TRY(go_deeper());
            HEDDLE_TRY_ASSIGN(input, read_filter(std::move(input)));
        } else if (is_name("is")) {
            HEDDLE_TRY(go_deeper());
            HEDDLE_TRY_ASSIGN(input, read_test(std::move(input)));
        } else {
            return input;
        }
    }
}

Result<ExpressionPtr> ExpressionParser::read_filter(ExpressionPtr input) {
    HEDDLE_TRY_ASSIGN(const std::string name, take_name());
    const Builtin* const filter = find_filter(name);
    if (filter == nullptr) return fail("there is no filter '" + name + "'");
    CallSource source;
    if (is_mark("(")) {
        HEDDLE_TRY_ASSIGN(source, read_arguments());
    }
    return expression([input = std::move(input), filter,
                       source = std::move(source)](State& state) -> Result<Value> {
        HEDDLE_TRY_ASSIGN(const Value self, input->value(state));
        HEDDLE_TRY_ASSIGN(Arguments arguments, source.arguments(state));
        return run(state, *filter, self, std::move(arguments));
    });
}

Result<ExpressionPtr> ExpressionParser::read_test(ExpressionPtr tested) {
    take();
    const bool is_negated = skip_name("not");
    HEDDLE_TRY_ASSIGN(const std::string name, take_name());
    const Builtin* const test = find_test(name);
    if (test == nullptr) return fail("there is no test '" + name + "'");
    CallSource source;
    const bool is_operator = is_name("else") || is_name("or") || is_name("and") || is_name("if") ||
                             is_name("is") || is_name("in") || is_name("not");
    const bool is_operand = (now().kind == Kind::name && !is_operator) ||
                            now().kind == Kind::text || now().kind == Kind::whole ||
                            now().kind == Kind::real || is_mark("[") || is_mark("{");
    if (is_mark("(")) {
        HEDDLE_TRY_ASSIGN(source, read_arguments());
    } else if (is_operand) {
        HEDDLE_TRY_ASSIGN(ExpressionPtr value, read_primary());
        HEDDLE_TRY_ASSIGN(value, read_postfix(std::move(value)));
        source.values.push_back(std::move(value));
    }
    return expression([tested = std::move(tested), test, source = std::move(source),
                       is_negated](State& state) -> Result<Value> {
        HEDDLE_TRY_ASSIGN(const Value self, tested->value(state));
        HEDDLE_TRY_ASSIGN(Arguments arguments, source.arguments(state));
        HEDDLE_TRY_ASSIGN(const Value holds, run(state, *test, self, std::move(arguments)));
        return Value(is_true(holds) != is_negated);
    });
}

}  // namespace heddle::tool::jinja
