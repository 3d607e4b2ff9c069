#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/error.hpp"

/// What evaluations came to: losses, predictions, and how many of them were right.
struct ggml_opt_result {
    /// What all batches of one result have in common.
    struct Kind {
        bool per_point;       ///< the loss is a mean over points, not a sum
        std::int32_t period;  ///< batches over which such a loss was divided
        std::int64_t batch;   ///< points of each batch
        bool operator==(const Kind&) const = default;
    };

    /// A value and how far it may be off; NaN where that cannot be known.
    struct Estimate {
        double value, uncertainty;
    };

    /// Fails unless a batch of this kind can be added to the others.
    heddle::Result<> check(const Kind& kind) const;

    /// Room for one more batch of this kind, so that adding it takes no memory.
    void make_room(const Kind& kind);

    /// One more batch, for which there is room. `correct` is how many predictions were right; none
    /// if there are no classes: then there is no accuracy until the result is emptied.
    void add(const Kind& kind, float loss, std::span<const std::int32_t> predictions,
             std::optional<std::int64_t> correct);

    void clear();

    std::int64_t points() const { return points_; }
    std::span<const std::int32_t> predictions() const { return predictions_; }
    Estimate loss() const;
    Estimate accuracy() const;

private:
    std::optional<Kind> kind_;
    std::int64_t points_ = 0;
    std::optional<std::int64_t> correct_ = 0;
    std::vector<float> losses_;
    std::vector<std::int32_t> predictions_;
};

namespace heddle {

using Outcome = ::ggml_opt_result;

}  // namespace heddle
