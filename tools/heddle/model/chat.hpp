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

    /// A message as the model sees it; `first`: nothing came before.
    std::string wrap(const Message& message, bool first) const;

    /// What comes before an answer.
    std::string answer() const { return answer_; }
    std::string_view name() const { return name_; }

private:
    std::string_view name_;
    std::string begin_;                      ///< of the conversation
    std::string before_, between_, after_;   ///< before_ ROLE between_ TEXT after_
    std::string user_, system_, assistant_;  ///< what the roles are called
    std::string answer_;
};

}  // namespace heddle::tool
