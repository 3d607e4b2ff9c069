#pragma once

#include <optional>

#include "jinja/state.hpp"

/// What can be done with values, by the rules of Python.
namespace heddle::tool::jinja {

bool is_true(const Value& value);
Result<bool> equal(State& state, const Value& a, const Value& b);
/// Of two numbers or two texts.
Result<bool> less(const Value& a, const Value& b);
Result<bool> contains(State& state, const Value& all, const Value& one);

enum class Arithmetic { add, subtract, multiply, divide, floor_divide, modulo, power };
Result<Value> compute(State& state, Arithmetic op, const Value& a, const Value& b);
Result<Value> join(State& state, const Value& a, const Value& b);  ///< as texts

/// As it is printed; and as it stands in a printed list.
Result<Text> to_text(State& state, const Value& value);
Result<Text> to_source(State& state, const Value& value);

/// `indent` of none: all on one line.
Result<Text> to_json(State& state, const Value& value, std::optional<std::size_t> indent);

/// Characters, items or keys. Fails for what has none.
Result<std::size_t> length(const Value& value);
Result<std::vector<Value>> items_of(State& state, const Value& value);

/// Undefined where there is none.
Result<Value> entry(State& state, const Dictionary& dictionary, const Value& key);
Result<Value> item(State& state, const Value& of, const Value& key);              ///< of[key]
Result<Value> attribute(State& state, const Value& of, const std::string& name);  ///< of.name
Result<Value> slice(State& state, const Value& of, const Value& begin, const Value& end,
                    const Value& step);
Result<Value> call(State& state, const Value& function, Arguments arguments);

}  // namespace heddle::tool::jinja
