#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/dot/panel.hpp"
#include "core/type.hpp"

/// The steps of attention on rows of scores, for the instruction set in use.
namespace heddle::cpu {

/// What is added to scores.
struct ScoreRule {
    float scale = 1;
    float softcap = 0;                    ///< 0: none
    float slope = 1;                      ///< of the mask
    const std::uint16_t* mask = nullptr;  ///< halves, one for each score; null: none
};

struct SoftRows {
    /// scores = cap(scale * scores) + slope * mask, exactly -inf where the mask is; returns the
    /// largest.
    float (*finish)(const ScoreRule& rule, float* scores, std::int64_t n);

    /// scores = exp(scores - most); returns the sum. -inf gives 0.
    float (*exponentiate)(float most, float* scores, std::int64_t n);

    /// y = y * factor
    void (*scale)(float factor, float* y, std::int64_t n);
};

SoftRows soft_rows();

/// Rows that are read next: asked for in time, as no processor foresees where they are.
struct RowsAhead {
    const std::byte* rows = nullptr;
    std::size_t pitch = 0;
    std::int64_t count = 0;
    std::size_t size = 0;  ///< of a row, in bytes
};

/// out[q][r] = the product of query q, which is f32, and row r of the panel. Each row is read once
/// for up to four queries.
using ScoreRows = void (*)(const Panel& panel, const RowsAhead& ahead, const float* const* queries,
                           float* const* out, int count);

/// For each query q: y[q] += the sum of weights[q][r] * row r of the panel. Rows whose weight is 0
/// have no influence, whatever they hold.
using AddRows = void (*)(const Panel& panel, const RowsAhead& ahead, const float* const* weights,
                         float* const* y, int count);

// Null for types of which rows are not read directly.
ScoreRows score_rows_of(Type type);
AddRows add_rows_of(Type type);

}  // namespace heddle::cpu
