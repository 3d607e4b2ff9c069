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

/// 32 elements of a query as whole numbers.
struct CodedQueryBlock {
    std::int32_t pairs[16];  ///< two numbers of 16 bits each
    float scale;             ///< of the numbers
    float sum;               ///< of the elements
};

/// The same for keys of whole numbers in blocks, and queries that were turned into such numbers.
struct CodeScorer {
    /// `depth` elements to as many blocks as they fill.
    void (*code)(const float* query, std::int64_t depth, std::byte* to) = nullptr;
    void (*score)(const Panel& panel, const RowsAhead& ahead, const std::byte* const* queries,
                  float* const* out, int count) = nullptr;

    explicit operator bool() const { return score != nullptr; }
};

/// For each query q: y[q] += the sum of weights[q][r] * row r of the panel. Rows whose weight is 0
/// have no influence, whatever they hold.
using AddRows = void (*)(const Panel& panel, const RowsAhead& ahead, const float* const* weights,
                         float* const* y, int count);

/// For values of whole numbers in blocks: weights become such numbers too. Null for other types.
AddRows code_adder_of(Type type);

// Null for types of which rows are not read directly.
ScoreRows score_rows_of(Type type);
CodeScorer code_scorer_of(Type type);
AddRows add_rows_of(Type type);

}  // namespace heddle::cpu
