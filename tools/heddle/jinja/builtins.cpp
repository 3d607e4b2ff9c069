#include "jinja/builtins.hpp"

#include <algorithm>

namespace heddle::tool::jinja {
namespace {

struct Parameter {
    std::string_view name;
    bool is_optional;
};

struct Signature {
    explicit Signature(std::string_view text) {
        while (!text.empty()) {
            const std::size_t end = std::min(text.find(' '), text.size());
            std::string_view word = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            if (word == "*") {
                takes_more = true;
                places = parameters.size();
                continue;
            }
            const bool is_optional = word.ends_with('?');
            if (is_optional) word.remove_suffix(1);
            parameters.push_back({word, is_optional});
        }
        if (!takes_more) places = parameters.size();
    }

    std::vector<Parameter> parameters;
    std::size_t places = 0;  ///< parameters that may be given by place
    bool takes_more = false;
};

/// A method with what it belongs to.
class Bound final : public Function {
public:
    Bound(const Builtin& builtin, Value self) : builtin_(builtin), self_(std::move(self)) {}
    Result<Value> call(State& state, Arguments arguments) const override {
        return run(state, builtin_, self_, std::move(arguments));
    }

private:
    const Builtin& builtin_;
    Value self_;
};

}  // namespace

Result<Value> run(State& state, const Builtin& builtin, const Value& self, Arguments arguments) {
    const Signature signature(builtin.parameters);
    Call call{self, std::vector<Value>(signature.parameters.size()), {}};
    for (std::size_t i = 0; i < arguments.values.size(); ++i) {
        if (i < signature.places) {
            call.values[i] = std::move(arguments.values[i]);
        } else if (signature.takes_more) {
            call.rest.push_back(std::move(arguments.values[i]));
        } else {
            return invalid(builtin.name, ": ", arguments.values.size(), " arguments, it takes ",
                           signature.places);
        }
    }
    for (auto& [name, value] : arguments.named) {
        const auto found = std::ranges::find(signature.parameters, name, &Parameter::name);
        if (found == signature.parameters.end()) {
            return invalid(builtin.name, ": there is no argument '", name, "'");
        }
        call.values[static_cast<std::size_t>(found - signature.parameters.begin())] =
            std::move(value);
    }
    for (std::size_t i = 0; i < call.values.size(); ++i) {
        const bool is_missing = i >= arguments.values.size() && call.values[i].is_undefined();
        if (is_missing && !signature.parameters[i].is_optional) {
            return invalid(builtin.name, ": the argument '", signature.parameters[i].name,
                           "' is missing");
        }
    }
    // Most of them look at all of it.
    HEDDLE_TRY(state.spend_text(self.text() != nullptr ? self.text()->size() : 1));
    return builtin.body(state, call);
}

const Builtin* find_filter(std::string_view name) {
    for (const auto filters : {plain_filters(), list_filters()}) {
        const auto found = std::ranges::find(filters, name, &Builtin::name);
        if (found != filters.end()) return &*found;
    }
    return nullptr;
}

Value find_method(const Value& of, const std::string& name) {
    std::span<const Builtin> methods;
    if (of.text() != nullptr) methods = text_methods();
    if (of.sequence() != nullptr) methods = list_methods();
    if (of.dictionary() != nullptr) methods = dictionary_methods();
    const auto found = std::ranges::find(methods, std::string_view(name), &Builtin::name);
    if (found == methods.end()) return Undefined{"'" + name + "'"};
    return Value(Value::FunctionPtr(std::make_shared<const Bound>(*found, of)));
}

Result<const Text*> need_text(const Value& value, std::string_view who) {
    if (const Text* const text = value.text()) return text;
    return invalid(who, " needs a text, not ", value.kind());
}

Result<std::int64_t> need_whole(const Value& value, std::string_view who) {
    if (value.is_whole()) return value.whole();
    return invalid(who, " needs a whole number, not ", value.kind());
}

Result<Value> replace_all(State& state, const Text& text, const Text& from, const Text& to,
                          std::size_t most) {
    HEDDLE_TRY(state.spend_search(text.size(), from.size()));
    // At most one for each byte, and one more.
    const std::size_t places = text.size() / std::max<std::size_t>(from.size(), 1) + 1;
    std::size_t found = 0;
    for (std::size_t at = 0; from.size() > 0 && found < places; ++found) {
        at = text.view().find(from.view(), at);
        if (at == std::string::npos) break;
        at += from.size();
    }
    if (from.empty()) found = places;
    HEDDLE_TRY(state.spend_text(text.size() + std::min(found, most) * to.size()));
    return Value(replaced(text, from.view(), to, most));
}

}  // namespace heddle::tool::jinja
