#include "model/conversation.hpp"

#include <algorithm>

namespace heddle::tool {
namespace {

using Role = ChatMessage::Role;

void append(std::vector<Token>& to, const std::vector<Token>& more) {
    to.insert(to.end(), more.begin(), more.end());
}

/// Takes `name` away where a template begins with it: the tokenizer has a token for it.
bool drop_beginning(Passages& passages, const std::string& name) {
    if (passages.empty() || name.empty() || !passages.front().of_template ||
        !passages.front().text.starts_with(name)) {
        return false;
    }
    passages.front().text.erase(0, name.size());
    return true;
}

}  // namespace

std::vector<ChatMessage> Conversation::messages() const {
    std::vector<ChatMessage> made;
    if (!system_.empty()) made.push_back({Role::system, system_});
    for (const Turn& turn : turns_) {
        made.push_back({Role::user, turn.message});
        if (!turn.answer.empty()) made.push_back({Role::assistant, turn.answer});
    }
    return made;
}

Result<> Conversation::restore(const std::vector<ChatMessage>& messages) {
    std::string system;
    std::vector<Turn> turns;
    for (const auto& [role, text] : messages) {
        const bool is_first = turns.empty() && system.empty();
        if (role == Role::system && is_first) {
            system = text;
        } else if (role == Role::user) {
            turns.push_back({text, {}, {}});
        } else if (role == Role::assistant && !turns.empty() && turns.back().answer.empty()) {
            turns.back().answer = text;
        } else {
            return invalid("a message of '", name_of(role),
                           "' out of turn: user and assistant alternate");
        }
    }
    if (!turns.empty() && turns.back().answer.empty()) turns.pop_back();
    system_ = std::move(system);
    turns_ = std::move(turns);
    tokens_.clear();
    return ok();
}

void Conversation::clear() {
    turns_.clear();
    tokens_.clear();
}

Result<std::vector<Token>> Conversation::rendered(std::size_t first) const {
    std::vector<ChatMessage> said;
    if (!system_.empty()) said.push_back({Role::system, system_});
    for (std::size_t i = first; i < turns_.size(); ++i) {
        said.push_back({Role::user, turns_[i].message});
        if (i + 1 < turns_.size()) said.push_back({Role::assistant, turns_[i].answer});
    }
    HEDDLE_TRY_ASSIGN(Passages passages, chat_->render(said));
    const Vocabulary& words = tokenizer_.vocabulary();
    const std::string begin =
        words.bos == kNoToken ? "" : words.pieces[static_cast<std::size_t>(words.bos)];
    if (!drop_beginning(passages, begin)) return tokenizer_.encode(passages, true);
    std::vector<Token> tokens{words.bos};
    append(tokens, tokenizer_.encode(passages, false));
    return tokens;
}

std::vector<Token> Conversation::joined(std::size_t first) const {
    std::vector<Token> tokens;
    for (std::size_t i = first; i < turns_.size(); ++i) {
        const Turn& turn = turns_[i];
        append(tokens, tokenizer_.encode(turn.message, i == first));
        append(tokens, turn.answer_tokens.empty() ? tokenizer_.encode(turn.answer, false)
                                                  : turn.answer_tokens);
    }
    return tokens;
}

Result<std::vector<Token>> Conversation::encoded(std::size_t first) const {
    if (!chat_) return joined(first);
    return rendered(first);
}

Result<Conversation::Asked> Conversation::ask(std::string message) {
    turns_.push_back({std::move(message), {}, {}});
    // Whether it fits by itself; if not, it is as if it had never been said.
    auto alone = encoded(turns_.size() - 1);
    if (!alone || alone->size() > limits_.context) {
        turns_.pop_back();
        if (!alone) return std::move(alone).error();
        return invalid("the prompt is ", alone->size(), " tokens long",
                       chat_ ? " with the words of the template" : "",
                       ", the context has room for ", limits_.context,
                       ": shorten it, or give --context ", alone->size() + limits_.answer);
    }
    auto all = encoded(0);
    if (!all) {
        turns_.pop_back();
        return std::move(all).error();
    }
    Asked asked;
    if (turns_.size() > 1 && all->size() + limits_.answer > limits_.context) {
        // More than is needed now: what stays must be read again, which should happen rarely.
        do {
            turns_.erase(turns_.begin());
            ++asked.left_out;
            all = encoded(0);
            if (!all) return std::move(all).error();
        } while (all->size() > limits_.context / 2 && turns_.size() > 1);
    }
    const auto [end, same] = std::ranges::mismatch(tokens_, *all);
    asked.kept = static_cast<std::size_t>(end - tokens_.begin());
    // Something must be read for there to be an answer.
    if (asked.kept == all->size() && asked.kept > 0) --asked.kept;
    tokens_ = *std::move(all);
    asked.tokens.assign(tokens_.begin() + static_cast<std::ptrdiff_t>(asked.kept), tokens_.end());
    return asked;
}

void Conversation::answer(Token token) {
    turns_.back().answer_tokens.push_back(token);
    turns_.back().answer += tokenizer_.decode(token);
    tokens_.push_back(token);
}

void Conversation::cut_answer(std::string text) {
    turns_.back().answer = std::move(text);
    turns_.back().answer_tokens.clear();
}

}  // namespace heddle::tool
