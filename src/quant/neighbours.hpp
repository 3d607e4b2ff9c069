#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quant/codebooks.hpp"

namespace heddle::quant {

/// For every point of a codebook's cube: the row it is, or else the rows near it. The encoders of
/// the grid formats look here when the codes they would like are no row.
class Neighbours {
public:
    /// Keeps, for each point that is no row, all rows at one of the `shells` smallest distances to
    /// it that occur.
    Neighbours(const Codebook& book, int shells);

    /// The row at this point, or -1.
    int row_of(std::size_t point) const { return place_[point] < 0 ? -1 : place_[point]; }

    /// The rows near a point that is no row: nearest first, in order of their index where they are
    /// equally near. Empty for a row.
    std::span<const std::uint16_t> near(std::size_t point) const;

private:
    std::vector<std::int32_t> place_;   // a row's index, or -1 - start of its list in lists_
    std::vector<std::uint16_t> lists_;  // each: how many, then the rows
};

/// The neighbours for encoding `type`, one of the grid formats; null for other types. Built by the
/// first who asks, while others who ask wait. They live until `drop_search_tables` and until the
/// last user lets go, so dropping them while others encode is safe.
std::shared_ptr<const Neighbours> neighbours_of(Type type);

}  // namespace heddle::quant
