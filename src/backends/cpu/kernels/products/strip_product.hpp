#pragma once

#include <cstring>

#include "backends/cpu/dot/strips.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/products/blocking.hpp"

/// Matrix products over strips: how they are cut into pieces, and how a piece is computed.
namespace heddle::cpu {

/// Rows of a piece, at most.
inline constexpr std::int64_t kPieceRows = 128;

/// Bytes that the strips of a piece take, which each task needs for itself; they stay in the second
/// cache.
inline constexpr std::size_t kPieceBytes = 256 * 1024;

/// With fewer columns (or rows, or elements) the rows are better read where they are, on every
/// instruction set.
inline constexpr std::int64_t kLeastStripColumns = 4;
inline constexpr std::int64_t kLeastStripRows = 8;
inline constexpr std::int64_t kLeastStripDepth = 32;

inline bool may_have_strips(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    return columns >= kLeastStripColumns && rows >= kLeastStripRows && depth >= kLeastStripDepth;
}

inline bool has_strips(const StripKernel& kernel, std::int64_t rows, std::int64_t columns,
                       std::int64_t depth) {
    return kernel && columns >= kernel.least_columns && may_have_strips(rows, columns, depth);
}

/// Bytes of `count` columns in strips, on any instruction set.
inline std::size_t strips_size(std::int64_t count, std::int64_t depth) {
    return static_cast<std::size_t>(blocks_of(count, kStripColumns) * kStripColumns *
                                    blocks_of(depth, 32) * 32) *
           kStripElement;
}

/// How `rows` rows and `strips` strips of columns, `matrices` times, become pieces for tasks.
struct Pieces {
    std::int64_t rows;        ///< of a piece
    std::int64_t row_pieces;  ///< of a matrix
    std::int64_t strips;      ///< of columns, of a piece
    std::int64_t column_pieces;

    Pieces(const StripKernel& kernel, std::int64_t all_rows, std::int64_t all_strips,
           std::int64_t matrices, int tasks) {
        const std::int64_t wanted = tasks > 1 ? std::int64_t{4} * tasks : 1;
        rows = kPieceRows;
        while (rows / kernel.rows * kernel.row_strip_size(kernel.depth) > kPieceBytes) rows /= 2;
        while (rows > kernel.rows && blocks_of(all_rows, rows) * matrices < wanted) rows /= 2;
        row_pieces = blocks_of(all_rows, rows);
        const std::int64_t cuts = blocks_of(wanted, row_pieces * matrices);
        strips = blocks_of(all_strips, cuts < all_strips ? cuts : all_strips);
        column_pieces = blocks_of(all_strips, strips);
    }

    std::int64_t count() const { return row_pieces * column_pieces; }
};

/// Puts columns `begin` .. `begin + kernel.columns` of `count` into a strip; `row_of(column)` is
/// where a column is.
template <class RowOf>
void put_strip(const StripKernel& kernel, const Multiplier& multiplier, Type type,
               std::int64_t depth, std::int64_t begin, std::int64_t count, RowOf row_of,
               std::byte* strip) {
    for (int c = 0; c < kernel.columns; ++c) {
        if (begin + c < count) {
            put_prepared(kernel, multiplier, type, row_of(begin + c), depth, strip, c);
        } else {
            put_zeros(kernel, depth, strip, c);
        }
    }
}

/// Results of a pair of strips of which not all rows or columns are wanted.
struct Spare {
    alignas(64) float tile[kStripColumns][kMostStripRows];

    void multiply(const StripKernel& kernel, const std::byte* rows, const std::byte* columns,
                  std::int64_t depth, int width, float* const* out, std::int64_t wanted, bool add) {
        float* to[kStripColumns];
        for (int c = 0; c < kernel.columns; ++c) to[c] = tile[c];
        kernel.multiply(rows, columns, depth, width, to, false);
        for (int c = 0; c < width; ++c) {
            for (std::int64_t r = 0; r < wanted; ++r) {
                out[c][r] = add ? out[c][r] + tile[c][r] : tile[c][r];
            }
        }
    }
};

/// Multiplies `count` elements of packed rows and of packed columns, `rows` rows and `columns`
/// columns. Strips of rows follow each other at once, those of columns `pitch` bytes apart;
/// `out_of(column)` is where the results of a column go, or are added to.
template <class OutOf>
void multiply_strips(const StripKernel& kernel, const std::byte* row_strips, std::int64_t rows,
                     const std::byte* column_strips, std::size_t pitch, std::int64_t columns,
                     std::int64_t count, OutOf out_of, bool add) {
    const std::size_t row_strip = kernel.row_strip_size(count);
    for (std::int64_t c = 0; c < columns; c += kernel.columns, column_strips += pitch) {
        const std::int64_t rest = columns - c;
        const int width = rest < kernel.columns ? static_cast<int>(rest) : kernel.columns;
        float* out[kStripColumns];
        for (int i = 0; i < width; ++i) out[i] = out_of(c + i);
        const std::byte* from = row_strips;
        for (std::int64_t r = 0; r < rows; r += kernel.rows, from += row_strip) {
            const std::int64_t wanted = rows - r;
            if (wanted >= kernel.rows && width == kernel.columns) {
                kernel.multiply(from, column_strips, count, width, out, add);
            } else {
                Spare spare;
                spare.multiply(kernel, from, column_strips, count, width, out,
                               wanted < kernel.rows ? wanted : kernel.rows, add);
            }
            for (int i = 0; i < width; ++i) out[i] += kernel.rows;
        }
    }
}

/// With no more strips of columns than this, a strip of rows is multiplied as soon as it is packed:
/// it comes from the first cache then. With more, strips of columns are what should stay near.
inline constexpr std::int64_t kFewStrips = 4;

/// The products of up to `kPieceRows` rows and columns `columns`, the first of which begins a
/// strip. `strips` is the strip of column 0, `out_of(column)` where the results of a column go.
template <class OutOf>
void multiply_piece(const StripKernel& kernel, const Panel& panel, const std::byte* strips,
                    Range columns, OutOf out_of, std::byte* buffer) {
    const std::size_t pitch = kernel.column_strip_size(panel.depth);
    const std::int64_t width = columns.end - columns.begin;
    strips += static_cast<std::size_t>(columns.begin / kernel.columns) * pitch;
    const std::int64_t at_once =
        blocks_of(width, kernel.columns) <= kFewStrips ? kernel.rows : panel.count;
    for (std::int64_t begin = 0; begin < panel.depth; begin += kernel.depth) {
        const std::int64_t left = panel.depth - begin;
        const std::int64_t count = left < kernel.depth ? left : kernel.depth;
        for (std::int64_t first = 0; first < panel.count; first += at_once) {
            const std::int64_t last = first + at_once < panel.count ? first + at_once : panel.count;
            std::byte* to = buffer;
            for (std::int64_t r = first; r < last; r += kernel.rows) {
                Panel part = panel;
                part.rows += static_cast<std::size_t>(r) * panel.pitch;
                part.count = last - r < kernel.rows ? last - r : kernel.rows;
                kernel.pack_rows(part, begin, count, to);
                to += kernel.row_strip_size(count);
            }
            multiply_strips(
                kernel, buffer, last - first, strips + kernel.column_strip_size(begin), pitch,
                width, count, [&](std::int64_t c) { return out_of(columns.begin + c) + first; },
                begin > 0);
        }
    }
}

}  // namespace heddle::cpu
