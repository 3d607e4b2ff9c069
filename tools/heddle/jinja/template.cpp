#include "jinja/template.hpp"

#include "jinja/builtins.hpp"
#include "jinja/parser.hpp"

namespace heddle::tool::jinja {

Result<Template> Template::parse(std::string_view source) {
    constexpr std::size_t kMostBytes = std::size_t{1} << 20;
    if (source.size() > kMostBytes) {
        return invalid("a template of ", source.size(), " bytes; the most is ", kMostBytes);
    }
    HEDDLE_TRY_ASSIGN(Body body, jinja::parse(source));
    return Template(std::move(body));
}

Result<Text> Template::render(const std::map<std::string, Value>& variables,
                              const Limits& limits) const {
    State state(limits);
    add_functions(state);
    for (const auto& [name, value] : variables) state.set(name, value);
    HEDDLE_TRY(run_all(body_, state));
    return state.output();
}

}  // namespace heddle::tool::jinja
