#include "model/sampler.hpp"

#include <algorithm>
#include <cmath>

namespace heddle::tool {

std::span<const float> Sampler::penalized(std::span<const float> logits,
                                          std::span<const Token> said) {
    if (options_.repeat_penalty == 1 || said.empty()) return logits;
    const auto recent = said.last(std::min(said.size(), kRecent));
    recent_.assign(recent.begin(), recent.end());
    std::ranges::sort(recent_);
    recent_.erase(std::unique(recent_.begin(), recent_.end()), recent_.end());
    logits_.assign(logits.begin(), logits.end());
    for (const Token token : recent_) {
        float& logit = logits_[static_cast<std::size_t>(token)];
        logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    }
    return logits_;
}

Token Sampler::choose(std::span<const float> all, std::span<const Token> said) {
    const std::span<const float> logits = penalized(all, said);
    const auto likeliest = std::ranges::max_element(logits) - logits.begin();
    if (options_.temperature <= 0) return static_cast<Token>(likeliest);

    candidates_.clear();
    for (std::size_t i = 0; i < logits.size(); ++i) {
        candidates_.push_back({static_cast<Token>(i), logits[i], 0});
    }
    std::size_t kept = candidates_.size();
    if (options_.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(options_.top_k));
    std::ranges::partial_sort(candidates_, candidates_.begin() + static_cast<std::ptrdiff_t>(kept),
                              std::greater{}, &Candidate::logit);
    candidates_.resize(kept);

    double sum = 0;
    for (Candidate& candidate : candidates_) {
        const double above = candidate.logit - candidates_.front().logit;
        candidate.probability = std::exp(above / static_cast<double>(options_.temperature));
        sum += candidate.probability;
    }
    // At least one stays, whatever is asked for.
    const double least = static_cast<double>(options_.min_p) * candidates_.front().probability;
    double together = 0;
    for (kept = 0; kept < candidates_.size(); ++kept) {
        const bool enough = together >= static_cast<double>(options_.top_p) * sum;
        if (kept > 0 && (enough || candidates_[kept].probability < least)) break;
        together += candidates_[kept].probability;
    }
    double drawn = std::uniform_real_distribution<double>(0, together)(random_);
    for (std::size_t i = 0; i + 1 < kept; ++i) {
        drawn -= candidates_[i].probability;
        if (drawn <= 0) return candidates_[i].token;
    }
    return candidates_[kept - 1].token;
}

}  // namespace heddle::tool
