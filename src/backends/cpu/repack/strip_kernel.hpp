#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/repack/layout.hpp"

/// Products of strips of repacked rows with tiles of columns.
///
/// A tile holds a few columns, four codes of each column after the other, so that they can be
/// spread over the lanes of a vector that has one lane per row.
namespace heddle::cpu {

/// Elements of a row that are unpacked at once, for products with more than a few columns.
inline constexpr std::int64_t kRepackDepth = 1024;

/// Columns of a tile that no kernel exceeds.
inline constexpr int kRepackColumns = 12;

/// A tile this narrow is always multiplied straight from the repacked rows.
inline constexpr int kNarrowTile = 4;

/// How repacked rows of a type are multiplied on the instruction set in use. Results go to
/// out[column][row], or are added to what is there; each column has sixteen.
struct RepackKernel {
    int columns = 0;               ///< of the widest tile
    int few_tiles = 0;             ///< so many are multiplied straight from the repacked rows
    int medium = 0;                ///< of a tile that is neither narrow nor the widest
    std::size_t column_bytes = 0;  ///< that 32 elements of a column take
    std::size_t row_bytes = 0;     ///< that 32 elements of an unpacked row take

    /// Puts `count` elements of a prepared column into a tile of `width` columns; `to` is where
    /// these elements begin in the tile.
    void (*put_column)(const void* from, std::int64_t count, std::byte* to, int width,
                       int column) = nullptr;

    /// Straight from `count` elements of the rows of a strip; tiles are narrow where no others are
    /// multiplied so.
    void (*multiply)(const std::byte* rows, const std::byte* tile, std::int64_t count, int width,
                     float* const* out, bool add) = nullptr;

    /// `count` elements of a strip, for `multiply_unpacked`.
    void (*unpack)(const std::byte* rows, std::int64_t count, std::byte* to) = nullptr;

    /// The same as `multiply`, for tiles that are not narrow.
    void (*multiply_unpacked)(const std::byte* rows, const std::byte* tile, std::int64_t count,
                              int width, float* const* out, bool add) = nullptr;

    explicit operator bool() const { return multiply != nullptr; }

    /// The columns that a tile for `wanted` columns has; those too many are zero.
    int tile_width(std::int64_t wanted) const {
        if (wanted <= 2) return static_cast<int>(wanted);
        return wanted <= kNarrowTile ? kNarrowTile : wanted <= medium ? medium : columns;
    }

    std::size_t tile_bytes(std::int64_t depth, int width) const {
        return column_bytes * static_cast<std::size_t>(depth / 32 * width);
    }
    std::size_t strip_bytes(std::int64_t count) const {
        return row_bytes * static_cast<std::size_t>(count / 32 * kRepackRows);
    }
};

/// Empty for types and instruction sets without a good way to do it.
RepackKernel repack_kernel_of(Type type);

// Bounds for every type and instruction set: another may be chosen after memory was planned.
inline constexpr std::size_t kMostColumnBytes = 44;  ///< codes, a scale, sums of two halves
inline constexpr std::size_t kMostRowBytes = 48;     ///< codes, scales and minima of two halves

}  // namespace heddle::cpu
