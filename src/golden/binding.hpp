#pragma once

#include <charconv>
#include <tuple>
#include <type_traits>
#include <utility>

#include "golden/interpreter.hpp"

/// From a C function to a `Builder`: the kinds of its arguments are read off its type.
namespace heddle::golden {

/// What a text gives for one parameter of type `T`. Lives as long as the call.
template <class T>
struct Argument;

inline Error wrong_kind(const Value& value, std::string_view wanted) {
    return failure(Errc::corrupt, "wants ", wanted, ", not ", kind_of(value));
}

template <class T>
Result<T> parse_number(const Value& value, std::string_view wanted) {
    const auto* number = std::get_if<Number>(&value);
    if (number == nullptr) return wrong_kind(value, wanted);
    const std::string& digits = number->digits;
    T parsed{};
    const auto [end, failed] =
        std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
    if (failed == std::errc{} && end == digits.data() + digits.size()) return parsed;
    return failure(Errc::corrupt, "wants ", wanted, ", not ", digits);
}

template <class T>
requires std::is_arithmetic_v<T>
struct Argument<T> {
    T value{};

    Result<> set(const Value& given) {
        HEDDLE_TRY_ASSIGN(
            value,
            parse_number<T>(given, std::is_integral_v<T> ? "an integer in range" : "a number"));
        return ok();
    }
    T get() { return value; }
};

template <>
struct Argument<bool> {
    bool value = false;

    Result<> set(const Value& given) {
        const auto* truth = std::get_if<bool>(&given);
        if (truth == nullptr) return wrong_kind(given, "true or false");
        value = *truth;
        return ok();
    }
    bool get() const { return value; }
};

template <>
struct Argument<Type> {
    Type value{};

    Result<> set(const Value& given) {
        const auto* type = std::get_if<Type>(&given);
        if (type == nullptr) return wrong_kind(given, "a type");
        value = *type;
        return ok();
    }
    Type get() const { return value; }
};

/// Other enumerations are written as numbers.
template <class T>
requires std::is_enum_v<T>
struct Argument<T> {
    T value{};

    Result<> set(const Value& given) {
        HEDDLE_TRY_ASSIGN(const int number,
                          parse_number<int>(given, "the number of an enumerator"));
        value = static_cast<T>(number);
        return ok();
    }
    T get() { return value; }
};

template <>
struct Argument<Tensor*> {
    Tensor* value = nullptr;

    Result<> set(const Value& given) {
        if (std::holds_alternative<Null>(given)) return ok();
        const auto* tensor = std::get_if<Tensor*>(&given);
        if (tensor == nullptr) return wrong_kind(given, "a tensor");
        value = *tensor;
        return ok();
    }
    Tensor* get() const { return value; }
};

template <>
struct Argument<Graph*> {
    Graph* value = nullptr;

    Result<> set(const Value& given) {
        const auto* graph = std::get_if<Graph*>(&given);
        if (graph == nullptr) return wrong_kind(given, "a graph");
        value = *graph;
        return ok();
    }
    Graph* get() const { return value; }
};

template <>
struct Argument<const Tensor*> : Argument<Tensor*> {};

template <>
struct Argument<const Graph*> : Argument<Graph*> {};

/// Lists of tensors are optional, and no text has one.
template <>
struct Argument<Tensor**> {
    Result<> set(const Value& given) {
        if (std::holds_alternative<Null>(given)) return ok();
        return wrong_kind(given, "NULL");
    }
    Tensor** get() const { return nullptr; }
};

/// Arrays have an element for each dimension.
template <class T>
requires std::is_integral_v<T>
struct Argument<T*> {
    std::array<T, kMaxDims> values{};

    Result<> set(const Value& given) {
        const auto* list = std::get_if<IntegerList>(&given);
        if (list == nullptr) return wrong_kind(given, "a list");
        if (list->size() != values.size()) {
            return failure(Errc::corrupt, "wants a list of ", values.size(), ", not of ",
                           list->size());
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (!std::in_range<T>((*list)[i])) {
                return failure(Errc::corrupt, "list element ", (*list)[i], " is out of range");
            }
            values[i] = static_cast<T>((*list)[i]);
        }
        return ok();
    }
    T* get() { return values.data(); }
};

template <class Tuple, std::size_t... I>
Result<> set_all(Tuple& arguments, std::span<const Value> given, std::index_sequence<I...>) {
    Result<> result = ok();
    const auto set_one = [&](auto& argument, std::size_t index) {
        result = argument.set(given[index]);
        if (!result) result = std::move(result).error().within(text("argument ", index + 1));
        return result.has_value();
    };
    (set_one(std::get<I>(arguments), I) && ...);
    return result;
}

/// Reads the arguments, then hands them to `function`.
template <class Returned, class... Parameters, class Function>
Result<Value> call_with(Function function, std::span<const Value> given) {
    if (given.size() != sizeof...(Parameters)) {
        return failure(Errc::corrupt, "wants ", sizeof...(Parameters), " arguments, not ",
                       given.size());
    }
    std::tuple<Argument<Parameters>...> arguments;
    HEDDLE_TRY(set_all(arguments, given, std::index_sequence_for<Parameters...>{}));
    return std::apply(
        [&](auto&... argument) -> Value {
            if constexpr (std::is_void_v<Returned>) {
                function(argument.get()...);
                return Null{};
            } else {
                return function(argument.get()...);
            }
        },
        arguments);
}

template <class T>
constexpr Parameter parameter_of() {
    using Pointed = std::remove_const_t<std::remove_pointer_t<T>>;
    if constexpr (std::is_same_v<T, Tensor**>)
        return Parameter::tensors;
    else if constexpr (std::is_same_v<Pointed, Tensor>)
        return Parameter::tensor;
    else if constexpr (std::is_same_v<Pointed, Graph>)
        return Parameter::graph;
    else if constexpr (std::is_pointer_v<T>)
        return Parameter::list;
    else if constexpr (std::is_same_v<T, bool>)
        return Parameter::truth;
    else if constexpr (std::is_same_v<T, Type>)
        return Parameter::type;
    else if constexpr (std::is_enum_v<T>)
        return Parameter::enumerator;
    else if constexpr (std::is_floating_point_v<T>)
        return Parameter::real;
    else if constexpr (std::is_unsigned_v<T>)
        return Parameter::size;
    else
        return sizeof(T) == 4 ? Parameter::int32 : Parameter::int64;
}

/// Functions that make something take the context first; texts leave it out.
template <class Returned, class... Parameters>
Callable bind(Returned (*function)(Context*, Parameters...)) {
    return {[function](Context& context, std::span<const Value> given) {
                const auto in_context = [&](Parameters... values) {
                    return function(&context, values...);
                };
                return call_with<Returned, Parameters...>(in_context, given);
            },
            {parameter_of<Parameters>()...}};
}

/// Setters take no context.
template <class Returned, class... Parameters>
Callable bind(Returned (*function)(Parameters...)) {
    return {[function](Context&, std::span<const Value> given) {
                return call_with<Returned, Parameters...>(function, given);
            },
            {parameter_of<Parameters>()...}};
}

}  // namespace heddle::golden
