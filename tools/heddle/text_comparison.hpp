#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// What two readers of the same text make of its next tokens, and whether rounding explains it.
namespace heddle::tool {

/// How the logits of two readers for one token compare.
struct TokenStep {
    std::size_t text = 0;                 ///< which of the texts
    std::int64_t index = 0;               ///< of the token, after the prompt
    std::size_t trusted = 0, tested = 0;  ///< what either would choose
    double gap = 0;                       ///< of the trusted one's best two
    double sway = 0;                      ///< by so much it is another one for the tested one
    double lead = 0;                      ///< of the trusted one's choice, over the tested one's
    double spread = 0;                    ///< standard deviation of the trusted one's logits
    double error = 0, largest = 0;        ///< of the tested one: root mean square, most

    bool is_alike() const { return trusted == tested; }

    /// `right` are the trusted one's logits.
    static TokenStep of(std::span<const float> right, std::span<const float> logits);
};

/// All that one reader made of the texts.
struct TextReading {
    std::string name;
    std::vector<TokenStep> steps = {};

    /// Root mean square over all tokens, as a share of the spread.
    double error() const;
    double sway() const;

    std::size_t alike() const;
    std::size_t departures() const { return steps.size() - alike(); }
};

/// Whether rounding explains how the tested reader departs from the trusted one. The yardstick is
/// the trusted device itself, reading the same texts with other instruction sets: they add the same
/// numbers up in other orders. Where activations are rounded to eight bits a last bit decides now
/// and then about a step of 1/127, and every layer makes more of it, so that the order of additions
/// alone moves logits by per cents of their spread.
class TextComparison {
public:
    TextComparison(TextReading tested, std::vector<TextReading> others);

    const TextReading& tested() const { return tested_; }
    const std::vector<TextReading>& others() const { return others_; }

    double tie() const;                     ///< leads up to this share of the spread are ties
    double most_error() const;              ///< what `error()` may be
    double most_departures() const;         ///< how many tokens may be others
    bool is_wrong(const TokenStep&) const;  ///< another token, and no tie
    std::size_t wrong() const;
    bool has_passed() const;

private:
    TextReading tested_;
    std::vector<TextReading> others_;
    double farthest_ = 0, sway_ = 0;  ///< of the others, as shares of the spread
    double mean_departures_ = 0;
    double sets_ = 0;  ///< others that add up in another order at all
};

}  // namespace heddle::tool
