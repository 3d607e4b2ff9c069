#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/dot/gemm.hpp"
#include "backends/cpu/repack/layout.hpp"

/// Products of micro-panels of repacked rows with columns.
///
/// A few columns are multiplied straight from the repacked rows. They are in tiles: four codes of
/// each column after the other, so that they can be spread over the lanes of a vector that has one
/// lane per row. For more columns rows are unpacked into micro-panels (see dot/gemm.hpp).
namespace heddle::cpu {

/// Elements of a row that are unpacked at once, at most.
inline constexpr std::int64_t kRepackDepth = 1024;

/// Columns of a tile or micro-panel that no kernel exceeds.
inline constexpr int kRepackColumns = 12;

/// Tiles of up to so many columns are there on every instruction set.
inline constexpr int kNarrowTile = 4;

/// Micro-panels that are interleaved: memory is faster from several places than from one.
inline constexpr int kInterleavedMicroPanels = 3;

/// How repacked rows of a type are multiplied on the instruction set in use. Results go to
/// out[column][row], or are added to what is there; each column has sixteen.
struct RepackKernel {
    int columns = 0;               ///< of the widest tile
    int medium = 0;                ///< of a tile that is neither narrow nor the widest
    int straight_columns = 0;      ///< so many are multiplied straight from the repacked rows
    std::size_t column_bytes = 0;  ///< that 32 elements of a column in a tile take

    /// Puts `count` elements of a prepared column into a tile of `width` columns; `to` is where
    /// these elements begin in the tile.
    void (*put_column)(const void* from, std::int64_t count, std::byte* to, int width,
                       int column) = nullptr;

    /// Straight from `count` elements of the rows of a micro-panel.
    void (*multiply)(const std::byte* rows, const std::byte* tile, std::int64_t count, int width,
                     float* const* out, bool add) = nullptr;

    /// The same for a single column and `kInterleavedMicroPanels` micro-panels; out[micro-panel]
    /// has sixteen results.
    void (*multiply_interleaved)(const std::byte* const* rows, const std::byte* column,
                                 std::int64_t count, float* const* out) = nullptr;

    /// For more columns. A view of its `pack_rows` is a micro-panel of repacked rows.
    GemmKernel micro_panels;

    explicit operator bool() const { return multiply != nullptr; }

    /// The columns that a tile for `wanted` columns has; those too many are zero.
    int tile_width(std::int64_t wanted) const {
        if (wanted <= 2) return static_cast<int>(wanted);
        return wanted <= kNarrowTile ? kNarrowTile : wanted <= medium ? medium : columns;
    }

    std::size_t tile_bytes(std::int64_t depth, int width) const {
        return column_bytes * static_cast<std::size_t>(depth / 32 * width);
    }
};

/// Empty for types and instruction sets without a good way to do it.
RepackKernel repack_kernel_of(Type type);

// Bounds for every type and instruction set: another may be chosen after memory was planned.
inline constexpr std::size_t kMostColumnBytes = 72;  ///< codes of 16 bits, a scale and a sum
inline constexpr std::size_t kMostRowBytes = 48;     ///< codes, scales and minima of two halves

}  // namespace heddle::cpu
