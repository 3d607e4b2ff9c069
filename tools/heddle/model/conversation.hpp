#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/chat.hpp"
#include "model/vocabulary.hpp"

namespace heddle::tool {

/// What was said so far, as the tokens that a model reads.
class Conversation {
public:
    struct Limits {
        std::size_t context = 0;  ///< most tokens in all
        std::size_t answer = 0;   ///< of them, what an answer should find free
    };

    /// Without a template messages are a text, as they stand, and there is no `system` message.
    Conversation(const Tokenizer& tokenizer, std::optional<ChatTemplate> chat, std::string system,
                 Limits limits)
        : tokenizer_(tokenizer),
          chat_(std::move(chat)),
          system_(std::move(system)),
          limits_(limits) {}

    struct Asked {
        std::vector<Token> tokens;  ///< that are new, with the words of the template
        std::size_t kept = 0;       ///< of what was read before, so many tokens come first
        std::size_t left_out = 0;   ///< older messages that had to go
    };

    /// Adds a message. If it leaves too little room for an answer, the oldest messages are left
    /// out with their answers, until half of the context is free; the system message stays. Fails
    /// if the message does not even fit alone, or the template refuses it, and then changes
    /// nothing.
    Result<Asked> ask(std::string message);

    /// Adds to the answer to the last message.
    void answer(Token token);

    /// The answer was only this much of what was added.
    void cut_answer(std::string text);

    /// All that is to be read.
    const std::vector<Token>& tokens() const { return tokens_; }

    bool has_template() const { return chat_.has_value(); }
    const std::string& system() const { return system_; }
    /// Counts from the next message on, as if it had been said at the beginning.
    void set_system(std::string system) { system_ = std::move(system); }

    /// The system message is among them, if there is one.
    std::vector<ChatMessage> messages() const;
    /// Goes on from there. Fails where an answer has no question. A last question
    /// without an answer is left out.
    Result<> restore(const std::vector<ChatMessage>& messages);
    void clear();

private:
    struct Turn {
        std::string message, answer;
        std::vector<Token> answer_tokens;  ///< where it was written here
    };

    /// From a turn on.
    Result<std::vector<Token>> encoded(std::size_t first) const;
    Result<std::vector<Token>> rendered(std::size_t first) const;
    std::vector<Token> joined(std::size_t first) const;

    const Tokenizer& tokenizer_;
    std::optional<ChatTemplate> chat_;
    std::string system_;
    Limits limits_;
    std::vector<Turn> turns_;
    std::vector<Token> tokens_;
};

}  // namespace heddle::tool
