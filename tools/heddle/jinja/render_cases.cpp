#include <iostream>
#include <nlohmann/json.hpp>

#include "jinja/template.hpp"

/// For the test that compares with Python's Jinja: reads a list of {source, variables} as JSON from
/// standard input, and writes a list of {text} or {error}. Texts among the variables are marked as
/// said by others; "marks" has 's' for each byte of them that comes out, else 't'.
namespace heddle::tool::jinja {
namespace {

Result<Value> value_of(const nlohmann::ordered_json& json) {
    if (json.is_null()) return Value(None{});
    if (json.is_boolean()) return Value(json.get<bool>());
    if (json.is_number_integer()) return Value(json.get<std::int64_t>());
    if (json.is_number()) return Value(json.get<double>());
    if (json.is_string()) return said_text(json.get<std::string>());
    if (json.is_array()) {
        std::vector<Value> items;
        for (const auto& element : json) {
            HEDDLE_TRY_ASSIGN(Value item, value_of(element));
            items.push_back(std::move(item));
        }
        return Value::list(std::move(items));
    }
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [key, element] : json.items()) {
        HEDDLE_TRY_ASSIGN(Value value, value_of(element));
        entries.emplace_back(own_text(key), std::move(value));
    }
    return Value::dictionary(std::move(entries));
}

Result<Text> rendered(const nlohmann::ordered_json& given) {
    HEDDLE_TRY_ASSIGN(const Template made, Template::parse(given["source"].get<std::string>()));
    std::map<std::string, Value> variables;
    for (const auto& [name, element] : given["variables"].items()) {
        HEDDLE_TRY_ASSIGN(variables[name], value_of(element));
    }
    return made.render(variables);
}

}  // namespace
}  // namespace heddle::tool::jinja

int main() {
    const auto cases = nlohmann::ordered_json::parse(std::cin);
    nlohmann::json results = nlohmann::json::array();
    for (const auto& given : cases) {
        const auto made = heddle::tool::jinja::rendered(given);
        if (!made) {
            results.push_back({{"error", made.error().message}});
            continue;
        }
        std::string marks;
        for (std::size_t i = 0; i < made->size(); ++i) {
            marks += static_cast<char>(made->origin(i));
        }
        results.push_back({{"text", made->bytes()}, {"marks", marks}});
    }
    std::cout << results.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}
