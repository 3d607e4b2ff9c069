#include "random_calls.hpp"

#include <charconv>
#include <limits>

#include "golden/build_case.hpp"
#include "golden/interpreter.hpp"
#include "golden_cases.hpp"
#include "heddle/heddle.h"
#include "rewrite.hpp"

namespace heddle::campaign {
namespace {

using golden::Expression;
using golden::Parameter;
using golden::Value;

Type any_type(Choices& choices) {
    if (choices.one_in(40)) return static_cast<Type>(choices.pick({-1, GGML_TYPE_COUNT + 0, 999}));
    if (!choices.one_in(2)) return choices.pick({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_I32});
    for (;;) {  // there are numbers without a type
        const auto type = static_cast<Type>(choices.below(GGML_TYPE_COUNT));
        if (ggml_blck_size(type) > 0) return type;
    }
}

std::string any_real(Choices& choices) {
    return choices.pick<std::string>(
        {"0", "1", "0.5", "-1", "1e-5", "nan", "inf", "-inf", "1e30", "1e-40", "10000"});
}

// ---- recorded calls ----------------------------------------------------------------------------

/// Everything in an expression that has a value of its own.
void collect(Expression& expression, std::vector<Expression*>& found) {
    if (expression.kind != Expression::Kind::call) found.push_back(&expression);
    for (Expression& argument : expression.arguments) collect(argument, found);
}

std::string changed_number(const std::string& digits, Choices& choices) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size()) return any_real(choices);
    const std::int64_t other = other_value(value, choices);
    // Most parameters are an int.
    return std::to_string(choices.one_in(3) ? other : static_cast<std::int32_t>(other));
}

/// The operand seen in another way: `src0` becomes `ggml_transpose(src0)`.
void wrap(Expression& operand, Choices& choices) {
    const auto number = [&](std::uint32_t value) {
        return Expression{.kind = Expression::Kind::number, .text = std::to_string(value)};
    };
    Expression call{.kind = Expression::Kind::call, .text = "ggml_transpose"};
    call.arguments.push_back(operand);
    if (choices.one_in(2)) {
        call.text = "ggml_permute";
        const std::uint32_t first = choices.below(4), second = choices.below(3);
        std::vector<std::uint32_t> axes{0, 1, 2, 3};
        std::swap(axes[0], axes[first]);
        std::swap(axes[1], axes[1 + second]);
        for (const std::uint32_t axis : axes) call.arguments.push_back(number(axis));
    }
    operand = std::move(call);
}

void change(Expression& expression, std::size_t sources, Choices& choices) {
    switch (expression.kind) {
        case Expression::Kind::number:
            expression.text = changed_number(expression.text, choices);
            break;
        case Expression::Kind::boolean:
            expression.truth = !expression.truth;
            break;
        case Expression::Kind::type:
            expression.type = any_type(choices);
            break;
        case Expression::Kind::tensor:
            if (choices.one_in(4)) {
                expression.type = any_type(choices);
                break;
            }
            [[fallthrough]];
        case Expression::Kind::list: {
            if (expression.list.empty()) break;
            if (expression.list.size() < kMaxDims && choices.one_in(3)) {
                expression.list.push_back(other_value(1, choices));
                break;
            }
            std::int64_t& value = choices.pick(std::span<std::int64_t>(expression.list));
            value = other_value(value, choices);
            break;
        }
        default:  // a name, or NULL: another source, or none
            if (expression.kind == Expression::Kind::name && choices.one_in(2)) {
                wrap(expression, choices);
                break;
            }
            expression.kind = Expression::Kind::name;
            expression.text = text("src", choices.below(static_cast<std::uint32_t>(sources) + 1));
            if (expression.text == text("src", sources)) expression.kind = Expression::Kind::null;
    }
}

std::string to_text(const Expression& expression) {
    switch (expression.kind) {
        case Expression::Kind::null:
            return "NULL";
        case Expression::Kind::boolean:
            return expression.truth ? "true" : "false";
        case Expression::Kind::type:
            return text("type ", static_cast<int>(expression.type));
        case Expression::Kind::number:
        case Expression::Kind::name:
            return expression.text;
        default:
            break;
    }
    std::string words =
        expression.kind == Expression::Kind::tensor
            ? text("tensor of type ", static_cast<int>(expression.type), " and extents ")
            : expression.text;
    words += '(';
    for (const std::int64_t value : expression.list) words += text(value, ' ');
    for (const Expression& argument : expression.arguments) words += text(to_text(argument), ", ");
    return words + ')';
}

}  // namespace

Tensor* call_almost_as_recorded(Context& context, Choices& choices, Trace& trace) {
    const golden::OpCase& recorded = any_golden_case(choices);
    trace.line(recorded.name, ": ", recorded.description);
    auto program = golden::program_of(recorded);
    if (!program) return nullptr;
    std::vector<Expression*> places;
    for (auto& source : program->sources) collect(source.expression, places);
    for (auto& statement : program->statements) collect(statement.expression, places);
    const int changes = choices.pick({1, 2, 1, 3, 0});
    for (int i = 0; i < changes && !places.empty(); ++i) {
        Expression& place = *choices.pick(std::span<Expression*>(places));
        const std::string before = trace.is_wanted() ? to_text(place) : "";
        change(place, program->sources.size(), choices);
        trace.line(before, " becomes ", to_text(place));
    }
    golden::Interpreter interpreter(context);
    const auto refused = [&](const Error& error) {
        trace.line("refused: ", error.message);
        return nullptr;
    };
    for (const auto& source : program->sources) {
        if (auto made = interpreter.make_source(source); !made) return refused(made.error());
    }
    for (const auto& statement : program->statements) {
        if (auto made = interpreter.run(statement); !made) return refused(made.error());
    }
    const auto result = interpreter.tensor("dst");
    return result ? *result : refused(result.error());
}

