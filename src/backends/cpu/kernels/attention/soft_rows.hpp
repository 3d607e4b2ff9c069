#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/dot/multiplier.hpp"
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

/// Rows that are read later: asked for in time, as no CPU foresees where they are.
struct RowsAhead {
    const std::byte* rows = nullptr;
    std::size_t pitch = 0;
    std::int64_t count = 0;
    std::size_t size = 0;  ///< of a row, in bytes
};
struct Ahead {
    RowsAhead first, second;  ///< in the order in which they are read
};

/// The keys of a head, and what is made of them.
struct HeadScores {
    std::size_t offset = 0;                     ///< of its keys, from those of the view
    const std::byte* const* queries = nullptr;  ///< f32, or `CodedQueryBlock`s
    float* const* scores = nullptr;
};

/// scores[q][r] = the product of query q and row r of the view, for each of some heads. Each row
/// is read once for up to four queries, and a few rows by all heads before the next ones.
using ScoreRows = void (*)(const MatrixView& view, std::span<const HeadScores> heads, int queries,
                           const Ahead& ahead);

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
    ScoreRows score = nullptr;

    explicit operator bool() const { return score != nullptr; }
};

/// The values of a head, and what is made of them.
struct HeadSums {
    std::size_t offset = 0;  ///< of its values, from those of the view
    const float* const* weights = nullptr;
    float* const* sums = nullptr;
};

/// sums[q] += the sum of weights[q][r] * row r of the view, for each query q of each of some
/// heads. Rows whose weight is 0 have no influence, whatever they hold.
using AddRows = void (*)(const MatrixView& view, std::span<const HeadSums> heads, int queries,
                         const Ahead& ahead);

/// For values of whole numbers in blocks: weights become such numbers too. Null for other types.
AddRows code_adder_of(Type type);

// Null for types of which rows are not read directly.
ScoreRows score_rows_of(Type type);
CodeScorer code_scorer_of(Type type);
AddRows add_rows_of(Type type);

}  // namespace heddle::cpu
