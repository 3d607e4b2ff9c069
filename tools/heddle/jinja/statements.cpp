#include <algorithm>

#include "jinja/blocks.hpp"
#include "jinja/parser.hpp"

/// What stands between {% and %}.
namespace heddle::tool::jinja {
namespace {

class Parser : private ExpressionParser {
public:
    using ExpressionParser::ExpressionParser;

    Result<Body> read() {
        HEDDLE_TRY_ASSIGN(Body body, read_body({}));
        if (now().kind != Kind::end) return unexpected();
        return body;
    }

private:
    /// Up to a tag of one of these names, whose name comes next.
    Result<Body> read_body(std::initializer_list<std::string_view> ends) {
        const Level level(*this);
        HEDDLE_TRY(go_deeper());
        Body body;
        while (now().kind != Kind::end) {
            const Token token = take();
            if (token.kind == Kind::data) {
                body.push_back(statement(token.line,
                                         [words = Text(token.words, Text::Origin::of_template)](
                                             State& state) -> Result<Flow> {
                                             HEDDLE_TRY(state.write(words));
                                             return Flow::go_on;
                                         }));
            } else if (token.kind == Kind::begin_output) {
                HEDDLE_TRY_ASSIGN(StatementPtr output, read_output(token.line));
                body.push_back(std::move(output));
            } else {
                if (now().kind == Kind::name &&
                    std::ranges::find(ends, now().words) != ends.end()) {
                    return body;
                }
                HEDDLE_TRY_ASSIGN(StatementPtr made, read_statement(token.line));
                if (made != nullptr) body.push_back(std::move(made));
            }
        }
        if (ends.size() == 0) return body;
        return fail(text("'", *(ends.end() - 1), "' is missing"));
    }

    Result<> end_tag() {
        if (now().kind != Kind::end_tag) return unexpected();
        take();
        return ok();
    }

    Result<StatementPtr> read_output(std::size_t line) {
        HEDDLE_TRY_ASSIGN(ExpressionPtr of, read_tuple());
        if (now().kind != Kind::end_output) return unexpected();
        take();
        return statement(line, [of = std::move(of)](State& state) -> Result<Flow> {
            HEDDLE_TRY_ASSIGN(const Value value, of->value(state));
            HEDDLE_TRY_ASSIGN(const Text words, to_text(state, value));
            HEDDLE_TRY(state.write(words));
            return Flow::go_on;
        });
    }

    Result<StatementPtr> read_statement(std::size_t line) {
        HEDDLE_TRY_ASSIGN(const std::string name, take_name());
        if (name == "if") return read_if(line);
        if (name == "for") return read_for(line);
        if (name == "set") return read_set(line);
        if (name == "macro") return read_macro(line);
        if (name == "filter") return read_filter_block(line);
        if (name == "break" || name == "continue") {
            if (loops_ == 0) return fail("'" + name + "' is not in a loop");
            HEDDLE_TRY(end_tag());
            const Flow flow = name == "break" ? Flow::leave_loop : Flow::next_turn;
            return statement(line, [flow](State&) -> Result<Flow> { return flow; });
        }
        // Marks what a model is to learn; of no use here.
        if (name == "generation" || name == "endgeneration") {
            HEDDLE_TRY(end_tag());
            return StatementPtr();
        }
        return fail("there is no tag '" + name + "' here");
    }

    Result<StatementPtr> read_if(std::size_t line) {
        std::vector<std::pair<ExpressionPtr, Body>> branches;  // the last may have no condition
        std::string name = "if";
        while (name != "endif") {
            ExpressionPtr condition;
            if (name != "else") {
                HEDDLE_TRY_ASSIGN(condition, read_tuple());
            }
            HEDDLE_TRY(end_tag());
            HEDDLE_TRY_ASSIGN(Body body, name == "else" ? read_body({"endif"})
                                                        : read_body({"elif", "else", "endif"}));
            branches.emplace_back(std::move(condition), std::move(body));
            HEDDLE_TRY_ASSIGN(name, take_name());
        }
        HEDDLE_TRY(end_tag());
        return statement(line, [branches = std::move(branches)](State& state) -> Result<Flow> {
            for (const auto& [condition, body] : branches) {
                if (condition != nullptr) {
                    HEDDLE_TRY_ASSIGN(const Value truth, condition->value(state));
                    if (!is_true(truth)) continue;
                }
                return run_all(body, state);
            }
            return Flow::go_on;
        });
    }

