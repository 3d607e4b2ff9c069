#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/state.hpp"

/// A template that was understood.
namespace heddle::tool::jinja {

class Expression {
public:
    Expression() = default;
    Expression(const Expression&) = delete;
    Expression& operator=(const Expression&) = delete;
    virtual ~Expression() = default;

    /// Counts steps and levels.
    Result<Value> value(State& state) const {
        const State::Level level(state);
        HEDDLE_TRY(state.check_depth());
        HEDDLE_TRY(state.spend(1));
        return evaluate(state);
    }

private:
    virtual Result<Value> evaluate(State& state) const = 0;
};
using ExpressionPtr = std::unique_ptr<const Expression>;

/// An expression whose value is what `evaluate(state)` gives.
template <class Evaluate>
ExpressionPtr expression(Evaluate evaluate) {
    class Made final : public Expression {
    public:
        explicit Made(Evaluate body) : evaluate_(std::move(body)) {}

    private:
        Result<Value> evaluate(State& state) const override { return evaluate_(state); }
        Evaluate evaluate_;
    };
    return std::make_unique<const Made>(std::move(evaluate));
}

/// Whether a loop is to be left, or its turn.
enum class Flow { go_on, leave_loop, next_turn };

class Statement {
public:
    explicit Statement(std::size_t line) : line_(line) {}
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;
    virtual ~Statement() = default;

    /// A failure says the line, the innermost one.
    Result<Flow> run(State& state) const {
        const State::Level level(state);
        HEDDLE_TRY(state.check_depth());
        HEDDLE_TRY(state.spend(1));
        auto done = carry_out(state);
        if (done || std::exchange(state.is_located, true)) return done;
        return std::move(done).error().within("line " + std::to_string(line_));
    }

private:
    virtual Result<Flow> carry_out(State& state) const = 0;
    std::size_t line_;
};
using StatementPtr = std::unique_ptr<const Statement>;

template <class CarryOut>
StatementPtr statement(std::size_t line, CarryOut carry_out) {
    class Made final : public Statement {
    public:
        Made(std::size_t where, CarryOut body) : Statement(where), carry_out_(std::move(body)) {}

    private:
        Result<Flow> carry_out(State& state) const override { return carry_out_(state); }
        CarryOut carry_out_;
    };
    return std::make_unique<const Made>(line, std::move(carry_out));
}

/// Statements one after the other.
using Body = std::vector<StatementPtr>;
inline Result<Flow> run_all(const Body& body, State& state) {
    for (const StatementPtr& part : body) {
        HEDDLE_TRY_ASSIGN(const Flow flow, part->run(state));
        if (flow != Flow::go_on) return flow;
    }
    return Flow::go_on;
}

}  // namespace heddle::tool::jinja
