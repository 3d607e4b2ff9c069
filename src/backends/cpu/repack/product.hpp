#pragma once

#include "backends/cpu/dot/multiplier.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/repack/repack_kernel.hpp"

namespace heddle::cpu {

/// A product of repacked matrices with everything that its pieces need. Each matrix is multiplied
/// with columns of its own: all there are (MUL_MAT), or those of one expert (MUL_MAT_ID).
///
/// Scratch memory holds the list of columns by expert, the tiles of all columns, and for each task
/// what it unpacks.
class RepackProduct {
public:
    explicit RepackProduct(const Tensor& node);

    Demand demand(int threads) const;
    void run(const Task& task) const;

private:
    /// Micro-panels and tiles that go together. With a single column some micro-panels are
    /// interleaved, each as far into its part of the piece as the others: those parts are read as
    /// they lie in memory.
    struct Piece {
        std::int64_t matrix;
        Range micro_panels, tiles;
        Range turns;    ///< that are to be done
        bool has_rest;  ///< so are the micro-panels that come in no turn
    };
    /// How the micro-panels and tiles of a matrix become pieces, and these what a task does at a
    /// time.
    struct Cut {
        std::int64_t micro_panels, tiles;              ///< of a piece
        std::int64_t micro_panel_pieces, tile_pieces;  ///< of the matrix
        std::int64_t units;                            ///< of a piece: its turns and the rest, or 1
        std::int64_t count() const { return micro_panel_pieces * tile_pieces * units; }
    };

    /// How the columns of a matrix are laid out: in tiles for straight products, or in
    /// micro-panels, which are tiles that are all as wide.
    struct Tiling {
        std::int64_t columns;
        bool is_straight;
        int most;  ///< columns of a tile
        std::int64_t tiles;
    };

    std::size_t table_size() const;
    std::size_t tiles_size() const;

    const std::int64_t* begins(const Task& task) const;
    void sort_columns(const Task& task) const;
    std::int64_t columns_of(const Task& task, std::int64_t matrix) const;
    Tiling tiling_of(std::int64_t columns) const;
    int width_of(const Tiling& tiling, std::int64_t tile) const;
    /// Bytes of `count` elements of a tile.
    std::size_t tile_size(const Tiling& tiling, int width, std::int64_t count) const;
    /// Bytes of the first `tiles` tiles.
    std::size_t size_of(const Tiling& tiling, std::int64_t tiles) const;
    Row column_at(const Task& task, std::int64_t matrix, std::int64_t column) const;
    const float* row_of_b(const Row& column) const;

    void put_tiles(const Task& task) const;
    void put_tile(const Task& task, std::int64_t matrix, std::int64_t tile, std::int64_t chunk,
                  std::byte* to) const;
    Cut cut_for(const Tiling& tiling, int tasks) const;
    Piece piece_of(const Cut& cut, const Tiling& tiling, std::int64_t matrix,
                   std::int64_t number) const;
    void multiply(const Task& task, const Piece& piece, const Tiling& tiling,
                  const std::byte* tiles) const;
    /// One tile, straight from the repacked rows.
    void multiply_tile(const Task& task, const Piece& piece, const Tiling& tiling,
                       std::int64_t tile, const std::byte* columns) const;
    /// The micro-panels of a piece's turns with a single column. Gives how many there are in all
    /// turns of the piece; they are its first ones.
    std::int64_t multiply_interleaved(const Piece& piece, const std::byte* column,
                                      float* out) const;
    /// All tiles, with rows that are unpacked before.
    void multiply_unpacked(const Task& task, const Piece& piece, const Tiling& tiling,
                           const std::byte* tiles) const;

    std::int64_t micro_panel_rows(std::int64_t micro_panel) const;
    /// From element `begin` on.
    const std::byte* micro_panel_at(std::int64_t matrix, std::int64_t micro_panel,
                                    std::int64_t begin) const;
    /// Elements `begin` .. `begin + count` of a micro-panel, made sixteen rows in `wide` if it has
    /// eight.
    const std::byte* whole_micro_panel(std::int64_t matrix, std::int64_t micro_panel,
                                       Range elements, std::byte* wide) const;

    const Tensor &node_, &a_, &b_;
    const Tensor* ids_;  ///< null: every column is multiplied with the only matrix
    const RepackLayout& layout_;
    const RepackKernel kernel_;
    const Multiplier multiplier_;
    const std::int64_t depth_, micro_panels_, matrices_, columns_;
};

}  // namespace heddle::cpu
