#pragma once

#include <cstdint>

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

    /// y += the sum of weights[j] * row j, for `count` rows that lie `pitch` bytes apart. Rows of
    /// weight 0 are not looked at.
    void (*add_rows)(const float* weights, const void* rows, std::size_t pitch, std::int64_t count,
                     float* y, std::int64_t n);
};

/// `type` is that of the rows that `add_rows` adds: f32, f16 or bf16.
SoftRows soft_rows_of(Type type);

}  // namespace heddle::cpu
