#pragma once

#include <string>
#include <vector>

#include "jinja/nodes.hpp"
#include "jinja/operations.hpp"

/// What loops and macros do, once they are read.
namespace heddle::tool::jinja {

/// Names that a value, or its items, are given.
using Targets = std::vector<std::string>;
Result<> assign(State& state, const Targets& targets, bool unpacks, const Value& value);

/// `{% for %}`
struct Loop {
    Targets targets;
    bool unpacks = false;
    ExpressionPtr over, condition;
    Body body, otherwise;

    Result<Flow> operator()(State& state) const;

private:
    Result<std::vector<Value>> items(State& state) const;
};

/// `{% macro %}`: gives a function its name.
struct MacroStatement {
    struct Parameters {
        std::vector<std::string> names;
        std::vector<ExpressionPtr> defaults;  ///< null where a value must be given
    };

    std::string name;
    Parameters parameters;
    Body body;

    Result<Flow> operator()(State& state) const;
};

}  // namespace heddle::tool::jinja