// ---- any calls ---------------------------------------------------------------------------------

namespace {

/// Builders called one after the other, each on what those before it made.
class RandomCalls {
public:
    RandomCalls(Context& context, Choices& choices, Trace& trace)
        : context_(context), choices_(choices), trace_(trace) {
        // Few extents, so that many of them agree.
        for (std::int64_t& extent : extents_) {
            extent = choices.pick<std::int64_t>({1, 2, 4, 32, 3, 8, 64, 256, 5, 16, 33, 0});
        }
    }

    Tensor* run() {
        const std::uint32_t leafs = 1 + choices_.below(5);
        for (std::uint32_t i = 0; i < leafs; ++i) add_leaf();
        if (pool_.empty()) return nullptr;
        Tensor* last = nullptr;
        const std::uint32_t calls = 1 + choices_.below(3);
        for (std::uint32_t i = 0; i < calls; ++i) {
            Tensor* made = call();
            if (made == nullptr) continue;
            pool_.push_back(made);
            last = made;
        }
        return last;
    }

private:
    std::int64_t any_extent() {
        return choices_.one_in(3) ? 1 : choices_.pick(std::span<std::int64_t>(extents_));
    }

    void add_leaf() {
        const std::int64_t extent[] = {choices_.pick(std::span<std::int64_t>(extents_)),
                                       any_extent(), any_extent(), any_extent()};
        const Type type = any_type(choices_);
        Tensor* leaf = ggml_new_tensor(&context_, type, 4, extent);
        trace_.line("leaf: type ", static_cast<int>(type), " of ", extent[0], ",", extent[1], ",",
                    extent[2], ",", extent[3], leaf == nullptr ? ": refused" : "");
        if (leaf != nullptr) pool_.push_back(leaf);
    }

    std::int64_t any_whole() {
        switch (choices_.below(4)) {
            case 0:
                return choices_.below(4);
            case 1:
                return any_extent();
            case 2:
                return choices_.between(-3, 9);
            default:
                return other_value(any_extent(), choices_);
        }
    }

    std::size_t any_size() {
        const Tensor& like = *choices_.pick(std::span<Tensor*>(pool_));
        if (choices_.one_in(4)) return static_cast<std::size_t>(any_whole());
        return like.nb[choices_.below(kMaxDims)] * choices_.below(3);
    }

    Value any_value(Parameter parameter) {
        const auto number = [](auto value) { return golden::Number{std::to_string(value)}; };
        switch (parameter) {
            case Parameter::tensor:
                if (choices_.one_in(12)) return golden::Null{};
                return choices_.pick(std::span<Tensor*>(pool_));
            case Parameter::truth:
                return choices_.one_in(2);
            case Parameter::type:
                return any_type(choices_);
            case Parameter::enumerator:
                return number(static_cast<std::int32_t>(choices_.one_in(6) ? any_whole()
                                                                           : choices_.below(20)));
            case Parameter::int32:
                return number(static_cast<std::int32_t>(any_whole()));
            case Parameter::int64:
                return number(any_whole());
            case Parameter::size:
                return number(any_size());
            case Parameter::real:
                return golden::Number{any_real(choices_)};
            case Parameter::list: {
                golden::IntegerList list;
                for (int i = 0; i < kMaxDims; ++i) {
                    list.push_back(static_cast<std::int32_t>(any_whole()));
                }
                return list;
            }
            default:
                return golden::Null{};
        }
    }

    std::string describe_value(const Value& value) const {
        if (const auto* digits = std::get_if<golden::Number>(&value)) return digits->digits;
        if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
        if (const auto* type = std::get_if<Type>(&value)) return std::to_string(*type);
        if (const auto* tensor = std::get_if<Tensor*>(&value)) return describe(**tensor);
        if (!std::holds_alternative<golden::IntegerList>(value)) return "NULL";
        std::string words = "{";
        for (const std::int64_t each : std::get<golden::IntegerList>(value)) {
            words += text(each, " ");
        }
        return words + "}";
    }

    Tensor* call() {
        const golden::Builder& builder = choices_.pick(golden::all_builders());
        std::vector<Value> values;
        for (const Parameter parameter : builder.function.parameters) {
            if (parameter == Parameter::graph) return nullptr;
            values.push_back(any_value(parameter));
        }
        std::string words;
        for (const Value& value : values) {
            if (trace_.is_wanted()) words += text(words.empty() ? "" : ", ", describe_value(value));
        }
        trace_.line(builder.name, "(", words, ")");
        heddle_clear_error();
        const auto made = builder.function.call(context_, values);
        Tensor* const* tensor = made ? std::get_if<Tensor*>(&*made) : nullptr;
        if (tensor != nullptr && *tensor != nullptr) return *tensor;
        trace_.line("refused: ", made ? heddle_last_error() : made.error().message);
        return nullptr;
    }

    Context& context_;
    Choices& choices_;
    Trace& trace_;
    std::array<std::int64_t, 3> extents_{};
    std::vector<Tensor*> pool_;
};

}  // namespace

Tensor* call_anything(Context& context, Choices& choices, Trace& trace) {
    return RandomCalls(context, choices, trace).run();
}

}  // namespace heddle::campaign
