#include "writer.hpp"

#include <algorithm>
#include <cmath>

#include "core/printable.hpp"
#include "interrupt.hpp"
#include "stop_filter.hpp"

namespace heddle::tool {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A model whose numbers are broken has nothing to say.
Result<> check_numbers(std::span<const float> logits) {
    const auto broken = std::ranges::find_if(logits, [](float x) { return std::isnan(x); });
    if (broken == logits.end()) return ok();
    return failure(Errc::corrupt, "the model's result for token ", broken - logits.begin(),
                   " is not a number: its weights or parameters are broken");
}

}  // namespace

std::string_view name_of(Finish finish) {
    constexpr std::string_view kNames[] = {"end", "length", "context", "stop", "interrupted"};
    return kNames[static_cast<std::size_t>(finish)];
}

void Writer::show(std::string_view text) {
    if (text.empty()) return;
    text_ += text;
    answer_ += text;
    options_.show(text, unshown_);
    unshown_.clear();
}

Result<std::span<const float>> Writer::read_prompt(std::span<const Token> unread) {
    if (unread.empty() || is_interrupted()) return std::span<const float>();
    const auto begin = Clock::now();
    const std::int64_t before = generator_.position();
    HEDDLE_TRY_ASSIGN(const auto logits, generator_.read(unread, is_interrupted));
    const std::int64_t read = generator_.position() - before;  // less than nothing after a loss
    prefill_.tokens += static_cast<std::size_t>(std::max<std::int64_t>(read, 0));
    prefill_.seconds += seconds_since(begin);
    return logits;
}

Result<> Writer::answer(Conversation& conversation) {
    const auto begin = Clock::now();
    const std::size_t before = ids_.size();
    answer_.clear();
    finish_ = Finish::interrupted;
    const auto unread = std::span<const Token>(conversation.tokens())
                            .subspan(static_cast<std::size_t>(generator_.position()));
    HEDDLE_TRY_ASSIGN(const std::span<const float> logits, read_prompt(unread));
    if (before == 0) first_token_seconds_ = seconds_since(begin);
    const auto decoding = Clock::now();
    if (!logits.empty()) HEDDLE_TRY(write(conversation, logits));
    decode_.seconds += seconds_since(decoding);
    last_tokens_ = ids_.size() - before;
    return ok();
}

Result<> Writer::write(Conversation& conversation, std::span<const float> logits) {
    const Tokenizer& tokenizer = generator_.tokenizer();
    StopFilter filter(options_.stops);
    finish_ = Finish::length;
    for (std::int64_t i = 0; i < options_.tokens; ++i) {
        HEDDLE_TRY(check_numbers(logits));
        const Token token = sampler_.choose(logits, conversation.tokens());
        if (tokenizer.vocabulary().ends_text(token)) {
            finish_ = Finish::end;
            break;
        }
        ids_.push_back(token);
        unshown_.push_back(token);
        conversation.answer(token);
        show(filter.add(tokenizer.decode(token)));
        if (filter.is_stopped()) {
            finish_ = Finish::stop;
            break;
        }
        if (is_interrupted()) {
            finish_ = Finish::interrupted;
            break;
        }
        if (i + 1 == options_.tokens) break;
        if (generator_.position() == generator_.model().context()) {
            finish_ = Finish::context;
            break;
        }
        HEDDLE_TRY_ASSIGN(logits, generator_.read(std::span(&token, 1)));
        ++decode_.tokens;
    }
    const std::string rest = filter.rest();
    // A character that was cut is none; its tokens are told of all the same.
    show(std::string_view(rest).substr(0, whole_characters(rest)));
    if (!unshown_.empty()) options_.show({}, unshown_);
    unshown_.clear();
    // What stopped it is not part of what was said.
    if (filter.is_stopped()) conversation.cut_answer(answer_);
    return ok();
}

}  // namespace heddle::tool
