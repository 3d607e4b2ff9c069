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
        std::uint64_t seed = 0;
    };

    explicit Sampler(const Options& options) : options_(options), random_(options.seed) {}

    Token choose(std::span<const float> logits);

private:
    struct Candidate {
        Token token;
        float logit;
        double probability;
    };

    Options options_;
    std::mt19937_64 random_;
    std::vector<Candidate> candidates_;
};

}  // namespace heddle::tool
