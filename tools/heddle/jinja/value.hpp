#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/result.hpp"
#include "jinja/text.hpp"

namespace heddle::tool::jinja {

class Value;
class State;

/// What a name or key stands for that there is not.
struct Undefined {
    std::string what;  ///< as a failure names it
};
struct None {};

struct Sequence {
    std::vector<Value> items;
    bool is_tuple = false;
    std::size_t height = 1;  ///< of lists in lists
};

/// Keys keep the order in which they came.
struct Dictionary {
    std::vector<std::pair<Value, Value>> entries;
    std::size_t height = 1;
};

/// The one thing that changes: `{% set ns.found = true %}`.
struct Namespace {
    std::vector<std::pair<std::string, Value>> entries;
};

struct Arguments {
    std::vector<Value> values;
    std::vector<std::pair<std::string, Value>> named;
};

class Function {
public:
    Function() = default;
    Function(const Function&) = delete;
    Function& operator=(const Function&) = delete;
    virtual ~Function() = default;
    virtual Result<Value> call(State& state, Arguments arguments) const = 0;
};

class Value {
public:
    using TextPtr = std::shared_ptr<const Text>;
    using SequencePtr = std::shared_ptr<const Sequence>;
    using DictionaryPtr = std::shared_ptr<const Dictionary>;
    using NamespacePtr = std::shared_ptr<Namespace>;
    using FunctionPtr = std::shared_ptr<const Function>;

    Value() : of_(Undefined{"a value"}) {}
    Value(Undefined undefined) : of_(std::move(undefined)) {}
    Value(None none) : of_(none) {}
    Value(bool truth) : of_(truth) {}
    Value(std::int64_t number) : of_(number) {}
    Value(double number) : of_(number) {}
    Value(Text text) : of_(std::make_shared<const Text>(std::move(text))) {}
    Value(NamespacePtr space) : of_(std::move(space)) {}
    Value(FunctionPtr function) : of_(std::move(function)) {}
    Value(const char*) = delete;  // it would be a truth

    /// Fail for what is nested too deeply; namespaces and functions cannot be in anything.
    static Result<Value> list(std::vector<Value> items, bool is_tuple = false);
    static Result<Value> dictionary(std::vector<std::pair<Value, Value>> entries);

    template <class T>
    bool is() const {
        return std::holds_alternative<T>(of_);
    }
    template <class T>
    const T* as() const {
        return std::get_if<T>(&of_);
    }
    bool is_undefined() const { return is<Undefined>(); }
    bool is_number() const { return is<bool>() || is<std::int64_t>() || is<double>(); }
    bool is_whole() const { return is<bool>() || is<std::int64_t>(); }
    const Text* text() const { return pointee<TextPtr>(); }
    const Sequence* sequence() const { return pointee<SequencePtr>(); }
    const Dictionary* dictionary() const { return pointee<DictionaryPtr>(); }
    Namespace* space() const {
        const auto* const pointer = as<NamespacePtr>();
        return pointer != nullptr ? pointer->get() : nullptr;
    }
    FunctionPtr function() const {
        const auto* const pointer = as<FunctionPtr>();
        return pointer != nullptr ? *pointer : nullptr;
    }
    std::int64_t whole() const;  ///< of a truth or a whole number
    double real() const;         ///< of any number

    /// "a list", for sentences.
    std::string kind() const;

private:
    explicit Value(SequencePtr sequence) : of_(std::move(sequence)) {}
    explicit Value(DictionaryPtr dictionary) : of_(std::move(dictionary)) {}

    template <class Pointer>
    auto pointee() const -> decltype(std::declval<Pointer>().get()) {
        const auto* const pointer = std::get_if<Pointer>(&of_);
        return pointer != nullptr ? pointer->get() : nullptr;
    }

    std::variant<Undefined, None, bool, std::int64_t, double, TextPtr, SequencePtr, DictionaryPtr,
                 NamespacePtr, FunctionPtr>
        of_;
};

/// Words of the template.
inline Value own_text(std::string bytes) {
    return Text(std::move(bytes), Text::Origin::of_template);
}
/// Words of others.
inline Value said_text(std::string bytes) { return Text(std::move(bytes), Text::Origin::said); }

}  // namespace heddle::tool::jinja
