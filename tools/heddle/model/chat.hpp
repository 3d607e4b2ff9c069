#pragma once

#include <string>
#include <string_view>

#include "heddle/heddle.hpp"
#include "model/passage.hpp"

namespace heddle::tool {

/// How a model wants to see who says what.
class ChatTemplate {
public:
    /// The one of the file, found by what its template contains; fails where it has none that is
    /// known.
    static Result<ChatTemplate> of(const ModelFile& file);

    /// For a template's source; `whose` names it in an error.
    static Result<ChatTemplate> of(std::string_view source, std::string_view whose);

    /// What the model reads before its first answer. Without a `system` message there is the one
    /// that the template has for that case, if any.
    Passages first(std::string_view user, std::string_view system = {}) const;

    /// What it reads between an answer, without the token that ended it, and the next one.
    Passages next(std::string_view user) const;

    std::string_view name() const;

private:
    struct Form;
    static const Form kForms[];

    explicit ChatTemplate(const Form& form, std::string system)
        : form_(&form), own_system_(std::move(system)) {}

    const Form* form_;
    std::string own_system_;  ///< for conversations that come without one
};

}  // namespace heddle::tool
