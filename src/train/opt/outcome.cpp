#include "train/opt/outcome.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace heddle;

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Result<> ggml_opt_result::check(const Kind& kind) const {
    if (!kind_ || *kind_ == kind) return ok();
    if (kind_->batch != kind.batch) {
        return invalid("result: batches of ", kind_->batch, " points so far, now one of ",
                       kind.batch, ": a varying batch size has no common mean");
    }
    if (kind_->period != kind.period) {
        return invalid("result: losses of periods of ", kind_->period, " batches so far, now of ",
                       kind.period);
    }
    return invalid("result: losses are ", kind_->per_point ? "means" : "sums",
                   " so far, now there is a ", kind.per_point ? "mean" : "sum");
}

void ggml_opt_result::make_room(const Kind& kind) {
    const auto grow = [](auto& list, std::size_t more) {
        if (list.capacity() - list.size() >= more) return;
        list.reserve(std::max(list.size() + more, 2 * list.size()));
    };
    grow(losses_, 1);
    grow(predictions_, static_cast<std::size_t>(kind.batch));
}

void ggml_opt_result::add(const Kind& kind, float loss, std::span<const std::int32_t> predictions,
                          std::optional<std::int64_t> correct) {
    kind_ = kind;
    points_ += kind.batch;
    losses_.push_back(loss);
    predictions_.insert(predictions_.end(), predictions.begin(), predictions.end());
    correct_ = correct && correct_ ? std::optional(*correct_ + *correct) : std::nullopt;
}

void ggml_opt_result::clear() { *this = {}; }

Outcome::Estimate ggml_opt_result::loss() const {
    if (losses_.empty()) return {0, kUnknown};
    const double factor = kind_->per_point ? kind_->period : 1;
    const auto count = static_cast<double>(losses_.size());
    double sum = 0, squares = 0;
    for (const float loss : losses_) sum += factor * double{loss};
    const double mean = sum / count;
    for (const float loss : losses_) squares += std::pow(factor * double{loss} - mean, 2);
    const double value = kind_->per_point ? mean : sum;
    if (losses_.size() < 2) return {value, kUnknown};
    // Of a mean of so many losses, or of their sum.
    const double variance = squares / (kind_->per_point ? count : 1);
    return {value, std::sqrt(variance / (count - 1))};
}

Outcome::Estimate ggml_opt_result::accuracy() const {
    if (!correct_) return {kUnknown, kUnknown};
    const auto count = static_cast<double>(points_);
    const double share = static_cast<double>(*correct_) / count;  // NaN of none
    if (points_ < 2) return {share, kUnknown};
    return {share, std::sqrt(share * (1 - share) / (count - 1))};
}
