#include "model/conversation.hpp"

namespace heddle::tool {
namespace {

void append(std::vector<Token>& to, const std::vector<Token>& more) {
    to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

std::vector<Token> Conversation::encoded(const std::string& message, bool first) const {
    if (!chat_) return tokenizer_.encode(message, first);
    return tokenizer_.encode(first ? chat_->first(message, system_) : chat_->next(message), first);
}

std::vector<Token> Conversation::all_turns() const {
    std::vector<Token> tokens;
    for (const Turn& turn : turns_) {
        append(tokens, encoded(turn.message, &turn == &turns_.front()));
        append(tokens, turn.answer);
    }
    return tokens;
}

Result<Conversation::Asked> Conversation::ask(std::string message) {
    const std::vector<Token> alone = encoded(message, true);
    if (alone.size() > limits_.context) {
        return invalid("the prompt is ", alone.size(), " tokens long",
                       chat_ ? " with the words of the template" : "",
                       ", the context has room for ", limits_.context,
                       ": shorten it, or give --context ", alone.size() + limits_.answer);
    }
    Asked asked{turns_.empty() ? alone : encoded(message, false)};
    turns_.push_back({std::move(message), {}});
    append(tokens_, asked.tokens);
    if (turns_.size() == 1 || tokens_.size() + limits_.answer <= limits_.context) return asked;
    // More than is needed now: what stays must be read again, which should happen rarely.
    do {
        turns_.erase(turns_.begin());
        ++asked.left_out;
        tokens_ = all_turns();
    } while (tokens_.size() > limits_.context / 2 && turns_.size() > 1);
    if (turns_.size() == 1) asked.tokens = tokens_;
    return asked;
}

void Conversation::answer(Token token) {
    turns_.back().answer.push_back(token);
    tokens_.push_back(token);
}

}  // namespace heddle::tool
