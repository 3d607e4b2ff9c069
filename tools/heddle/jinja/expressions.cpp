#include <algorithm>

#include "jinja/operations.hpp"
#include "jinja/parser.hpp"

/// Operators, from the one that binds least.
namespace heddle::tool::jinja {
namespace {

constexpr std::size_t kMostDepth = 150;

ExpressionPtr calculation(Arithmetic op, ExpressionPtr a, ExpressionPtr b) {
    return expression([op, a = std::move(a), b = std::move(b)](State& state) -> Result<Value> {
        HEDDLE_TRY_ASSIGN(const Value left, a->value(state));
        HEDDLE_TRY_ASSIGN(const Value right, b->value(state));
        return compute(state, op, left, right);
    });
}

Result<bool> compare(State& state, const std::string& op, const Value& a, const Value& b) {
    if (op == "==") return equal(state, a, b);
    if (op == "in") return contains(state, b, a);
    if (op == "<") return less(a, b);
    if (op == ">") return less(b, a);
    const bool is_equality = op == "!=", is_search = op == "not in";
    HEDDLE_TRY_ASSIGN(const bool opposite, is_equality  ? equal(state, a, b)
                                           : is_search  ? contains(state, b, a)
                                           : op == "<=" ? less(b, a)
                                                        : less(a, b));
    return !opposite;
}

}  // namespace

bool ExpressionParser::skip_mark(std::string_view mark) {
    if (!is_mark(mark)) return false;
    take();
    return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
    if (!is_name(name)) return false;
    take();
    return true;
}

Error ExpressionParser::fail(std::string_view what) const {
    return invalid("line ", now().line, ": ", what);
}

Error ExpressionParser::unexpected() const {
    const Token& token = now();
    if (token.kind == Kind::end) return fail("the template ends too early");
    if (token.kind == Kind::end_tag || token.kind == Kind::end_output) {
        return fail("a tag ends too early");
    }
    return fail("'" + token.words + "' is not expected here");
}

Result<> ExpressionParser::expect_mark(std::string_view mark) {
    if (skip_mark(mark)) return ok();
    return unexpected();
}

Result<> ExpressionParser::expect_name(std::string_view name) {
    if (skip_name(name)) return ok();
    return unexpected();
}

Result<std::string> ExpressionParser::take_name() {
    if (now().kind != Kind::name) return unexpected();
    return take().words;
}

Result<> ExpressionParser::go_deeper() {
    if (++depth_ <= kMostDepth) return ok();
    return fail(text("more than ", kMostDepth, " expressions or tags in each other"));
}

Result<ExpressionPtr> ExpressionParser::read_expression(bool with_condition) {
    const Level level(*this);
    HEDDLE_TRY(go_deeper());
    HEDDLE_TRY_ASSIGN(ExpressionPtr value, read_or());
    while (with_condition && skip_name("if")) {
        HEDDLE_TRY(go_deeper());
        HEDDLE_TRY_ASSIGN(ExpressionPtr condition, read_or());
        ExpressionPtr otherwise;
        if (skip_name("else")) {
            HEDDLE_TRY_ASSIGN(otherwise, read_expression());
        }
        value = expression([value = std::move(value), condition = std::move(condition),
                            otherwise = std::move(otherwise)](State& state) -> Result<Value> {
            HEDDLE_TRY_ASSIGN(const Value truth, condition->value(state));
            if (is_true(truth)) return value->value(state);
            if (otherwise == nullptr) return Value(Undefined{"an expression without 'else'"});
            return otherwise->value(state);
        });
    }
    return value;
}

Result<ExpressionPtr> ExpressionParser::read_or() {
    const Level level(*this);
    HEDDLE_TRY_ASSIGN(ExpressionPtr left, read_and());
    while (skip_name("or")) {
        HEDDLE_TRY(go_deeper());
        HEDDLE_TRY_ASSIGN(ExpressionPtr right, read_and());
        left =
            expression([a = std::move(left), b = std::move(right)](State& state) -> Result<Value> {
                HEDDLE_TRY_ASSIGN(Value value, a->value(state));
                return is_true(value) ? Result<Value>(std::move(value)) : b->value(state);
            });
    }
    return left;
}

Result<ExpressionPtr> ExpressionParser::read_and() {
    const Level level(*this);
    HEDDLE_TRY_ASSIGN(ExpressionPtr left, read_not());
    while (skip_name("and")) {
        HEDDLE_TRY(go_deeper());
        HEDDLE_TRY_ASSIGN(ExpressionPtr right, read_not());
        left =
            expression([a = std::move(left), b = std::move(right)](State& state) -> Result<Value> {
                HEDDLE_TRY_ASSIGN(Value value, a->value(state));
                return is_true(value) ? b->value(state) : Result<Value>(std::move(value));
            });
    }
    return left;
}

Result<ExpressionPtr> ExpressionParser::read_not() {
    const Level level(*this);
    if (!skip_name("not")) return read_comparison();
    HEDDLE_TRY(go_deeper());
    HEDDLE_TRY_ASSIGN(ExpressionPtr of, read_not());
    return expression([of = std::move(of)](State& state) -> Result<Value> {
        HEDDLE_TRY_ASSIGN(const Value value, of->value(state));
        return Value(!is_true(value));
    });
}

Result<ExpressionPtr> ExpressionParser::read_comparison() {
    constexpr std::string_view kOps[] = {"==", "!=", "<", "<=", ">", ">="};
    HEDDLE_TRY_ASSIGN(ExpressionPtr first, read_sum());
    std::vector<std::pair<std::string, ExpressionPtr>> others;
    while (true) {
        std::string op;
        if (now().kind == Kind::mark && std::ranges::find(kOps, now().words) != std::end(kOps)) {
            op = take().words;
        } else if (skip_name("in")) {
            op = "in";
        } else if (is_name("not") && next().kind == Kind::name && next().words == "in") {
            take();
            take();
            op = "not in";
        } else {
            break;
        }
        HEDDLE_TRY_ASSIGN(ExpressionPtr other, read_sum());
        others.emplace_back(std::move(op), std::move(other));
    }
    if (others.empty()) return first;
    return expression(
        [first = std::move(first), others = std::move(others)](State& state) -> Result<Value> {
            HEDDLE_TRY_ASSIGN(Value left, first->value(state));
            for (const auto& [op, other] : others) {
                HEDDLE_TRY_ASSIGN(Value right, other->value(state));
                HEDDLE_TRY_ASSIGN(const bool holds, compare(state, op, left, right));
                if (!holds) return Value(false);
                left = std::move(right);
            }
            return Value(true);
        });
}

Result<ExpressionPtr> ExpressionParser::read_sum() {
    const Level level(*this);
    HEDDLE_TRY_ASSIGN(ExpressionPtr left, read_concatenation());
    while (is_mark("+") || is_mark("-")) {
        HEDDLE_TRY(go_deeper());
        const auto op = take().words == "+" ? Arithmetic::add : Arithmetic::subtract;
        HEDDLE_TRY_ASSIGN(ExpressionPtr right, read_concatenation());
        left = calculation(op, std::move(left), std::move(right));
    }
    return left;
}

Result<ExpressionPtr> ExpressionParser::read_concatenation() {
    const Level level(*this);
    HEDDLE_TRY_ASSIGN(ExpressionPtr left, read_product());
    while (skip_mark("~")) {
        HEDDLE_TRY(go_deeper());
        HEDDLE_TRY_ASSIGN(ExpressionPtr right, read_product());
        left =
            expression([a = std::move(left), b = std::move(right)](State& state) -> Result<Value> {
                HEDDLE_TRY_ASSIGN(const Value first, a->value(state));
                HEDDLE_TRY_ASSIGN(const Value second, b->value(state));
                return join(state, first, second);
            });
    }
    return left;
}

Result<ExpressionPtr> ExpressionParser::read_product() {
    constexpr std::pair<std::string_view, Arithmetic> kOps[] = {{"*", Arithmetic::multiply},
                                                                {"/", Arithmetic::divide},
                                                                {"//", Arithmetic::floor_divide},
                                                                {"%", Arithmetic::modulo}};
    const Level level(*this);
    HEDDLE_TRY_ASSIGN(ExpressionPtr left, read_power());
    while (true) {
        const auto found =
            std::ranges::find_if(kOps, [&](const auto& op) { return is_mark(op.first); });
        if (found == std::end(kOps)) return left;
        take();
        HEDDLE_TRY(go_deeper());
        HEDDLE_TRY_ASSIGN(ExpressionPtr right, read_power());
        left = calculation(found->second, std::move(left), std::move(right));
    }
}

Result<ExpressionPtr> ExpressionParser::read_power() {
    const Level level(*this);
    HEDDLE_TRY_ASSIGN(ExpressionPtr left, read_unary());
    while (skip_mark("**")) {
        HEDDLE_TRY(go_deeper());
        HEDDLE_TRY_ASSIGN(ExpressionPtr right, read_unary());
        left = calculation(Arithmetic::power, std::move(left), std::move(right));
    }
    return left;
}

Result<ExpressionPtr> ExpressionParser::read_unary(bool with_filter) {
    const Level level(*this);
    ExpressionPtr made;
    if (is_mark("-") || is_mark("+")) {
        HEDDLE_TRY(go_deeper());
        const auto op = take().words == "-" ? Arithmetic::subtract : Arithmetic::add;
        HEDDLE_TRY_ASSIGN(ExpressionPtr of, read_unary(false));
        ExpressionPtr zero =
            expression([](State&) -> Result<Value> { return Value(std::int64_t{0}); });
        made = calculation(op, std::move(zero), std::move(of));
    } else {
        HEDDLE_TRY_ASSIGN(made, read_primary());
    }
    HEDDLE_TRY_ASSIGN(made, read_postfix(std::move(made)));
    if (!with_filter) return made;
    return read_filters(std::move(made));
}

}  // namespace heddle::tool::jinja
