#include "text_comparison.hpp"

#include <algorithm>
#include <cmath>

namespace heddle::tool {
namespace {

/// Logits that are nearer than this share of the spread (standard deviation) of all of them are a
/// tie: the order in which sums are added up decides it.
constexpr double kNearTie = 1e-3;

/// Leads up to so many standard deviations are ties. If rounding moves leads as chance does, one in
/// 16,000 is beyond; three would be too few for a thousand tokens: of 128 tokens that one
/// instruction set of x86 would have chosen differently, in 123 texts of 64, the largest lead was
/// 3.3.
constexpr double kLeadDeviations = 4;

/// So many standard deviations more tokens may be others than with another instruction set.
constexpr double kCountDeviations = 3;

/// All logits may be so many times as far off (root mean square) as with the farthest instruction
/// set: what one set was off at most in one text, compared with the others.
constexpr double kOfYardstick = 1.5;

std::size_t likeliest(std::span<const float> logits) {
    return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

double mean_square_root(const std::vector<TokenStep>& steps, double TokenStep::*part) {
    if (steps.empty()) return 0;
    double sum = 0;
    for (const TokenStep& step : steps) sum += std::pow(step.*part / step.spread, 2);
    return std::sqrt(sum / static_cast<double>(steps.size()));
}

}  // namespace

TokenStep TokenStep::of(std::span<const float> right, std::span<const float> logits) {
    TokenStep step{.trusted = likeliest(right), .tested = likeliest(logits)};
    const auto count = static_cast<double>(right.size());
    double sum = 0, squares = 0, apart = 0;
    std::size_t second = step.trusted == 0 && right.size() > 1 ? 1 : 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
        const double difference = double{logits[i]} - right[i];
        sum += right[i];
        squares += double{right[i]} * right[i];
        apart += difference * difference;
        step.largest = std::max(step.largest, std::fabs(difference));
        if (i != step.trusted && right[i] > right[second]) second = i;
    }
    step.gap = double{right[step.trusted]} - right[second];
    step.sway = double{logits[step.trusted]} - logits[second] - step.gap;
    step.lead = double{right[step.trusted]} - right[step.tested];
    step.spread = std::sqrt(std::max(0.0, squares / count - sum / count * (sum / count)));
    step.error = std::sqrt(apart / count);
    return step;
}

double TextReading::error() const { return mean_square_root(steps, &TokenStep::error); }
double TextReading::sway() const { return mean_square_root(steps, &TokenStep::sway); }
std::size_t TextReading::alike() const {
    return static_cast<std::size_t>(std::ranges::count_if(steps, &TokenStep::is_alike));
}

TextComparison::TextComparison(TextReading tested, std::vector<TextReading> others)
    : tested_(std::move(tested)), others_(std::move(others)) {
    double squares = 0;
    for (const TextReading& other : others_) {
        if (other.error() == 0) continue;  // the same sums in the same order
        farthest_ = std::max(farthest_, other.error());
        squares += other.sway() * other.sway();
        mean_departures_ += static_cast<double>(other.departures());
        ++sets_;
    }
    if (sets_ == 0) return;
    sway_ = std::sqrt(squares / sets_);
    mean_departures_ /= sets_;
}

double TextComparison::tie() const { return kNearTie + kLeadDeviations * sway_; }
double TextComparison::most_error() const { return kNearTie + kOfYardstick * farthest_; }

double TextComparison::most_departures() const {
    // Departures are rare, so their variance is their mean; that of the yardstick is known from as
    // many samples as there are sets. One more, or no text without any could have one.
    const double variance = sets_ > 0 ? mean_departures_ * (1 + 1 / sets_) : 0;
    return mean_departures_ + kCountDeviations * std::sqrt(variance + 1);
}

bool TextComparison::is_wrong(const TokenStep& step) const {
    return !step.is_alike() && !(step.lead <= tie() * step.spread);
}

std::size_t TextComparison::wrong() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        tested_.steps, [&](const TokenStep& step) { return is_wrong(step); }));
}

bool TextComparison::has_passed() const {
    return wrong() == 0 && tested_.error() <= most_error() &&
           static_cast<double>(tested_.departures()) <= most_departures();
}

}  // namespace heddle::tool
