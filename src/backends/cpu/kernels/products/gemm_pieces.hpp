#pragma once

#include <hwy/cache_control.h>

#include <algorithm>

#include "backends/cpu/dot/gemm.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/products/blocking.hpp"

/// Matrix products over micro-panels: how they are cut into pieces, and how a piece is computed.
namespace heddle::cpu {

/// Rows of a piece, at most.
inline constexpr std::int64_t kPieceRows = 128;

/// Bytes that the micro-panels of a piece take, which each task needs for itself; they stay in
/// L2.
inline constexpr std::size_t kPieceBytes = 256 * 1024;

/// With fewer columns (or rows, or elements) the rows are better read where they are, on every
/// instruction set. Rows of a few elements make up for micro-panels of columns only if there are
/// enough of them.
inline constexpr std::int64_t kLeastMicroPanelColumns = 3;
inline constexpr std::int64_t kLeastMicroPanelRows = 8, kLeastShortMicroPanelRows = 32;
inline constexpr std::int64_t kLeastMicroPanelDepth = 8, kShortMicroPanelDepth = 32;

inline bool may_have_micro_panels(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    const std::int64_t least =
        depth < kShortMicroPanelDepth ? kLeastShortMicroPanelRows : kLeastMicroPanelRows;
    return columns >= kLeastMicroPanelColumns && rows >= least && depth >= kLeastMicroPanelDepth;
}

inline bool has_micro_panels(const GemmKernel& kernel, std::int64_t rows, std::int64_t columns,
                             std::int64_t depth) {
    return kernel && kernel.pays_for(columns, depth) && may_have_micro_panels(rows, columns, depth);
}

/// Bytes of `count` columns in micro-panels, on any instruction set.
inline std::size_t micro_panels_size(std::int64_t count, std::int64_t depth) {
    return static_cast<std::size_t>(blocks_of(count, kMicroPanelColumns) * kMicroPanelColumns *
                                    blocks_of(depth, 32) * 32) *
           kMicroPanelElement;
}

/// How `rows` rows and `micro_panels` micro-panels of columns, `matrices` times, become pieces for
/// tasks.
struct Pieces {
    std::int64_t rows;          ///< of a piece
    std::int64_t row_pieces;    ///< of a matrix
    std::int64_t micro_panels;  ///< of columns, of a piece
    std::int64_t column_pieces;

    Pieces(const GemmKernel& kernel, std::int64_t all_rows, std::int64_t all_micro_panels,
           std::int64_t matrices, int tasks) {
        const std::int64_t wanted = tasks > 1 ? std::int64_t{4} * tasks : 1;
        rows = kPieceRows;
        while (rows / kernel.rows * kernel.row_micro_panel_size(kernel.depth) > kPieceBytes)
            rows /= 2;
        while (rows > kernel.rows && blocks_of(all_rows, rows) * matrices < wanted) rows /= 2;
        row_pieces = blocks_of(all_rows, rows);
        const std::int64_t cuts = blocks_of(wanted, row_pieces * matrices);
        micro_panels =
            blocks_of(all_micro_panels, cuts < all_micro_panels ? cuts : all_micro_panels);
        column_pieces = blocks_of(all_micro_panels, micro_panels);
    }

