#pragma once

#include <hwy/cache_control.h>

#include <algorithm>

#include "backends/cpu/dot/strips.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/products/blocking.hpp"

/// Matrix products over strips: how they are cut into pieces, and how a piece is computed.
namespace heddle::cpu {

/// Rows of a piece, at most.
inline constexpr std::int64_t kPieceRows = 128;

/// Bytes that the strips of a piece take, which each task needs for itself; they stay in
/// L2.
inline constexpr std::size_t kPieceBytes = 256 * 1024;

/// With fewer columns (or rows, or elements) the rows are better read where they are, on every
/// instruction set. Rows of a few elements make up for strips of columns only if there are enough
/// of them.
inline constexpr std::int64_t kLeastStripColumns = 3;
inline constexpr std::int64_t kLeastStripRows = 8, kLeastShortStripRows = 32;
inline constexpr std::int64_t kLeastStripDepth = 8, kShortStripDepth = 32;

inline bool may_have_strips(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    const std::int64_t least = depth < kShortStripDepth ? kLeastShortStripRows : kLeastStripRows;
    return columns >= kLeastStripColumns && rows >= least && depth >= kLeastStripDepth;
}

inline bool has_strips(const StripKernel& kernel, std::int64_t rows, std::int64_t columns,
                       std::int64_t depth) {
    return kernel && kernel.pays_for(columns, depth) && may_have_strips(rows, columns, depth);
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

/// Calls `multiply(to, add)` for a pair of strips, so that the results of `rows` rows and `width`
/// columns are in `out`. Kernels give all results of their strips: those that nobody wants go to a
/// place of their own.
template <class Multiply>
void take_results(const StripKernel& kernel, std::int64_t rows, int width, float* const* out,
                  bool add, Multiply multiply) {
    alignas(64) float spare[kStripColumns][kMostStripRows];
    float* to[kStripColumns];
    if (rows >= kernel.rows) {
        for (int c = 0; c < width; ++c) to[c] = out[c];
        for (int c = width; c < kernel.columns; ++c) {
            to[c] = std::fill_n(spare[c], kernel.rows, 0.0f) - kernel.rows;
        }
        return multiply(static_cast<float* const*>(to), add);
    }
    for (int c = 0; c < kernel.columns; ++c) to[c] = spare[c];
    multiply(static_cast<float* const*>(to), false);
    for (int c = 0; c < width; ++c) {
        for (std::int64_t r = 0; r < rows; ++r) {
            out[c][r] = add ? out[c][r] + spare[c][r] : spare[c][r];
        }
    }
}

/// Asks for turn `turn` of `turns` parts of `size` bytes, into L1.
inline void fetch_part(const std::byte* from, std::size_t size, std::int64_t turn,
                       std::int64_t turns) {
    const std::size_t part = size / static_cast<std::size_t>(turns);
    from += static_cast<std::size_t>(turn) * part;
    for (std::size_t at = 0; at < part; at += 64) hwy::Prefetch(from + at);
}

/// Multiplies `count` elements of packed rows and of packed columns, `rows` rows and `columns`
/// columns. Strips of rows follow each other at once, those of columns `pitch` bytes apart;
/// `out_of(column)` is where the results of a column go, or are added to.
template <class OutOf>
void multiply_strips(const StripKernel& kernel, const std::byte* row_strips, std::int64_t rows,
                     const std::byte* column_strips, std::size_t pitch, std::int64_t columns,
                     std::int64_t count, OutOf out_of, bool add) {
    const std::size_t row_strip = kernel.row_strip_size(count);
    const std::size_t column_strip = kernel.column_strip_size(count);
    const std::int64_t turns = blocks_of(rows, kernel.rows);
    for (std::int64_t c = 0; c < columns; c += kernel.columns, column_strips += pitch) {
        const int width = kernel.width_of(columns - c);
        float* out[kStripColumns];
        for (int i = 0; i < width; ++i) out[i] = out_of(c + i);
        const std::byte* from = row_strips;
        for (std::int64_t r = 0; r < rows; r += kernel.rows, from += row_strip) {
            // The next strip of columns begins elsewhere: nobody else would ask for it in time.
            // With one strip of rows only, those of columns are so few that they are near already.
            if (turns > 1 && c + kernel.columns < columns) {
                fetch_part(column_strips + pitch, column_strip, r / kernel.rows, turns);
            }
            take_results(kernel, rows - r, width, out, add, [&](float* const* to, bool adds) {
                kernel.multiply(from, column_strips, count, width, to, adds);
            });
            for (int i = 0; i < width; ++i) out[i] += kernel.rows;
        }
    }
}

/// Packs elements `begin` .. `begin + count` of all rows of a panel into strips at `to`, and
/// multiplies them with the first `width` columns of `strip`, whose results go to `out` or are
/// added to it.
inline void pack_and_multiply(const StripKernel& kernel, const Panel& panel, std::int64_t begin,
                              std::int64_t count, std::byte* to, const std::byte* strip, int width,
                              float** out, bool add) {
    for (std::int64_t r = 0; r < panel.count; r += kernel.rows) {
        Panel part = panel;
        part.rows += static_cast<std::size_t>(r) * panel.pitch;
        part.count = panel.count - r < kernel.rows ? panel.count - r : kernel.rows;
        take_results(kernel, part.count, width, out, add, [&](float* const* results, bool adds) {
            if (kernel.pack_and_multiply != nullptr && part.count == kernel.rows) {
                kernel.pack_and_multiply(part, begin, count, to, strip, width, results, adds);
            } else {
                kernel.pack_rows(part, begin, count, to);
                kernel.multiply(to, strip, count, width, results, adds);
            }
        });
        for (int i = 0; i < width; ++i) out[i] += kernel.rows;
        to += kernel.row_strip_size(count);
    }
}

/// With no more columns than this, a strip of rows is multiplied as soon as it is packed: it comes
/// from L1 then. With more, strips of columns are what should stay near.
inline constexpr std::int64_t kFewColumns = 48;

/// The products of the rows that fill their strips with one strip of columns, over as many elements
/// at a time as there is room for: packing then hardly ever waits for multiplying, or the other way
/// round. Gives the number of these rows, none if packing and multiplying are apart.
inline std::int64_t multiply_single(const StripKernel& kernel, const Panel& panel,
                                    const std::byte* strip, int width, float* const* out,
                                    std::byte* buffer) {
    if (kernel.pack_and_multiply == nullptr) return 0;
    std::int64_t most = kernel.depth;
    while (kernel.row_strip_size(2 * most) <= kPieceBytes) most *= 2;
    Panel part = panel;
    part.count = panel.count / kernel.rows * kernel.rows;
    for (std::int64_t begin = 0; begin < panel.depth; begin += most) {
        const std::int64_t count = std::min(most, panel.depth - begin);
        for (std::int64_t first = 0; first < part.count; first += kernel.rows) {
            Panel strip_of_rows = part;
            strip_of_rows.rows += static_cast<std::size_t>(first) * panel.pitch;
            strip_of_rows.count = kernel.rows;
            float* to[kStripColumns];
            for (int c = 0; c < width; ++c) to[c] = out[c] + first;
            pack_and_multiply(kernel, strip_of_rows, begin, count, buffer,
                              strip + kernel.column_strip_size(begin), width, to, begin > 0);
        }
    }
    return part.count;
}

/// The products of up to `kPieceRows` rows and columns `columns`, the first of which begins a
/// strip. `strips` is the strip of column 0, `out_of(column)` where the results of a column go.
template <class OutOf>
void multiply_piece(const StripKernel& kernel, const Panel& panel, const std::byte* strips,
                    Range columns, OutOf out_of, std::byte* buffer) {
    const std::size_t pitch = kernel.column_strip_size(panel.depth);
    const std::int64_t all = columns.end - columns.begin;
    const int width = kernel.width_of(all);
    strips += static_cast<std::size_t>(columns.begin / kernel.columns) * pitch;
    const std::int64_t at_once = all <= kFewColumns ? kernel.rows : panel.count;
    std::int64_t done = 0;
    if (all == width) {
        float* out[kStripColumns];
        for (int c = 0; c < width; ++c) out[c] = out_of(columns.begin + c);
        done = multiply_single(kernel, panel, strips, width, out, buffer);
    }
    for (std::int64_t begin = 0; begin < panel.depth; begin += kernel.depth) {
        const std::int64_t left = panel.depth - begin;
        const std::int64_t count = left < kernel.depth ? left : kernel.depth;
        const std::byte* strip = strips + kernel.column_strip_size(begin);
        for (std::int64_t first = done; first < panel.count; first += at_once) {
            Panel part = panel;
            part.rows += static_cast<std::size_t>(first) * panel.pitch;
            part.count = panel.count - first < at_once ? panel.count - first : at_once;
            const auto out_at = [&](std::int64_t c) { return out_of(columns.begin + c) + first; };
            float* out[kStripColumns];
            for (int c = 0; c < width; ++c) out[c] = out_at(c);
            pack_and_multiply(kernel, part, begin, count, buffer, strip, width, out, begin > 0);
            multiply_strips(
                kernel, buffer, part.count, strip + pitch, pitch, all - width, count,
                [&](std::int64_t c) { return out_at(width + c); }, begin > 0);
        }
    }
}

}  // namespace heddle::cpu
