#include "jinja/blocks.hpp"

#include <algorithm>

namespace heddle::tool::jinja {
namespace {

class Macro final : public Function {
public:
    Macro(std::string name, const MacroStatement::Parameters& parameters, const Body& body)
        : name_(std::move(name)), parameters_(parameters), body_(body) {}

    Result<Value> call(State& state, Arguments arguments) const override {
        const auto& names = parameters_.names;
        if (arguments.values.size() > names.size()) {
            return invalid(name_, ": ", arguments.values.size(), " arguments, it takes ",
                           names.size());
        }
        const State::Inner inner(state, state.globals());
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (i < arguments.values.size()) {
                state.set(names[i], std::move(arguments.values[i]));
            } else if (parameters_.defaults[i] != nullptr) {
                HEDDLE_TRY_ASSIGN(Value value, parameters_.defaults[i]->value(state));
                state.set(names[i], std::move(value));
            } else {
                state.set(names[i], Undefined{"'" + names[i] + "'"});
            }
        }
        for (auto& [name, value] : arguments.named) {
            if (std::ranges::find(names, name) == names.end()) {
                return invalid(name_, ": there is no argument '", name, "'");
            }
            state.set(name, std::move(value));
        }
        HEDDLE_TRY_ASSIGN(Text made, state.captured([&] { return run_all(body_, state); }));
        return Value(std::move(made));
    }

private:
    std::string name_;
    // Of the template, which outlives its rendering.
    const MacroStatement::Parameters& parameters_;
    const Body& body_;
};

/// `loop.cycle('a', 'b')`
class Cycle final : public Function {
public:
    explicit Cycle(std::size_t turn) : turn_(turn) {}
    Result<Value> call(State&, Arguments arguments) const override {
        if (arguments.values.empty()) return invalid("loop.cycle has nothing to choose from");
        return arguments.values[turn_ % arguments.values.size()];
    }

private:
    std::size_t turn_;
};

/// What `loop` is in a turn.
Value loop_value(const std::vector<Value>& items, std::size_t turn) {
    const auto number = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
    const std::size_t count = items.size();
    auto loop = std::make_shared<Namespace>();
    loop->entries = {{"index", number(turn + 1)},
                     {"index0", number(turn)},
                     {"revindex", number(count - turn)},
                     {"revindex0", number(count - turn - 1)},
                     {"first", turn == 0},
                     {"last", turn + 1 == count},
                     {"length", number(count)},
                     {"cycle", Value(Value::FunctionPtr(std::make_shared<const Cycle>(turn)))}};
    if (turn > 0) loop->entries.emplace_back("previtem", items[turn - 1]);
    if (turn + 1 < count) loop->entries.emplace_back("nextitem", items[turn + 1]);
    return Value(std::move(loop));
}

}  // namespace

Result<> assign(State& state, const Targets& targets, bool unpacks, const Value& value) {
    if (!unpacks) return state.set(targets.front(), value), ok();
    HEDDLE_TRY_ASSIGN(std::vector<Value> items, items_of(state, value));
    if (items.size() != targets.size()) {
        return invalid(items.size(), " items for ", targets.size(), " names");
    }
    for (std::size_t i = 0; i < items.size(); ++i) state.set(targets[i], std::move(items[i]));
    return ok();
}

Result<std::vector<Value>> Loop::items(State& state) const {
    HEDDLE_TRY_ASSIGN(const Value all, over->value(state));
    HEDDLE_TRY_ASSIGN(std::vector<Value> found, items_of(state, all));
    if (condition == nullptr) return found;
    std::vector<Value> kept;
    for (Value& one : found) {
        const State::Inner inner(state, state.scope());
        HEDDLE_TRY(assign(state, targets, unpacks, one));
        HEDDLE_TRY_ASSIGN(const Value truth, condition->value(state));
        if (is_true(truth)) kept.push_back(std::move(one));
    }
    return kept;
}

Result<Flow> Loop::operator()(State& state) const {
    HEDDLE_TRY_ASSIGN(const std::vector<Value> all, items(state));
    if (all.empty()) return run_all(otherwise, state);
    for (std::size_t turn = 0; turn < all.size(); ++turn) {
        const State::Inner inner(state, state.scope());
        HEDDLE_TRY(assign(state, targets, unpacks, all[turn]));
        state.set("loop", loop_value(all, turn));
        HEDDLE_TRY_ASSIGN(const Flow flow, run_all(body, state));
        if (flow == Flow::leave_loop) break;
    }
    return Flow::go_on;
}

Result<Flow> MacroStatement::operator()(State& state) const {
    state.set(name,
              Value(Value::FunctionPtr(std::make_shared<const Macro>(name, parameters, body))));
    return Flow::go_on;
}

}  // namespace heddle::tool::jinja
