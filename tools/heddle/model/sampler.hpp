#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "model/vocabulary.hpp"

namespace heddle::tool {

/// Chooses the next token.
class Sampler {
public:
    struct Options {
        float temperature = 0.8f;  ///< 0: always the likeliest
        int top_k = 40;            ///< of the likeliest so many; 0: all
        float top_p = 0.95f;       ///< of the likeliest that together have this probability
        float min_p = 0.05f;       ///< of those at least this fraction as likely as the likeliest
        float repeat_penalty = 1;  ///< what was said lately is so many times less likely
        std::uint64_t seed = 0;
    };
    /// Tokens that count as lately.
    static constexpr std::size_t kRecent = 64;

    explicit Sampler(const Options& options) : options_(options), random_(options.seed) {}

    /// `said` is the text so far, as far as it is known.
    Token choose(std::span<const float> logits, std::span<const Token> said = {});

private:
    struct Candidate {
        Token token;
        float logit;
        double probability;
    };

    /// Logits with the penalty for what was said.
    std::span<const float> penalized(std::span<const float> logits, std::span<const Token> said);

    Options options_;
    std::mt19937_64 random_;
    std::vector<Candidate> candidates_;
    std::vector<float> logits_;
    std::vector<Token> recent_;
};

}  // namespace heddle::tool
