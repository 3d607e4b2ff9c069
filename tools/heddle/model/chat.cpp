#include "model/chat.hpp"

#include "jinja/template.hpp"
#include "model/vocabulary.hpp"

namespace heddle::tool {

struct ChatTemplate::Parts {
    jinja::Template made;
    std::string bos, eos;
    bool system_is_inside = false;  ///< the first user's words, where the template has no place
    bool has_parts = false;         ///< a message is a list of parts, of which texts are one kind
};

namespace {

using jinja::Value;
using Role = ChatMessage::Role;

/// Where a template has no place for a system message, the first user says it.
std::vector<ChatMessage> without_system(std::span<const ChatMessage> messages) {
    std::vector<ChatMessage> made(messages.begin(), messages.end());
    if (made.size() < 2 || made.front().role != Role::system) return made;
    made[1].text.insert(0, made.front().text + "\n\n");
    made.erase(made.begin());
    return made;
}

Result<Value> entries(std::vector<std::pair<Value, Value>> entries) {
    return Value::dictionary(std::move(entries));
}

Result<Value> message_value(const ChatMessage& message, bool has_parts) {
    Value content = jinja::said_text(message.text);
    if (has_parts) {
        HEDDLE_TRY_ASSIGN(Value part, entries({{jinja::own_text("type"), jinja::own_text("text")},
                                               {jinja::own_text("text"), content}}));
        HEDDLE_TRY_ASSIGN(content, Value::list({std::move(part)}));
    }
    return entries({{jinja::own_text("role"), jinja::own_text(std::string(name_of(message.role)))},
                    {jinja::own_text("content"), std::move(content)}});
}

/// Parts that one says are together.
Passages passages_of(const jinja::Text& text) {
    Passages passages;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool own = text.origin(i) == jinja::Text::Origin::of_template;
        if (passages.empty() || passages.back().of_template != own) passages.push_back({"", own});
        passages.back().text += text.view()[i];
    }
    return passages;
}

}  // namespace

std::string_view name_of(ChatMessage::Role role) {
    return role == Role::system ? "system" : role == Role::user ? "user" : "assistant";
}

ChatTemplate::ChatTemplate(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::of(const ModelFile& file) {
    HEDDLE_TRY_ASSIGN(const std::string source, file.text("tokenizer.chat_template"));
    HEDDLE_TRY_ASSIGN(const Vocabulary words, Vocabulary::read(file));
    const auto piece = [&](Token token) {
        return token == kNoToken ? "" : words.pieces[static_cast<std::size_t>(token)];
    };
    return of(source, file.path(), piece(words.bos), piece(words.eos));
}

Result<ChatTemplate> ChatTemplate::of(std::string_view source, std::string_view whose,
                                      std::string bos, std::string eos) {
    const auto within = [&](Error error) {
        error.code = Errc::unsupported;
        return std::move(error).within(text(whose, ": its chat template cannot be used"));
    };
    auto made = jinja::Template::parse(source);
    if (!made) return within(std::move(made).error());
    ChatTemplate chat(
        std::make_unique<Parts>(Parts{*std::move(made), std::move(bos), std::move(eos)}));
    if (auto learned = chat.learn_ways(); !learned) return within(std::move(learned).error());
    return chat;
}

/// What a template makes of a message can only be seen by asking it.
Result<> ChatTemplate::learn_ways() {
    constexpr const char* kSaid = "warp";
    constexpr const char* kSystem = "weft";
    const ChatMessage user{Role::user, kSaid}, system{Role::system, kSystem};
    auto shown = shows(std::vector{user}, kSaid);
    if (!shown || !*shown) {
        parts_->has_parts = true;
        auto in_parts = shows(std::vector{user}, kSaid);
        if (!in_parts || !*in_parts) {
            if (!shown) return std::move(shown).error();
            return invalid("it leaves out what the user says");
        }
    }
    const auto has_system = shows(std::vector{system, user}, kSystem);
    parts_->system_is_inside = !has_system || !*has_system;
    return ok();
}

Result<bool> ChatTemplate::shows(std::span<const ChatMessage> messages,
                                 std::string_view needle) const {
    HEDDLE_TRY_ASSIGN(const Passages made, render(messages));
    for (const Passage& passage : made) {
        if (passage.text.find(needle) != std::string::npos) return true;
    }
    return false;
}

Result<Passages> ChatTemplate::render(std::span<const ChatMessage> messages) const {
    std::vector<Value> list;
    std::vector<ChatMessage> merged;
    if (parts_->system_is_inside) messages = merged = without_system(messages);
    for (const ChatMessage& message : messages) {
        HEDDLE_TRY_ASSIGN(Value value, message_value(message, parts_->has_parts));
        list.push_back(std::move(value));
    }
    HEDDLE_TRY_ASSIGN(Value all, Value::list(std::move(list)));
    HEDDLE_TRY_ASSIGN(const jinja::Text text,
                      parts_->made.render({{"messages", std::move(all)},
                                           {"add_generation_prompt", true},
                                           {"bos_token", jinja::own_text(parts_->bos)},
                                           {"eos_token", jinja::own_text(parts_->eos)},
                                           {"tools", jinja::None{}},
                                           {"documents", jinja::None{}}}));
    return passages_of(text);
}

}  // namespace heddle::tool