    std::int64_t count() const { return row_pieces * column_pieces; }
};

/// Puts columns `begin` .. `begin + kernel.columns` of `count` into a micro-panel; `row_of(column)`
/// is where a column is.
template <class RowOf>
void put_micro_panel(const GemmKernel& kernel, const Multiplier& multiplier, Type type,
                     std::int64_t depth, std::int64_t begin, std::int64_t count, RowOf row_of,
                     std::byte* micro_panel) {
    for (int c = 0; c < kernel.columns; ++c) {
        if (begin + c < count) {
            put_prepared(kernel, multiplier, type, row_of(begin + c), depth, micro_panel, c);
        } else {
            put_zeros(kernel, depth, micro_panel, c);
        }
    }
}

/// Calls `multiply(to, add)` for a pair of micro-panels, so that the results of `rows` rows and
/// `width` columns are in `out`. Kernels give all results of their micro-panels: those that are not
/// wanted go to a place of their own.
template <class Multiply>
void take_results(const GemmKernel& kernel, std::int64_t rows, int width, float* const* out,
                  bool add, Multiply multiply) {
    alignas(64) float spare[kMicroPanelColumns][kMostMicroPanelRows];
    float* to[kMicroPanelColumns];
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
inline void prefetch_part(const std::byte* from, std::size_t size, std::int64_t turn,
                          std::int64_t turns) {
    const std::size_t part = size / static_cast<std::size_t>(turns);
    from += static_cast<std::size_t>(turn) * part;
    for (std::size_t at = 0; at < part; at += 64) hwy::Prefetch(from + at);
}

/// Multiplies `count` elements of packed rows and of packed columns, `rows` rows and `columns`
/// columns. Micro-panels of rows follow each other at once, those of columns `pitch` bytes apart;
/// `out_of(column)` is where the results of a column go, or are added to.
template <class OutOf>
void multiply_micro_panels(const GemmKernel& kernel, const std::byte* row_micro_panels,
                           std::int64_t rows, const std::byte* column_micro_panels,
                           std::size_t pitch, std::int64_t columns, std::int64_t count,
                           OutOf out_of, bool add) {
    const std::size_t row_micro_panel = kernel.row_micro_panel_size(count);
    const std::size_t column_micro_panel = kernel.column_micro_panel_size(count);
    const std::int64_t turns = blocks_of(rows, kernel.rows);
    for (std::int64_t c = 0; c < columns; c += kernel.columns, column_micro_panels += pitch) {
        const int width = kernel.width_of(columns - c);
        float* out[kMicroPanelColumns];
        for (int i = 0; i < width; ++i) out[i] = out_of(c + i);
        const std::byte* from = row_micro_panels;
        for (std::int64_t r = 0; r < rows; r += kernel.rows, from += row_micro_panel) {
            // The next micro-panel of columns begins elsewhere: nothing else would prefetch it in
            // time. With one micro-panel of rows only, those of columns are so few that they are
            // near already.
            if (turns > 1 && c + kernel.columns < columns) {
                prefetch_part(column_micro_panels + pitch, column_micro_panel, r / kernel.rows,
                              turns);
            }
            take_results(kernel, rows - r, width, out, add, [&](float* const* to, bool adds) {
                kernel.multiply(from, column_micro_panels, count, width, to, adds);
            });
            for (int i = 0; i < width; ++i) out[i] += kernel.rows;
        }
    }
}

/// Packs elements `begin` .. `begin + count` of all rows of a view into micro-panels at `to`, and
/// multiplies them with the first `width` columns of `micro_panel`, whose results go to `out` or
/// are added to it.
inline void pack_and_multiply(const GemmKernel& kernel, const MatrixView& view, std::int64_t begin,
                              std::int64_t count, std::byte* to, const std::byte* micro_panel,
                              int width, float** out, bool add) {
    for (std::int64_t r = 0; r < view.count; r += kernel.rows) {
        MatrixView part = view;
        part.rows += static_cast<std::size_t>(r) * view.pitch;
        part.count = view.count - r < kernel.rows ? view.count - r : kernel.rows;
        take_results(kernel, part.count, width, out, add, [&](float* const* results, bool adds) {
            if (kernel.pack_and_multiply != nullptr && part.count == kernel.rows) {
                kernel.pack_and_multiply(part, begin, count, to, micro_panel, width, results, adds);
            } else {
                kernel.pack_rows(part, begin, count, to);
                kernel.multiply(to, micro_panel, count, width, results, adds);
            }
        });
        for (int i = 0; i < width; ++i) out[i] += kernel.rows;
        to += kernel.row_micro_panel_size(count);
    }
}

/// With no more columns than this, a micro-panel of rows is multiplied as soon as it is packed: it
/// comes from L1 then. With more, micro-panels of columns are what should stay near.
inline constexpr std::int64_t kFewColumns = 48;

/// The products of the rows that fill their micro-panels with one micro-panel of columns, over as
/// many elements at a time as there is room for: packing then hardly ever waits for multiplying, or
/// the other way round. Gives the number of these rows, none if packing and multiplying are apart.
inline std::int64_t multiply_single(const GemmKernel& kernel, const MatrixView& view,
                                    const std::byte* micro_panel, int width, float* const* out,
                                    std::byte* buffer) {
    if (kernel.pack_and_multiply == nullptr) return 0;
    std::int64_t most = kernel.depth;
    while (kernel.row_micro_panel_size(2 * most) <= kPieceBytes) most *= 2;
    MatrixView part = view;
    part.count = view.count / kernel.rows * kernel.rows;
    for (std::int64_t begin = 0; begin < view.depth; begin += most) {
        const std::int64_t count = std::min(most, view.depth - begin);
        for (std::int64_t first = 0; first < part.count; first += kernel.rows) {
            MatrixView micro_panel_of_rows = part;
            micro_panel_of_rows.rows += static_cast<std::size_t>(first) * view.pitch;
            micro_panel_of_rows.count = kernel.rows;
            float* to[kMicroPanelColumns];
            for (int c = 0; c < width; ++c) to[c] = out[c] + first;
            pack_and_multiply(kernel, micro_panel_of_rows, begin, count, buffer,
                              micro_panel + kernel.column_micro_panel_size(begin), width, to,
                              begin > 0);
        }
    }
    return part.count;
}

/// The products of up to `kPieceRows` rows and columns `columns`, the first of which begins a
/// micro-panel. `micro_panels` is the micro-panel of column 0, `out_of(column)` where the results
/// of a column go.
template <class OutOf>
void multiply_piece(const GemmKernel& kernel, const MatrixView& view, const std::byte* micro_panels,
                    Range columns, OutOf out_of, std::byte* buffer) {
    const std::size_t pitch = kernel.column_micro_panel_size(view.depth);
    const std::int64_t all = columns.end - columns.begin;
    const int width = kernel.width_of(all);
    micro_panels += static_cast<std::size_t>(columns.begin / kernel.columns) * pitch;
    const std::int64_t at_once = all <= kFewColumns ? kernel.rows : view.count;
    std::int64_t done = 0;
    if (all == width) {
        float* out[kMicroPanelColumns];
        for (int c = 0; c < width; ++c) out[c] = out_of(columns.begin + c);
        done = multiply_single(kernel, view, micro_panels, width, out, buffer);
    }
    for (std::int64_t begin = 0; begin < view.depth; begin += kernel.depth) {
        const std::int64_t left = view.depth - begin;
        const std::int64_t count = left < kernel.depth ? left : kernel.depth;
        const std::byte* micro_panel = micro_panels + kernel.column_micro_panel_size(begin);
        for (std::int64_t first = done; first < view.count; first += at_once) {
            MatrixView part = view;
            part.rows += static_cast<std::size_t>(first) * view.pitch;
            part.count = view.count - first < at_once ? view.count - first : at_once;
            const auto out_at = [&](std::int64_t c) { return out_of(columns.begin + c) + first; };
            float* out[kMicroPanelColumns];
            for (int c = 0; c < width; ++c) out[c] = out_at(c);
            pack_and_multiply(kernel, part, begin, count, buffer, micro_panel, width, out,
                              begin > 0);
            multiply_micro_panels(
                kernel, buffer, part.count, micro_panel + pitch, pitch, all - width, count,
                [&](std::int64_t c) { return out_at(width + c); }, begin > 0);
        }
    }
}

}  // namespace heddle::cpu
