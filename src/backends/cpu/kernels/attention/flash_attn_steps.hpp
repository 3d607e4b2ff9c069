#pragma once

#include <cstddef>
#include <cstdint>

#include "core/type.hpp"

/// The steps of attention for many queries and a tile of keys, for the instruction set in use.
///
/// Queries lie across lanes. A micro-panel is as many queries as two vectors have lanes; the
/// numbers that its queries have in common (their first elements, their scores for one key, ...)
/// stand side by side. So the soft-max needs no sums across lanes, and keys and values are used row
/// by row.
namespace heddle::cpu {

/// Keys of a tile. A multiple of the rows that are multiplied at once on any instruction set.
inline constexpr std::int64_t kTileKeys = 64;

/// A tile has its rows in pieces of so many floats, each piece of all rows after the one before.
/// Rows lie a constant number of bytes apart, and that is an odd number of cache lines.
inline constexpr std::int64_t kTilePiece = 128;
inline constexpr std::int64_t kTilePitch = kTilePiece + 16;

inline std::int64_t tile_pieces(std::int64_t width) {
    return (width + kTilePiece - 1) / kTilePiece;
}

/// Floats of a tile whose rows have `width` elements.
inline std::int64_t tile_length(std::int64_t width) {
    return tile_pieces(width) * kTileKeys * kTilePitch;
}

/// Queries that no micro-panel exceeds.
inline constexpr int kMostMicroPanelQueries = 32;

/// Sums of a micro-panel are kept for a few more elements than the values have.
inline std::int64_t padded_width(std::int64_t width) { return (width + 3) / 4 * 4; }

/// What the queries of a micro-panel have come to.
struct MicroPanelState {
    alignas(64) float most[kMostMicroPanelQueries];    ///< the largest score so far
    alignas(64) float total[kMostMicroPanelQueries];   ///< the weights so far
    alignas(64) float factor[kMostMicroPanelQueries];  ///< of what was summed up before this tile
    alignas(64) float slope[kMostMicroPanelQueries];   ///< of the mask
    int vectors = 2;  ///< 1: there are no more than one vector of queries
};

struct TileSteps {
    int queries = 0;  ///< of a micro-panel; 0: this instruction set has no such steps

    /// A micro-panel of `count` elements of the rows, times `factor`. There are as many rows as
    /// queries.
    void (*pack_queries)(const float* const* rows, std::int64_t count, float factor,
                         float* micro_panel);
    /// The same for halves.
    void (*pack_masks)(const std::uint16_t* const* rows, std::int64_t count, float* micro_panel);

    /// A tile of `count` rows of `type` that lie `pitch` bytes apart; `spare` has room for a row.
    /// False: not all of it is finite.
    bool (*widen)(Type type, const std::byte* rows, std::size_t pitch, std::int64_t count,
                  std::int64_t width, float* tile, float* spare);

    /// The products of a micro-panel of queries and a tile of `count` keys.
    void (*score)(const MicroPanelState& state, const float* queries, const float* keys,
                  std::int64_t count, std::int64_t depth, float* scores);

    /// Turns scores into weights relative to the largest of them: caps them (0: not), adds
    /// slope * mask (null: none). -inf in the mask makes a weight 0, whatever the score is.
    void (*weigh)(MicroPanelState& state, float softcap, const float* masks, std::int64_t count,
                  float* scores);

    /// sums = factor * sums + weights * values
    void (*add_values)(const MicroPanelState& state, const float* weights, const float* values,
                       std::int64_t count, std::int64_t width, float* sums);
    /// The same where values of weight 0 may be infinite or NaN.
    void (*add_strange_values)(const MicroPanelState& state, const float* weights,
                               const float* values, std::int64_t count, std::int64_t width,
                               float* sums);

    explicit operator bool() const { return queries > 0; }
};

TileSteps tile_steps();

}  // namespace heddle::cpu
