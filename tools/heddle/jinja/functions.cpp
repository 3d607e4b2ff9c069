#include <ctime>

#include "jinja/builtins.hpp"

/// Functions that every template knows.
namespace heddle::tool::jinja {
namespace {

/// A builtin as a value.
class Named final : public Function {
public:
    explicit Named(const Builtin& builtin) : builtin_(builtin) {}
    Result<Value> call(State& state, Arguments arguments) const override {
        return run(state, builtin_, Value(), std::move(arguments));
    }

private:
    const Builtin& builtin_;
};

/// `namespace(a=1)` and `dict(a=1)` take any names.
class NamespaceMaker final : public Function {
public:
    Result<Value> call(State&, Arguments arguments) const override {
        auto space = std::make_shared<Namespace>();
        if (!arguments.values.empty()) {
            const Dictionary* const first = arguments.values.front().dictionary();
            if (first == nullptr || arguments.values.size() > 1) {
                return invalid("namespace takes names with values");
            }
            for (const auto& [key, value] : first->entries) {
                HEDDLE_TRY_ASSIGN(const Text* const name, need_text(key, "namespace"));
                space->entries.emplace_back(name->bytes(), value);
            }
        }
        for (auto& entry : arguments.named) space->entries.push_back(std::move(entry));
        for (const auto& [name, value] : space->entries) {
            if (value.space() != nullptr) return invalid("a namespace in a namespace");
        }
        return Value(std::move(space));
    }
};

class DictionaryMaker final : public Function {
public:
    Result<Value> call(State&, Arguments arguments) const override {
        std::vector<std::pair<Value, Value>> entries;
        if (!arguments.values.empty()) {
            const Dictionary* const first = arguments.values.front().dictionary();
            if (first == nullptr || arguments.values.size() > 1) {
                return invalid("dict takes a dictionary, and names with values");
            }
            entries = first->entries;
        }
        for (auto& [name, value] : arguments.named) {
            entries.emplace_back(own_text(name), std::move(value));
        }
        return Value::dictionary(std::move(entries));
    }
};

Result<Value> range(State& state, const Call& call) {
    constexpr std::int64_t kMost = 100'000;
    std::int64_t begin = 0, end = 0, step = 1;
    HEDDLE_TRY_ASSIGN(end, need_whole(call[0], "range"));
    if (!call[1].is_undefined()) {
        begin = end;
        HEDDLE_TRY_ASSIGN(end, need_whole(call[1], "range"));
    }
    if (!call[2].is_undefined()) {
        HEDDLE_TRY_ASSIGN(step, need_whole(call[2], "range"));
    }
    if (step == 0) return invalid("range: the step is 0");
    std::vector<Value> items;
    for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
        HEDDLE_TRY(state.spend(1));
        if (items.size() == kMost) return invalid("range: more than ", kMost, " numbers");
        items.emplace_back(i);
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return Value::list(std::move(items));
}

Result<Value> raise(State& state, const Call& call) {
    HEDDLE_TRY_ASSIGN(const Text sentence, to_text(state, call[0]));
    return invalid(sentence.bytes());
}

Result<Value> time_text(State&, const Call& call) {
    constexpr std::size_t kMostBytes = 100;
    constexpr std::string_view kKnown = "aAbBcdDeFgGHIjklmMnpPrRsSTuUVwWxXyYzZC%-";
    HEDDLE_TRY_ASSIGN(const Text* const format, need_text(call[0], "strftime_now"));
    const std::string_view text = format->view();
    if (text.size() > kMostBytes)
        return invalid("strftime_now: a format of ", text.size(), " bytes");
    for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 2)) {
        if (at + 1 < text.size() && kKnown.find(text[at + 1]) != std::string::npos) continue;
        return invalid("strftime_now: there is no such format as '", text, "'");
    }
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char made[4096];
    const std::size_t size = std::strftime(made, sizeof made, format->bytes().c_str(), &local);
    return own_text(std::string(made, size));
}

constexpr Builtin kFunctions[] = {
    {"range", "start stop? step?", range},
    {"raise_exception", "message", raise},
    {"strftime_now", "format", time_text},
};

}  // namespace

void add_functions(State& state) {
    for (const Builtin& builtin : kFunctions) {
        state.set(std::string(builtin.name),
                  Value(Value::FunctionPtr(std::make_shared<const Named>(builtin))));
    }
    state.set("namespace", Value(Value::FunctionPtr(std::make_shared<const NamespaceMaker>())));
    state.set("dict", Value(Value::FunctionPtr(std::make_shared<const DictionaryMaker>())));
}

}  // namespace heddle::tool::jinja
