#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/heddle.hpp"

namespace heddle::tool {

/// How a model wants to see who says what.
class ChatTemplate {
public:
    struct Message {
        std::string role;  ///< "system", "user" or "assistant"
        std::string text;
    };

    /// The one of the file, found by what its template contains; fails where it has none that is
    /// known.
    static Result<ChatTemplate> of(const ModelFile& file);

    /// A message as the model sees it.
    std::string wrap(const Message& message) const;

    /// What comes before an answer.
    std::string answer() const;
    std::string_view name() const { return form_->name; }

private:
    /// before ROLE between TEXT after
    struct Form {
        std::string_view name;
        std::string_view mark;  ///< what a template of this form contains
        std::string_view before, between, after;
        std::string_view system = "system", assistant = "assistant";  ///< what roles are called
    };
    static const Form kForms[];

    explicit ChatTemplate(const Form& form) : form_(&form) {}

    const Form* form_;
};

}  // namespace heddle::tool
