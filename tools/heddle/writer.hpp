#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "model/conversation.hpp"
#include "model/generator.hpp"
#include "model/sampler.hpp"

namespace heddle::tool {

/// Tokens and the time they took.
struct Pace {
    std::size_t tokens = 0;
    double seconds = 0;
    double rate() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

/// Why a text ended.
enum class Finish { end, length, context, stop, interrupted };
std::string_view name_of(Finish finish);

/// Continues texts, and keeps count.
class Writer {
public:
    struct Options {
        std::int64_t tokens = 0;  ///< most of one answer
        Sampler::Options sampling;
        std::vector<std::string> stops;
        /// Gets the text in whole characters, with the tokens since the last time.
        std::function<void(std::string_view text, std::span<const Token> tokens)> show;
    };

    Writer(Generator& generator, Options options)
        : generator_(generator), options_(std::move(options)), sampler_(options_.sampling) {}

    /// Reads what is new, then writes up to the end of the text, a word that stops it, the number
    /// of tokens asked for, the end of the context, or Ctrl-C.
    Result<> answer(Conversation& conversation);

    const std::vector<Token>& ids() const { return ids_; }
    const std::string& text() const { return text_; }
    const Pace& prefill() const { return prefill_; }
    const Pace& decode() const { return decode_; }
    double first_token_seconds() const { return first_token_seconds_; }

    /// Of the last text.
    Finish finish() const { return finish_; }
    std::size_t last_tokens() const { return last_tokens_; }

private:
    using Clock = std::chrono::steady_clock;

    Result<std::span<const float>> read_prompt(std::span<const Token> unread);
    Result<> write(Conversation& conversation, std::span<const float> logits);
    void show(std::string_view text);

    Generator& generator_;
    Options options_;
    Sampler sampler_;
    std::vector<Token> ids_, unshown_;
    std::string text_, answer_;
    Finish finish_ = Finish::end;
    std::size_t last_tokens_ = 0;
    Pace prefill_, decode_;
    double first_token_seconds_ = 0;
};

}  // namespace heddle::tool
