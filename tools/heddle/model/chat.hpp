#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/heddle.hpp"
#include "model/passage.hpp"

namespace heddle::tool {

/// Something that was said.
struct ChatMessage {
    enum class Role { system, user, assistant };
    Role role = Role::user;
    std::string text;
};

std::string_view name_of(ChatMessage::Role role);

/// How a model wants to see who says what: a little program in a subset of Jinja.
class ChatTemplate {
public:
    /// The one of the file; fails where it has none that can be used.
    static Result<ChatTemplate> of(const ModelFile& file);

    /// For a template's source; `whose` names it in an error. `bos` and `eos` are the texts of the
    /// tokens that begin and end a text.
    static Result<ChatTemplate> of(std::string_view source, std::string_view whose,
                                   std::string bos = "", std::string eos = "");

    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;
    ~ChatTemplate();

    /// What the model reads before it answers the last message. Without a system message there may
    /// be one that the template has for that case. Fails where the template refuses.
    Result<Passages> render(std::span<const ChatMessage> messages) const;

private:
    struct Parts;
    explicit ChatTemplate(std::unique_ptr<Parts> parts);
    Result<> learn_ways();
    Result<bool> shows(std::span<const ChatMessage> messages, std::string_view needle) const;

    std::unique_ptr<Parts> parts_;
};

}  // namespace heddle::tool
