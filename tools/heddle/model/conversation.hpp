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
        std::vector<Token> tokens;  ///< of the message, with the words of the template around it
        std::size_t left_out = 0;   ///< older messages that had to go; if any, `tokens()` is new
    };

    /// Adds a message. If it leaves too little room for an answer, the oldest messages are left
    /// out with their answers, until half of the context is free; the system message stays. Fails
    /// if the message does not even fit alone, and then changes nothing.
    Result<Asked> ask(std::string message);

    /// Adds to the answer to the last message.
    void answer(Token token);

    /// All that is to be read.
    const std::vector<Token>& tokens() const { return tokens_; }

private:
    struct Turn {
        std::string message;
        std::vector<Token> answer;
    };

    std::vector<Token> encoded(const std::string& message, bool first) const;
    std::vector<Token> all_turns() const;

    const Tokenizer& tokenizer_;
    std::optional<ChatTemplate> chat_;
    std::string system_;
    Limits limits_;
    std::vector<Turn> turns_;
    std::vector<Token> tokens_;
};

}  // namespace heddle::tool