    Result<Targets> read_targets(bool& unpacks) {
        Targets targets;
        unpacks = false;
        const bool in_brackets = skip_mark("(");
        do {
            HEDDLE_TRY_ASSIGN(std::string name, take_name());
            targets.push_back(std::move(name));
            if (is_mark(",")) unpacks = true;
        } while (skip_mark(","));
        if (in_brackets) HEDDLE_TRY(expect_mark(")"));
        return targets;
    }

    Result<StatementPtr> read_for(std::size_t line) {
        Loop loop;
        HEDDLE_TRY_ASSIGN(loop.targets, read_targets(loop.unpacks));
        HEDDLE_TRY(expect_name("in"));
        HEDDLE_TRY_ASSIGN(loop.over, read_tuple(false));
        if (skip_name("if")) {
            HEDDLE_TRY_ASSIGN(loop.condition, read_expression());
        }
        if (is_name("recursive")) return fail("recursive loops are not known here");
        HEDDLE_TRY(end_tag());
        ++loops_;
        HEDDLE_TRY_ASSIGN(loop.body, read_body({"else", "endfor"}));
        --loops_;
        if (skip_name("else")) {
            HEDDLE_TRY(end_tag());
            HEDDLE_TRY_ASSIGN(loop.otherwise, read_body({"endfor"}));
        }
        take();
        HEDDLE_TRY(end_tag());
        return statement(line, std::move(loop));
    }

    Result<StatementPtr> read_set(std::size_t line) {
        bool unpacks = false;
        HEDDLE_TRY_ASSIGN(Targets targets, read_targets(unpacks));
        std::string key;
        if (!unpacks && skip_mark(".")) {
            HEDDLE_TRY_ASSIGN(key, take_name());
        }
        if (now().kind == Kind::end_tag || is_mark("|")) {
            return read_set_block(line, targets.front());
        }
        HEDDLE_TRY(expect_mark("="));
        HEDDLE_TRY_ASSIGN(ExpressionPtr value, read_tuple());
        HEDDLE_TRY(end_tag());
        return statement(line,
                         [targets = std::move(targets), unpacks, key = std::move(key),
                          value = std::move(value)](State& state) -> Result<Flow> {
                             HEDDLE_TRY_ASSIGN(Value made, value->value(state));
                             if (key.empty()) {
                                 HEDDLE_TRY(assign(state, targets, unpacks, made));
                                 return Flow::go_on;
                             }
                             HEDDLE_TRY(set_member(state, targets.front(), key, std::move(made)));
                             return Flow::go_on;
                         });
    }

    static Result<> set_member(State& state, const std::string& name, const std::string& key,
                               Value value) {
        const Value owner = state.find(name);
        if (owner.space() == nullptr) {
            return invalid("'", name, "' is no namespace: '", key, "' of it cannot be set");
        }
        if (value.space() != nullptr || value.function() != nullptr) {
            return invalid(value.kind(), " cannot be put into another value");
        }
        auto& entries = owner.space()->entries;
        const auto found = std::ranges::find(entries, key, &std::pair<std::string, Value>::first);
        HEDDLE_TRY(state.spend(entries.size()));
        if (found != entries.end()) {
            found->second = std::move(value);
        } else {
            entries.emplace_back(key, std::move(value));
        }
        return ok();
    }

