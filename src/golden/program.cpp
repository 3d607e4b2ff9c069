#include "golden/program.hpp"

#include <cctype>
#include <charconv>
#include <optional>

namespace heddle::golden {
namespace {

bool is_word_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_number_character(char c) {
    return is_word_character(c) || c == '.' || c == '+' || c == '-';
}

bool starts_number(std::string_view text) {
    if (text.empty()) return false;
    const char c = text.front();
    return c == '-' || c == '+' || c == '.' || std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// Reads a builder text from left to right.
class Reader {
public:
    explicit Reader(std::string_view text) : whole_(text), rest_(text) {}

    bool at_end() {
        skip_blanks();
        return rest_.empty();
    }

    /// Takes `token` if it is what comes next.
    bool take(std::string_view token) {
        skip_blanks();
        if (!rest_.starts_with(token)) return false;
        rest_.remove_prefix(token.size());
        return true;
    }

    Result<> expect(std::string_view token) {
        if (take(token)) return ok();
        return wrong(text("'", token, "'"));
    }

    Result<std::string> word() {
        skip_blanks();
        const std::string_view found = take_while(is_word_character);
        if (found.empty()) return wrong("a name");
        return std::string(found);
    }

    /// `name =`, if the text goes on so.
    std::optional<std::string> assignment() {
        const std::string_view before = rest_;
        skip_blanks();
        const std::string name(take_while(is_word_character));
        if (!name.empty() && take("=")) return name;
        rest_ = before;
        return std::nullopt;
    }

    Result<Expression> expression() {
        skip_blanks();
        if (rest_.starts_with('{')) return list("{", "}");
        if (rest_.starts_with('[')) return list("[", "]");
        if (starts_number(rest_)) return number(take_while(is_number_character));
        HEDDLE_TRY_ASSIGN(std::string name, word());
        if (name == "NULL") return Expression{};
        if (name == "true" || name == "false") {
            return Expression{.kind = Expression::Kind::boolean, .truth = name == "true"};
        }
        if (name == "inf" || name == "nan") return number(name);
        if (take("(")) return call(std::move(name));
        if (auto type = type_named(name)) return typed(*type);
        return Expression{.kind = Expression::Kind::name, .text = std::move(name)};
    }

private:
    void skip_blanks() {
        take_while([](char c) { return c == ' ' || c == '\t'; });
    }

    template <class Predicate>
    std::string_view take_while(Predicate wanted) {
        std::size_t length = 0;
        while (length < rest_.size() && wanted(rest_[length])) ++length;
        const std::string_view taken = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return taken;
    }

    static Expression number(std::string_view digits) {
        return {.kind = Expression::Kind::number, .text = std::string(digits)};
    }

    Result<Expression> typed(Type type) {
        if (!rest_.starts_with('['))
            return Expression{.kind = Expression::Kind::type, .type = type};
        HEDDLE_TRY_ASSIGN(Expression tensor, list("[", "]"));
        tensor.kind = Expression::Kind::tensor;
        tensor.type = type;
        return tensor;
    }

    Result<Expression> list(std::string_view open, std::string_view close) {
        HEDDLE_TRY(expect(open));
        Expression result{.kind = Expression::Kind::list};
        if (take(close)) return result;
        do {
            skip_blanks();
            const std::string_view digits = take_while(is_number_character);
            std::int64_t value = 0;
            const auto [end, failed] = std::from_chars(digits.begin(), digits.end(), value);
            if (failed != std::errc{} || end != digits.end()) return wrong("an integer");
            result.list.push_back(value);
        } while (take(","));
        HEDDLE_TRY(expect(close));
        return result;
    }

    Result<Expression> call(std::string name) {
        Expression result{.kind = Expression::Kind::call, .text = std::move(name)};
        if (take(")")) return result;
        do {
            HEDDLE_TRY_ASSIGN(Expression argument, expression());
            result.arguments.push_back(std::move(argument));
        } while (take(","));
        HEDDLE_TRY(expect(")"));
        return result;
    }

    Error wrong(std::string_view wanted) const {
        return failure(Errc::corrupt, "'", whole_, "': ", wanted, " is missing at character ",
                       whole_.size() - rest_.size() + 1);
    }

    std::string_view whole_;
    std::string_view rest_;
};

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

}  // namespace

Result<Type> type_named(std::string_view name) {
    for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<Type>(number);
        if (is_valid(type) && name_of(type) == name) return type;
    }
    return failure(Errc::not_found, "there is no type '", name, "'");
}

Result<Statement> parse_statement(std::string_view text) {
    Reader reader(text);
    Statement statement{.target = {}, .expression = {}, .text = std::string(trimmed(text))};
    if (auto target = reader.assignment()) statement.target = *std::move(target);
    HEDDLE_TRY_ASSIGN(statement.expression, reader.expression());
    const bool drops_rest = statement.expression.text == "compute" && reader.take(",");
    if (!drops_rest && !reader.at_end()) {
        return failure(Errc::corrupt, "'", text, "': more than one statement");
    }
    return statement;
}

Result<std::vector<Statement>> parse_statements(std::string_view text) {
    std::vector<Statement> statements;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(';', begin), text.size());
        HEDDLE_TRY_ASSIGN(Statement statement, parse_statement(text.substr(begin, end - begin)));
        statements.push_back(std::move(statement));
        begin = end + 1;
    }
    return statements;
}

Result<std::vector<SourceText>> parse_sources(std::string_view text) {
    std::vector<SourceText> sources;
    Reader reader(text);
    if (reader.at_end()) return sources;
    do {
        SourceText source;
        HEDDLE_TRY_ASSIGN(source.name, reader.word());
        HEDDLE_TRY(reader.expect("="));
        HEDDLE_TRY_ASSIGN(source.expression, reader.expression());
        if (reader.take("(same storage as")) {
            HEDDLE_TRY_ASSIGN(source.shares_with, reader.word());
            HEDDLE_TRY(reader.expect(")"));
        }
        sources.push_back(std::move(source));
    } while (reader.take(","));
    if (!reader.at_end()) return failure(Errc::corrupt, "'", text, "': not a list of sources");
    return sources;
}

}  // namespace heddle::golden
