#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jinja/lexer.hpp"
#include "jinja/nodes.hpp"

namespace heddle::tool::jinja {

/// Reads expressions from the tokens of a template. Statements are read by those who derive.
class ExpressionParser {
public:
    explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

protected:
    using Kind = Token::Kind;

    const Token& now() const { return tokens_[at_]; }
    const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
    bool is_mark(std::string_view mark) const {
        return now().kind == Kind::mark && now().words == mark;
    }
    bool is_name(std::string_view name) const {
        return now().kind == Kind::name && now().words == name;
    }
    bool skip_mark(std::string_view mark);
    bool skip_name(std::string_view name);
    Result<> expect_mark(std::string_view mark);
    Result<> expect_name(std::string_view name);
    Result<std::string> take_name();
    Error fail(std::string_view what) const;
    Error unexpected() const;

    /// With an inline `if`, if that is allowed.
    Result<ExpressionPtr> read_expression(bool with_condition = true);
    /// One or several with commas between them, which make a tuple.
    Result<ExpressionPtr> read_tuple(bool with_condition = true);
    /// `name(...)` behind '|', for `input`.
    Result<ExpressionPtr> read_filter(ExpressionPtr input);

    struct CallSource {
        std::vector<ExpressionPtr> values;
        std::vector<std::pair<std::string, ExpressionPtr>> named;

        Result<Arguments> arguments(State& state) const;
    };
    Result<CallSource> read_arguments();  ///< from '(' to ')'

    /// One level more of what is evaluated in each other; given back by the end of a Level.
    Result<> go_deeper();

    class Level {
    public:
        explicit Level(ExpressionParser& parser) : parser_(&parser), before_(parser.depth_) {}
        ~Level() { parser_->depth_ = before_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        ExpressionParser* parser_;
        std::size_t before_;
    };

private:
    Result<ExpressionPtr> read_or();
    Result<ExpressionPtr> read_and();
    Result<ExpressionPtr> read_not();
    Result<ExpressionPtr> read_comparison();
    Result<ExpressionPtr> read_sum();
    Result<ExpressionPtr> read_concatenation();
    Result<ExpressionPtr> read_product();
    Result<ExpressionPtr> read_power();
    Result<ExpressionPtr> read_unary(bool with_filter = true);
    Result<ExpressionPtr> read_primary();
    Result<ExpressionPtr> read_literal();
    Result<ExpressionPtr> read_named();
    Result<ExpressionPtr> read_postfix(ExpressionPtr of);
    Result<ExpressionPtr> read_subscript(ExpressionPtr of);
    Result<ExpressionPtr> read_attribute(ExpressionPtr of);
    Result<ExpressionPtr> read_filters(ExpressionPtr input);
    Result<ExpressionPtr> read_test(ExpressionPtr tested);
    Result<ExpressionPtr> read_list();
    Result<ExpressionPtr> read_dictionary();
    Result<ExpressionPtr> read_in_brackets();

    std::vector<Token> tokens_;
    std::size_t at_ = 0, depth_ = 0;
};

/// The statements of a template.
Result<Body> parse(std::string_view source);

}  // namespace heddle::tool::jinja