    Result<StatementPtr> read_set_block(std::size_t line, const std::string& name) {
        HEDDLE_TRY_ASSIGN(auto filtered, read_block_filters());
        HEDDLE_TRY_ASSIGN(Body body, read_body({"endset"}));
        take();
        HEDDLE_TRY(end_tag());
        return statement(
            line,
            [name, body = std::move(body),
             filtered = std::move(filtered)](State& state) -> Result<Flow> {
                HEDDLE_TRY_ASSIGN(Text words, state.captured([&] { return run_all(body, state); }));
                HEDDLE_TRY_ASSIGN(Value made, apply(state, filtered, std::move(words)));
                state.set(name, std::move(made));
                return Flow::go_on;
            });
    }

    Result<StatementPtr> read_filter_block(std::size_t line) {
        HEDDLE_TRY_ASSIGN(auto filtered, read_block_filters());
        HEDDLE_TRY_ASSIGN(Body body, read_body({"endfilter"}));
        take();
        HEDDLE_TRY(end_tag());
        return statement(
            line,
            [body = std::move(body), filtered = std::move(filtered)](State& state) -> Result<Flow> {
                HEDDLE_TRY_ASSIGN(Text words, state.captured([&] { return run_all(body, state); }));
                HEDDLE_TRY_ASSIGN(const Value made, apply(state, filtered, std::move(words)));
                HEDDLE_TRY_ASSIGN(const Text out, to_text(state, made));
                HEDDLE_TRY(state.write(out));
                return Flow::go_on;
            });
    }

    /// The name under which what a block writes is filtered; no template can have it.
    static constexpr const char* kBlock = " block";

    /// An expression over the text of a block, up to the end of the tag that begins it.
    Result<ExpressionPtr> read_block_filters() {
        const Level level(*this);
        ExpressionPtr made =
            expression([](State& state) -> Result<Value> { return state.find(kBlock); });
        // `{% filter trim|upper %}` and `{% set x | trim %}`
        for (bool has_one = now().kind == Kind::name || skip_mark("|"); has_one;
             has_one = skip_mark("|")) {
            HEDDLE_TRY(go_deeper());
            HEDDLE_TRY_ASSIGN(made, read_filter(std::move(made)));
        }
        HEDDLE_TRY(end_tag());
        return made;
    }

    static Result<Value> apply(State& state, const ExpressionPtr& filtered, Text words) {
        const State::Inner inner(state, state.scope());
        state.set(kBlock, Value(std::move(words)));
        return filtered->value(state);
    }

    Result<StatementPtr> read_macro(std::size_t line) {
        HEDDLE_TRY_ASSIGN(const std::string name, take_name());
        MacroStatement::Parameters parameters;
        HEDDLE_TRY(expect_mark("("));
        while (!skip_mark(")")) {
            HEDDLE_TRY_ASSIGN(std::string parameter, take_name());
            ExpressionPtr otherwise;
            if (skip_mark("=")) {
                HEDDLE_TRY_ASSIGN(otherwise, read_expression());
            }
            parameters.names.push_back(std::move(parameter));
            parameters.defaults.push_back(std::move(otherwise));
            if (!is_mark(")")) HEDDLE_TRY(expect_mark(","));
        }
        HEDDLE_TRY(end_tag());
        const std::size_t loops = std::exchange(loops_, 0);
        HEDDLE_TRY_ASSIGN(Body body, read_body({"endmacro"}));
        loops_ = loops;
        take();
        if (now().kind == Kind::name) take();  // its name may stand there again
        HEDDLE_TRY(end_tag());
        return statement(line, MacroStatement{name, std::move(parameters), std::move(body)});
    }

    std::size_t loops_ = 0;
};

}  // namespace

Result<Body> parse(std::string_view source) {
    HEDDLE_TRY_ASSIGN(std::vector<Token> tokens, tokens_of(source));
    return Parser(std::move(tokens)).read();
}

}  // namespace heddle::tool::jinja
