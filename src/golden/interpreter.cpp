#include "golden/interpreter.hpp"

#include <algorithm>
#include <array>

#include "heddle/heddle.h"

namespace heddle::golden {
namespace {

/// Statements that need memory, and so are not for the builders.
struct StepName {
    std::string_view name;
    Step step;
};
constexpr std::array kSteps{StepName{"ggml_graph_reset", Step::reset},
                            StepName{"compute", Step::compute}};

/// Makes failing builders return while it lives.
class ReturnErrors {
public:
    ReturnErrors() : previous_(heddle_get_error_mode()) { set(HEDDLE_ERROR_MODE_RETURN); }
    ~ReturnErrors() { set(previous_); }
    ReturnErrors(const ReturnErrors&) = delete;
    ReturnErrors& operator=(const ReturnErrors&) = delete;

private:
    /// Leaves a mode alone that is right already: another thread may be in the middle of a call.
    static void set(heddle_error_mode mode) {
        if (heddle_get_error_mode() != mode) heddle_set_error_mode(mode);
    }

    heddle_error_mode previous_;
};

/// Whether a call that should have made something came back with nothing.
bool is_missing(const Value& value) {
    if (const auto* tensor = std::get_if<Tensor*>(&value)) return *tensor == nullptr;
    if (const auto* graph = std::get_if<Graph*>(&value)) return *graph == nullptr;
    return false;
}

Tensor& root_of(Tensor& tensor) { return tensor.view_src != nullptr ? *tensor.view_src : tensor; }

}  // namespace

std::string_view kind_of(const Value& value) {
    constexpr std::array<std::string_view, std::variant_size_v<Value>> kinds{
        "NULL", "a truth value", "a number", "a type", "a list", "a tensor", "a graph"};
    return kinds[value.index()];
}

Result<> Interpreter::run(const Statement& statement) {
    auto value = evaluate(statement.expression);
    if (!value) return std::move(value).error().within(statement.text);
    if (!statement.target.empty()) {
        names_[statement.target] = *std::move(value);
    } else if (std::holds_alternative<Tensor*>(*value)) {
        names_["dst"] = *std::move(value);
    }
    return ok();
}

Result<Value> Interpreter::evaluate(const Expression& expression) {
    switch (expression.kind) {
        case Expression::Kind::null:
            return Value{Null{}};
        case Expression::Kind::boolean:
            return Value{expression.truth};
        case Expression::Kind::number:
            return Value{Number{expression.text}};
        case Expression::Kind::type:
            return Value{expression.type};
        case Expression::Kind::list:
            return Value{expression.list};
        case Expression::Kind::name:
            return find(expression.text);
        case Expression::Kind::call:
            return call(expression);
        case Expression::Kind::tensor:
            break;
    }
    HEDDLE_TRY_ASSIGN(Tensor * leaf, new_leaf(expression.type, expression.list));
    return Value{leaf};
}

Result<> Interpreter::make_source(const SourceText& text) {
    if (!text.shares_with.empty()) {
        HEDDLE_TRY_ASSIGN(Tensor * owner, tensor(text.shares_with));
        shared_root_ = &root_of(*owner);
    }
    auto value = evaluate(text.expression);
    shared_root_ = nullptr;
    if (!value) return std::move(value).error().within(text.name);
    if (!std::holds_alternative<Tensor*>(*value)) {
        return failure(Errc::corrupt, text.name, " is ", kind_of(*value), ", not a tensor");
    }
    names_[text.name] = *std::move(value);
    return ok();
}

Result<Value> Interpreter::perform(Step step, std::span<const Value> arguments) const {
    if (arguments.size() != 1 || !std::holds_alternative<Graph*>(arguments[0])) {
        return failure(Errc::corrupt, "takes a graph and nothing else");
    }
    if (perform_) HEDDLE_TRY(perform_(step, *std::get<Graph*>(arguments[0])));
    return Value{Null{}};
}

Result<Value> Interpreter::call(const Expression& expression) {
    const std::string& name = expression.text;
    std::vector<Value> arguments;
    for (const Expression& argument : expression.arguments) {
        HEDDLE_TRY_ASSIGN(Value value, evaluate(argument));
        arguments.push_back(std::move(value));
    }
    const auto step = std::ranges::find(kSteps, name, &StepName::name);
    if (step != kSteps.end()) return perform(step->step, arguments);
    const auto builders = all_builders();
    const auto builder = std::ranges::find(builders, name, &Builder::name);
    if (builder == builders.end()) {
        return failure(Errc::not_found, "there is no builder '", name, "'");
    }
    const ReturnErrors mode;
    heddle_clear_error();
    auto value = builder->function.call(context_, arguments);
    if (!value) return std::move(value).error().within(name);
    // Functions without a result say that they failed only through the sentence.
    const std::string_view sentence = heddle_last_error();
    if (!sentence.empty()) return invalid(sentence);
    if (is_missing(*value)) return invalid(name, ": gave NULL and no reason");
    return value;
}

Result<Tensor*> Interpreter::new_leaf(Type type, const IntegerList& extents) {
    if (shared_root_ == nullptr) return new_tensor(context_, type, extents);
    Extents wanted{1, 1, 1, 1};
    std::copy_n(extents.begin(), std::min(extents.size(), wanted.size()), wanted.begin());
    if (shared_root_->type != type || extents_of(*shared_root_) != wanted) {
        return failure(Errc::corrupt, "the shared storage is ", describe(*shared_root_), ", not ",
                       name_of(type), describe(wanted));
    }
    return shared_root_;
}

Result<Value> Interpreter::find(std::string_view name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) return failure(Errc::not_found, "'", name, "' is not defined");
    return found->second;
}

Result<Tensor*> Interpreter::tensor(std::string_view name) const {
    HEDDLE_TRY_ASSIGN(Value value, find(name));
    if (auto* tensor = std::get_if<Tensor*>(&value)) return *tensor;
    return failure(Errc::corrupt, "'", name, "' is ", kind_of(value), ", not a tensor");
}

Result<Graph*> Interpreter::graph(std::string_view name) const {
    HEDDLE_TRY_ASSIGN(Value value, find(name));
    if (auto* graph = std::get_if<Graph*>(&value)) return *graph;
    return failure(Errc::corrupt, "'", name, "' is ", kind_of(value), ", not a graph");
}

}  // namespace heddle::golden
