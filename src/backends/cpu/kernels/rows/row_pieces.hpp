#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "backends/cpu/kernel.hpp"

/// Rows that are measured before they are written, cut into pieces so that one long row occupies
/// all tasks. Pieces are the same for any number of tasks, and so are results.
namespace heddle::cpu {

/// Elements of a piece: with what is written for it, it stays in L1.
inline constexpr std::int64_t kRowPiece = 2048;

inline std::int64_t pieces_of_row(std::int64_t n) {
    return std::max<std::int64_t>(1, (n + kRowPiece - 1) / kRowPiece);
}

inline Range row_piece(std::int64_t index, std::int64_t n) {
    return {index * kRowPiece, std::min((index + 1) * kRowPiece, n)};
}

/// Below so many rows per task, tasks share pieces instead of rows, unless rows are single pieces.
inline constexpr std::int64_t kLeastRowsPerTask = 4;

/// What is known of a piece takes at most this.
inline constexpr std::size_t kPieceSize = 16;

/// What a node wants that goes over the rows of `x` in pieces.
inline Demand pieces_demand(const Tensor& x, double bytes, double flops, int threads) {
    const std::int64_t pieces = pieces_of_row(x.ne[0]);
    const int tasks = worthwhile_tasks(bytes, flops, pieces * row_count(x), threads);
    return {.tasks = tasks,
            .scratch = static_cast<std::size_t>(tasks * kLeastRowsPerTask * pieces) * kPieceSize};
}

/// Bytes for a row of `n` floats that passes through a buffer, and what is known of its pieces.
inline std::size_t buffered_row_size(std::int64_t n) {
    const auto parts = static_cast<std::size_t>(pieces_of_row(n)) * kPieceSize;
    return (parts + static_cast<std::size_t>(n) * sizeof(float) + 63) / 64 * 64;
}

/// For steps that know all of a piece after measuring it.
struct MeasuredAtOnce {
    template <class Part>
    void refine(const Row&, Range, Part&) const {}
};

inline Row nth_row(const Tensor& x, std::int64_t index) {
    const std::int64_t plane = index / x.ne[1];
    return {index % x.ne[1], plane % x.ne[2], plane / x.ne[2]};
}

/// The row after `row`.
inline Row next_row(const Tensor& x, const Row& row) {
    if (row.i1 + 1 < x.ne[1]) return {row.i1 + 1, row.i2, row.i3};
    if (row.i2 + 1 < x.ne[2]) return {0, row.i2 + 1, row.i3};
    return {0, 0, row.i3 + 1};
}

/// Measures piece after piece. `refine` follows one piece behind: the end of measuring a piece,
/// which is a chain of operations that wait for each other, hides behind the start of the next.
template <class Part, class Steps>
class PieceMeter {
public:
    explicit PieceMeter(const Steps& steps) : steps_(steps) {}

    /// `row` and `part` stay where they are until the next piece is measured, or settle() called.
    void measure(const Row& row, Range range, Part& part) {
        part = steps_.measure(row, range);
        settle();
        row_ = &row;
        range_ = range;
        part_ = &part;
    }

    /// After this everything is known of all pieces.
    void settle() {
        if (part_ != nullptr) steps_.refine(*row_, range_, *part_);
        part_ = nullptr;
    }

private:
    const Steps& steps_;
    const Row* row_ = nullptr;
    Range range_;
    Part* part_ = nullptr;
};

/// Whole rows, this task's share of those of `x`.
template <class Part, class Steps>
void work_in_rows(const Tensor& x, const Task& task, const Steps& steps) {
    const std::int64_t n = x.ne[0], pieces = pieces_of_row(n);
    // Several short rows at a time, for the same reason as in PieceMeter. They fill half of
    // L1, where they are when they are read again.
    const std::int64_t together = std::clamp<std::int64_t>(
        2 * kRowPiece / std::max<std::int64_t>(n, 1), 1, kLeastRowsPerTask);
    Part* parts = reinterpret_cast<Part*>(
        task.scratch +
        static_cast<std::size_t>(task.index * kLeastRowsPerTask * pieces) * kPieceSize);
    PieceMeter<Part, Steps> meter(steps);
    Row rows[kLeastRowsPerTask];
    typename Steps::Value values[kLeastRowsPerTask];
    const Range mine = task.share(row_count(x));
    if (mine.begin >= mine.end) return;
    Row row = nth_row(x, mine.begin);
    for (std::int64_t first = mine.begin; first < mine.end; first += together) {
        const std::int64_t count = std::min(together, mine.end - first);
        for (std::int64_t k = 0; k < count; ++k, row = next_row(x, row)) {
            rows[k] = row;
            for (std::int64_t i = 0; i < pieces; ++i) {
                meter.measure(rows[k], row_piece(i, n), parts[k * pieces + i]);
            }
        }
        meter.settle();
        for (std::int64_t k = 0; k < count; ++k) {
            const std::span all(parts + k * pieces, static_cast<std::size_t>(pieces));
            values[k] = steps.combine(rows[k], std::span<const Part>(all));
        }
        for (std::int64_t k = 0; k < count; ++k) {
            for (std::int64_t i = 0; i < pieces; ++i) {
                steps.finish(rows[k], row_piece(i, n), parts[k * pieces + i], values[k]);
            }
        }
    }
}

/// For this task's share of the rows of `x`: `steps.measure(row, range)` gives a Part for each
/// piece, `refine(row, range, part)` adds what can only be known then, `combine(row, parts)` makes
/// one Value of those of a row, `finish(row, range, part, value)` writes each piece. Parts lie in
/// the scratch memory.
template <class Part, class Steps>
void work_in_pieces(const Tensor& x, const Task& task, const Steps& steps) {
    static_assert(sizeof(Part) <= kPieceSize && kPieceSize % alignof(Part) == 0);
    const std::int64_t n = x.ne[0], rows = row_count(x), pieces = pieces_of_row(n);
    if (task.count == 1 || pieces == 1 || rows >= kLeastRowsPerTask * task.count) {
        return work_in_rows<Part>(x, task, steps);
    }
    Part* all = reinterpret_cast<Part*>(task.scratch);
    const Range mine = task.share(rows * pieces);
    PieceMeter<Part, Steps> meter(steps);
    for (std::int64_t i = mine.begin; i < mine.end;) {
        const Row row = nth_row(x, i / pieces);
        const std::int64_t first = i / pieces * pieces;
        for (; i < std::min(first + pieces, mine.end); ++i) {
            meter.measure(row, row_piece(i - first, n), all[i]);
        }
        meter.settle();
    }
    task.sync();
    for (std::int64_t i = mine.begin; i < mine.end;) {
        const std::int64_t first = i / pieces * pieces;
        const Row row = nth_row(x, i / pieces);
        const std::span<const Part> parts(all + first, static_cast<std::size_t>(pieces));
        const auto value = steps.combine(row, parts);
        for (; i < std::min(first + pieces, mine.end); ++i) {
            steps.finish(row, row_piece(i - first, n), all[i], value);
        }
    }
}

}  // namespace heddle::cpu
