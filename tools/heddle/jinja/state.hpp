#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "jinja/value.hpp"

namespace heddle::tool::jinja {

/// What a template may use up. Models come from anywhere, and their templates with them.
struct Limits {
    std::size_t steps = 4'000'000;   ///< of evaluation; some bytes of text are a step, too
    std::size_t depth = 400;         ///< of expressions and calls in each other
    std::size_t bytes = 16U << 20U;  ///< of one text, the output among them
};

struct Scope {
    std::map<std::string, Value, std::less<>> names;
    const Scope* outer = nullptr;
};

/// A template while it is rendered.
class State {
public:
    explicit State(const Limits& limits) : limits_(limits), scope_(&globals_) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    Result<> spend(std::size_t steps);

    /// For a text of so many bytes that is about to be made.
    Result<> spend_text(std::size_t bytes);
    Result<> check_text(std::size_t bytes) const;  ///< only that it may be so long

    /// For a search of `what` bytes in `all`, which may compare each with each.
    Result<> spend_search(std::size_t all, std::size_t what);

    /// Goes one level down, for as long as the object lives.
    class Level {
    public:
        explicit Level(State& state) : state_(&state) { ++state_->depth_; }
        ~Level() { --state_->depth_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        State* state_;
    };
    Result<> check_depth() const;

    /// Names of a loop's turn or a macro, for as long as the object lives.
    class Inner {
    public:
        Inner(State& state, const Scope* outer) : state_(&state), before_(state.scope_) {
            scope_.outer = outer;
            state.scope_ = &scope_;
        }
        ~Inner() { state_->scope_ = before_; }
        Inner(const Inner&) = delete;
        Inner& operator=(const Inner&) = delete;

    private:
        State* state_;
        Scope* before_;
        Scope scope_;
    };

    const Scope* globals() const { return &globals_; }
    const Scope* scope() const { return scope_; }
    void set(const std::string& name, Value value) { scope_->names[name] = std::move(value); }
    Value find(const std::string& name) const;

    Result<> write(const Text& text);

    /// What is written while `work` runs, instead of in the output.
    template <class Work>
    Result<Text> captured(Work work) {
        Text before = std::exchange(output_, Text());
        auto done = work();
        Text made = std::exchange(output_, std::move(before));
        if (!done) return std::move(done).error();
        return made;
    }
    const Text& output() const { return output_; }

    bool is_located = false;  ///< a failure that is on its way says where it was

private:
    Limits limits_;
    std::size_t steps_ = 0, depth_ = 0;
    Scope globals_;
    Scope* scope_;
    Text output_;
};

}  // namespace heddle::tool::jinja
