#pragma once

#include <map>
#include <string>
#include <string_view>

#include "jinja/nodes.hpp"

namespace heddle::tool::jinja {

/// A template that was understood.
class Template {
public:
    /// Fails with the line and what is wrong there.
    static Result<Template> parse(std::string_view source);

    /// What it makes of these variables. Fails where the template itself says so, where it asks for
    /// what there is not, or uses up more than `limits` allow.
    Result<Text> render(const std::map<std::string, Value>& variables,
                        const Limits& limits = {}) const;

private:
    explicit Template(Body body) : body_(std::move(body)) {}
    Body body_;
};

}  // namespace heddle::tool::jinja
